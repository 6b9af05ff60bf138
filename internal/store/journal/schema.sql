-- What ran here and what was said. In all areas times are milliseconds since 1970,
-- UTC; digests and payment hashes are 32 bytes; event ids and keys are 64 lower-case
-- hex digits. A table is append-only unless a comment says otherwise; schema.go adds
-- the triggers that hold it to that.

-- Cursors and other small values. Rows change.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY CHECK (key <> ''),
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE threads (
    thread_id  TEXT PRIMARY KEY CHECK (thread_id <> ''),
    parent     TEXT REFERENCES threads(thread_id),
    profile    TEXT NOT NULL CHECK (profile <> ''),
    created_ms INTEGER NOT NULL CHECK (created_ms >= 0),
    -- The last label may hold dots only in a key, as in job[a.b].
    CHECK (CASE WHEN parent IS NULL THEN thread_id NOT GLOB '*.*' OR thread_id GLOB '*[[]*.*[]]' AND thread_id NOT GLOB '*.*[[]*'
        ELSE substr(thread_id, 1, length(parent) + 1) = parent || '.'
           AND (substr(thread_id, length(parent) + 2) NOT GLOB '*.*'
               OR substr(thread_id, length(parent) + 2) GLOB '*[[]*.*[]]'
                  AND substr(thread_id, length(parent) + 2) NOT GLOB '*.*[[]*') END)
) STRICT;
CREATE INDEX threads_parent ON threads(parent);

-- A thread is Active from its own row until one here ends it.
CREATE TABLE thread_states (
    thread_id TEXT PRIMARY KEY REFERENCES threads(thread_id),
    state     TEXT NOT NULL CHECK (state IN ('Completed', 'Failed')),
    result    BLOB CHECK (length(result) = 32), -- digest of what the thread returned
    at_ms     INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;

CREATE VIEW thread_current AS
SELECT t.thread_id, t.parent, t.profile, t.created_ms, coalesce(s.state, 'Active') AS state, s.result,
    coalesce(s.at_ms, t.created_ms) AS at_ms
FROM threads t LEFT JOIN thread_states s USING (thread_id);

-- Rows are deleted by retention, whole, and never altered (AP-7.3.2). An entry is
-- written to the page that the one before is on, and to no other: not to one that
-- counts, since the number comes from the entry before, and not to its thread's page
-- of an index.
CREATE TABLE journal (
    seq          INTEGER PRIMARY KEY CHECK (seq > 0), -- one more than the highest ever, see journal_deleted
    at_ms        INTEGER NOT NULL CHECK (at_ms >= 0),
    thread_id    TEXT NOT NULL REFERENCES threads(thread_id),
    direction    TEXT NOT NULL CHECK (direction IN ('Inbound', 'Outbound')),
    handler      TEXT NOT NULL CHECK (handler <> ''),
    payload_tag  TEXT NOT NULL CHECK (payload_tag <> ''),
    payload_hash BLOB NOT NULL CHECK (length(payload_hash) = 32),
    retention    TEXT NOT NULL CHECK (retention IN ('retain_forever', 'prune_on_delivery') OR retention GLOB 'retain_days([1-9]*)'),
    expires_ms   INTEGER CHECK ((expires_ms IS NOT NULL) = (retention GLOB 'retain_days(*')),
    request_id   TEXT, -- the job, if the message belongs to one
    call_id      TEXT, -- pairs the outbound and inbound entry of one call
    -- Whether the entry came with its payload, and so keeps the content. Most have the
    -- hash alone: hashes are random, and each would be a page of an index to write.
    keeps        INTEGER NOT NULL CHECK (keeps IN (0, 1))
) STRICT;
CREATE INDEX journal_request ON journal(request_id, seq) WHERE request_id IS NOT NULL;
CREATE INDEX journal_call ON journal(call_id, seq) WHERE call_id IS NOT NULL;
CREATE INDEX journal_keeps ON journal(payload_hash) WHERE keeps = 1;
CREATE INDEX journal_expires ON journal(expires_ms) WHERE expires_ms IS NOT NULL;
CREATE INDEX journal_undelivered ON journal(thread_id, seq) WHERE retention = 'prune_on_delivery';
CREATE TRIGGER journal_no_update BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'journal is append-only'); END;
CREATE TRIGGER journal_keep BEFORE DELETE ON journal
WHEN OLD.retention = 'retain_forever'
BEGIN SELECT RAISE(ABORT, 'journal entry is retained for ever'); END;
CREATE TRIGGER journal_gone AFTER DELETE ON journal BEGIN
    DELETE FROM journal_threads WHERE thread_id = OLD.thread_id AND seq = OLD.seq;
    UPDATE journal_deleted SET seq = OLD.seq
        WHERE seq < OLD.seq AND NOT EXISTS (SELECT 1 FROM journal WHERE seq > OLD.seq);
END;

-- The entry that ends a block of 1,024 brings the block in here; a block that has not
-- ended is looked through. Rows go with their entries.
CREATE TABLE journal_threads (
    thread_id TEXT NOT NULL,
    seq       INTEGER NOT NULL,
    PRIMARY KEY (thread_id, seq)
) STRICT, WITHOUT ROWID;

-- The highest number of an entry that was the last one when it was deleted.
-- The one row changes.
CREATE TABLE journal_deleted (seq INTEGER NOT NULL) STRICT;
INSERT INTO journal_deleted(seq) VALUES (0);

-- The entries of each thread; those of the last block may be here twice.
CREATE VIEW journal_by_thread AS
SELECT thread_id, seq FROM journal_threads
UNION ALL SELECT thread_id, seq FROM journal WHERE seq > (SELECT max(seq) FROM journal) / 1024 * 1024;

-- What happened that has no journal entry; never holds a payload (K-3).
CREATE TABLE audit (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0),
    event_type TEXT NOT NULL CHECK (event_type <> '' AND length(event_type) <= 128),
    subject    TEXT NOT NULL CHECK (length(subject) <= 512),
    metadata   TEXT NOT NULL CHECK (length(CAST(metadata AS BLOB)) <= 8192 AND json_valid(metadata))
) STRICT;
CREATE INDEX audit_subject ON audit(subject, seq);

-- Approved intents behind side effects (K-10).
CREATE TABLE directives (
    id              TEXT PRIMARY KEY CHECK (id <> ''),
    idempotency_key TEXT NOT NULL UNIQUE CHECK (idempotency_key <> ''),
    approved_by     TEXT NOT NULL CHECK (approved_by <> ''),
    request_id      TEXT, -- the job it was recorded for
    created_ms      INTEGER NOT NULL CHECK (created_ms >= 0)
) STRICT;

-- The names of a job (M-2) that no other table holds: a name written a second time
-- would be two more pages of every job. The view job_names is all of them.
CREATE TABLE correlation (
    request_id TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('job_hash', 'task_id', 'correlation_id', 'thread_id', 'directive_id',
        'call_id', 'session_id', 'payment_hash', 'result_event_id', 'receipt_id')),
    value      TEXT NOT NULL CHECK (value <> ''),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (request_id, kind, value)
) STRICT, WITHOUT ROWID;
CREATE INDEX correlation_value ON correlation(value);
