-- The states of a job, in a row of pages of its own, by its number (requests.seq):
-- jobs at work are neighbours, and their next states go to the same few pages.
CREATE TABLE job_history (
    job    INTEGER NOT NULL REFERENCES requests(seq),
    n      INTEGER NOT NULL CHECK (n >= 1), -- rises
    state  TEXT NOT NULL CHECK (state IN ('refused', 'quoted', 'paid', 'running', 'delivering',
        'succeeded', 'failed', 'canceled', 'expired')),
    code   TEXT NOT NULL,
    detail TEXT NOT NULL,
    at_ms  INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (job, n)
) STRICT, WITHOUT ROWID;
INSERT INTO job_history(job, n, state, code, detail, at_ms)
SELECT r.seq, s.seq, s.state, s.code, s.detail, s.at_ms -- read in order, so that nothing is sorted in memory
FROM requests r CROSS JOIN job_states s ON s.request_id = r.request_id ORDER BY r.seq, s.seq;
DROP TABLE job_states;
CREATE VIEW job_states AS
SELECT r.request_id, h.n AS seq, h.state, h.code, h.detail, h.at_ms
FROM job_history h JOIN requests r ON r.seq = h.job;

CREATE INDEX job_history_refused ON job_history(at_ms) WHERE state = 'refused';
CREATE INDEX job_history_succeeded ON job_history(job) WHERE state = 'succeeded';
CREATE INDEX job_history_failed ON job_history(job) WHERE state = 'failed';

CREATE TRIGGER job_history_no_update BEFORE UPDATE ON job_history
BEGIN SELECT RAISE(ABORT, 'job_history is append-only'); END;
CREATE TRIGGER job_history_keep BEFORE DELETE ON job_history
WHEN OLD.state <> 'refused'
BEGIN SELECT RAISE(ABORT, 'job_history is append-only'); END;
CREATE TRIGGER job_history_end BEFORE INSERT ON job_history
WHEN EXISTS (SELECT 1 FROM job_history WHERE job = NEW.job
    AND state IN ('refused', 'succeeded', 'failed', 'canceled', 'expired'))
BEGIN SELECT RAISE(ABORT, 'job has ended'); END;
CREATE TRIGGER job_history_fee BEFORE INSERT ON job_history
WHEN NEW.state IN ('paid', 'running')
    AND EXISTS (SELECT 1 FROM job_engagements e JOIN requests r USING (request_id) WHERE r.seq = NEW.job
        AND NOT EXISTS (SELECT 1 FROM engagement_receipts x WHERE x.request_id = e.request_id))
BEGIN SELECT RAISE(ABORT, 'the engagement fee is not paid'); END;

DROP TRIGGER requests_keep;
CREATE TRIGGER requests_keep BEFORE DELETE ON requests
WHEN EXISTS (SELECT 1 FROM jobs WHERE request_id = OLD.request_id)
    OR EXISTS (SELECT 1 FROM job_history WHERE job = OLD.seq)
BEGIN SELECT RAISE(ABORT, 'requests is append-only'); END;

DROP VIEW job_current;
CREATE VIEW job_current AS
SELECT r.seq, r.request_id, r.buyer, h.state, h.code, h.detail, h.at_ms
FROM requests r JOIN job_history h ON h.job = r.seq AND h.n = (SELECT max(n) FROM job_history x WHERE x.job = r.seq);

-- The index of open jobs follows from the first state and the last.
CREATE TRIGGER job_history_open AFTER INSERT ON job_history
WHEN NEW.n = 1 AND NEW.state IN ('quoted', 'paid', 'running', 'delivering')
BEGIN INSERT INTO open_jobs SELECT request_id FROM requests WHERE seq = NEW.job; END;
CREATE TRIGGER job_history_closed AFTER INSERT ON job_history
WHEN NEW.n > 1 AND NEW.state NOT IN ('quoted', 'paid', 'running', 'delivering')
BEGIN DELETE FROM open_jobs WHERE request_id = (SELECT request_id FROM requests WHERE seq = NEW.job); END;
