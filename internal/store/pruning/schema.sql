-- What goes of jobs that were sold, and when. Nothing here shortens what a quote
-- promised, and nothing goes of a job in which something may still happen.

-- The contents that a result brought. A content stays as long as a row of any job names
-- it. blobs are those that blob servers were given, which may be other parts too.
CREATE TABLE job_contents (
    job    INTEGER NOT NULL REFERENCES requests(seq),
    part   TEXT NOT NULL CHECK (part IN ('results', 'artifacts', 'trajectories', 'blobs')),
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    PRIMARY KEY (job, part, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_contents_digest ON job_contents(digest);
CREATE TRIGGER job_contents_no_update BEFORE UPDATE ON job_contents
BEGIN SELECT RAISE(ABORT, 'job_contents is append-only'); END;
CREATE TRIGGER job_contents_stored BEFORE INSERT ON job_contents
WHEN NOT EXISTS (SELECT 1 FROM contents WHERE digest = NEW.digest)
BEGIN SELECT RAISE(ABORT, 'part of a job without its content'); END;
CREATE TRIGGER job_contents_keep BEFORE DELETE ON job_contents
WHEN NOT EXISTS (SELECT 1 FROM job_pruned WHERE job = OLD.job AND part = OLD.part)
BEGIN SELECT RAISE(ABORT, 'content of a job is kept'); END;

-- When each part of a job may go at the earliest, as its quote promised: until_ms counts
-- from the job's end, and is far away for what stays for ever. A row moves to a later
-- time, never to an earlier one, and goes once its part is pruned.
CREATE TABLE job_keeps (
    part     TEXT NOT NULL,
    until_ms INTEGER NOT NULL,
    job      INTEGER NOT NULL REFERENCES requests(seq),
    ended_ms INTEGER NOT NULL,
    PRIMARY KEY (part, until_ms, job)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_keeps_job ON job_keeps(job);
CREATE TRIGGER job_keeps_longer BEFORE UPDATE ON job_keeps
WHEN NEW.until_ms <= OLD.until_ms OR NEW.part <> OLD.part OR NEW.job <> OLD.job OR NEW.ended_ms <> OLD.ended_ms
BEGIN SELECT RAISE(ABORT, 'what is promised is not shortened'); END;
CREATE TRIGGER job_keeps_keep BEFORE DELETE ON job_keeps
WHEN NOT EXISTS (SELECT 1 FROM job_pruned WHERE job = OLD.job AND part = OLD.part)
BEGIN SELECT RAISE(ABORT, 'what is promised is kept'); END;

-- The promises of the quote count from the job's end, and from the last pruning if the
-- clock of the end is behind that. Members of a later version, and what is no time,
-- promise nothing that this program could prune.
CREATE TRIGGER job_history_keeps AFTER INSERT ON job_history
WHEN NEW.state IN ('succeeded', 'failed', 'canceled', 'expired')
BEGIN
    INSERT INTO job_keeps(part, until_ms, job, ended_ms)
    SELECT substr(e.key, 1, length(e.key) - 3), iif(e.type = 'integer', t.ended_ms + e.value, 9007199254740991), NEW.job, t.ended_ms
    FROM (SELECT max(NEW.at_ms, coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'prune_clock_ms'), 0)) AS ended_ms) t,
        requests r JOIN charges c ON c.request_id = r.request_id AND c.purpose = 'result'
        JOIN json_each(iif(json_valid(CAST(c.quote AS TEXT)), CAST(c.quote AS TEXT), '{}'), '$.retention') e
    WHERE r.seq = NEW.job AND e.type IN ('integer', 'null')
        AND e.key IN ('results_ms', 'artifacts_ms', 'trajectories_ms', 'journals_ms', 'blobs_ms', 'events_ms');
END;

-- What was pruned, of which job, when: for good.
CREATE TABLE job_pruned (
    job   INTEGER NOT NULL REFERENCES requests(seq),
    part  TEXT NOT NULL,
    at_ms INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (job, part)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER job_pruned_due BEFORE INSERT ON job_pruned
WHEN NOT EXISTS (SELECT 1 FROM job_keeps WHERE job = NEW.job AND part = NEW.part AND until_ms <= NEW.at_ms)
    OR EXISTS (SELECT 1 FROM guarded_jobs g JOIN requests r ON r.request_id = g.request_id WHERE r.seq = NEW.job)
BEGIN SELECT RAISE(ABORT, 'the part is promised, or the job is not over'); END;
CREATE TRIGGER job_pruned_marked AFTER INSERT ON job_pruned
BEGIN
    DELETE FROM job_keeps WHERE job = NEW.job AND part = NEW.part;
    INSERT INTO pruned_open(part, job) VALUES (NEW.part, NEW.job);
END;

-- The parts that are marked as pruned and not deleted yet. Rows change.
CREATE TABLE pruned_open (
    part TEXT NOT NULL,
    job  INTEGER NOT NULL,
    PRIMARY KEY (part, job)
) STRICT, WITHOUT ROWID;

-- The operator's word that a job is disputed, or no longer: the last row counts.
CREATE TABLE job_disputes (
    job   INTEGER NOT NULL REFERENCES requests(seq),
    n     INTEGER NOT NULL CHECK (n >= 1), -- rises
    open  INTEGER NOT NULL CHECK (open IN (0, 1)),
    at_ms INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (job, n)
) STRICT, WITHOUT ROWID;

-- The jobs of which nothing goes: open ones, those whose payment or refund is not
-- settled, those for which something is owed, and disputed ones.
CREATE VIEW guarded_jobs AS
SELECT request_id FROM open_jobs
UNION ALL SELECT request_id FROM unknown_payments
UNION ALL SELECT request_id FROM open_refunds
UNION ALL SELECT c.request_id FROM credits c
    WHERE NOT EXISTS (SELECT 1 FROM write_offs w WHERE w.request_id = c.request_id)
    AND (SELECT sum(e.msats) FROM credit_entries e WHERE e.buyer = c.buyer) > 0
UNION ALL SELECT r.request_id FROM requests r JOIN job_disputes d ON d.job = r.seq
    WHERE d.open = 1 AND d.n = (SELECT max(x.n) FROM job_disputes x WHERE x.job = d.job);
