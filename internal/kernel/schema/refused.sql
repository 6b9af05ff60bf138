-- Requests that were refused are strangers' doing, and cost them nothing. Their
-- rows keep a request from being looked at twice, which they need to do only as
-- long as it is young enough to be looked at: afterwards they may go.
DROP TRIGGER requests_no_delete;
CREATE TRIGGER requests_keep BEFORE DELETE ON requests
WHEN EXISTS (SELECT 1 FROM jobs WHERE request_id = OLD.request_id)
    OR EXISTS (SELECT 1 FROM job_states WHERE request_id = OLD.request_id)
BEGIN SELECT RAISE(ABORT, 'requests is append-only'); END;
DROP TRIGGER job_states_no_delete;
CREATE TRIGGER job_states_keep BEFORE DELETE ON job_states
WHEN OLD.state <> 'refused'
BEGIN SELECT RAISE(ABORT, 'job_states is append-only'); END;
CREATE INDEX job_states_refused ON job_states(at_ms) WHERE state = 'refused';
