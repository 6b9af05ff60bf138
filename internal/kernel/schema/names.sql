-- The names that other tables hold are not written a second time: each would be
-- two more pages of every job. Rows of correlation from before stay.
CREATE INDEX jobs_hash ON jobs('sha256:' || lower(hex(job_hash)));

CREATE VIEW job_names AS
SELECT request_id, kind, value, at_ms FROM correlation
UNION ALL SELECT request_id, 'job_hash', 'sha256:' || lower(hex(job_hash)), added_ms FROM jobs
UNION ALL SELECT request_id, 'directive_id', directive_id, 0 FROM job_orders
UNION ALL SELECT request_id, 'thread_id', thread_id, 0 FROM job_orders
UNION ALL SELECT request_id, 'session_id', session_id, finished_ms FROM job_results
UNION ALL SELECT request_id, 'result_event_id', event_id, finished_ms FROM job_results
UNION ALL SELECT request_id, 'receipt_id', receipt_id, issued_ms FROM receipts;
