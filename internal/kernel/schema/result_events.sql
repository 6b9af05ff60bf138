-- The events that told of a result after its first one, which every relay refused:
-- each is shorter than the one before, and the last counts.
CREATE TABLE job_result_events (
    request_id TEXT NOT NULL REFERENCES job_results(request_id),
    n          INTEGER NOT NULL CHECK (n >= 1),
    event_id   TEXT NOT NULL UNIQUE CHECK (event_id <> ''),
    event      BLOB NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (request_id, n)
) STRICT, WITHOUT ROWID;

DROP VIEW job_names;
CREATE VIEW job_names AS
SELECT request_id, kind, value, at_ms FROM correlation
UNION ALL SELECT request_id, 'job_hash', 'sha256:' || lower(hex(job_hash)), added_ms FROM jobs
UNION ALL SELECT request_id, 'directive_id', directive_id, 0 FROM job_orders
UNION ALL SELECT request_id, 'thread_id', thread_id, 0 FROM job_orders
UNION ALL SELECT request_id, 'session_id', session_id, finished_ms FROM job_results
UNION ALL SELECT request_id, 'result_event_id', event_id, finished_ms FROM job_results
UNION ALL SELECT request_id, 'result_event_id', event_id, at_ms FROM job_result_events
UNION ALL SELECT request_id, 'receipt_id', receipt_id, issued_ms FROM receipts;
