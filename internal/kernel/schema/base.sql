-- The node's own state. Times are milliseconds since 1970, UTC; digests and
-- payment hashes are 32 bytes; event ids and keys are 64 lower-case hex digits.
-- A table is append-only unless a comment says otherwise; schema.go adds the
-- triggers that hold it to that.

-- Cursors and other small values. Rows change.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY CHECK (key <> ''),
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Bytes by their SHA-256.
CREATE TABLE contents (
    digest BLOB PRIMARY KEY CHECK (length(digest) = 32),
    bytes  BLOB NOT NULL
) STRICT;

-- Contents that something other than the journal refers to.
CREATE TABLE content_pins (
    digest BLOB PRIMARY KEY REFERENCES contents(digest)
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

CREATE TABLE thread_states (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    thread_id TEXT NOT NULL REFERENCES threads(thread_id),
    state     TEXT NOT NULL CHECK (state IN ('Active', 'Completed', 'Failed')),
    result    BLOB CHECK (length(result) = 32), -- digest of what the thread returned
    at_ms     INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE INDEX thread_states_thread ON thread_states(thread_id, seq);
CREATE TRIGGER thread_states_order BEFORE INSERT ON thread_states
WHEN EXISTS (SELECT 1 FROM thread_states WHERE thread_id = NEW.thread_id)
    AND (NEW.state = 'Active'
        OR EXISTS (SELECT 1 FROM thread_states WHERE thread_id = NEW.thread_id AND state <> 'Active'))
BEGIN SELECT RAISE(ABORT, 'thread has ended'); END;

CREATE VIEW thread_current AS
SELECT t.thread_id, t.parent, t.profile, t.created_ms, s.state, s.result, s.at_ms
FROM threads t JOIN thread_states s
    ON s.seq = (SELECT max(seq) FROM thread_states x WHERE x.thread_id = t.thread_id);

-- Rows are deleted by retention, whole, and never altered (AP-7.3.2).
CREATE TABLE journal (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice
    at_ms        INTEGER NOT NULL CHECK (at_ms >= 0),
    thread_id    TEXT NOT NULL REFERENCES threads(thread_id),
    direction    TEXT NOT NULL CHECK (direction IN ('Inbound', 'Outbound')),
    handler      TEXT NOT NULL CHECK (handler <> ''),
    payload_tag  TEXT NOT NULL CHECK (payload_tag <> ''),
    payload_hash BLOB NOT NULL CHECK (length(payload_hash) = 32),
    retention    TEXT NOT NULL CHECK (retention IN ('retain_forever', 'prune_on_delivery') OR retention GLOB 'retain_days([1-9]*)'),
    expires_ms   INTEGER CHECK ((expires_ms IS NOT NULL) = (retention GLOB 'retain_days(*')),
    request_id   TEXT, -- the job, if the message belongs to one
    call_id      TEXT  -- pairs the outbound and inbound entry of one call
) STRICT;
CREATE INDEX journal_thread ON journal(thread_id, seq);
CREATE INDEX journal_request ON journal(request_id, seq) WHERE request_id IS NOT NULL;
CREATE INDEX journal_call ON journal(call_id, seq) WHERE call_id IS NOT NULL;
CREATE INDEX journal_payload ON journal(payload_hash);
CREATE INDEX journal_expires ON journal(expires_ms) WHERE expires_ms IS NOT NULL;
CREATE TRIGGER journal_no_update BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'journal is append-only'); END;
CREATE TRIGGER journal_keep BEFORE DELETE ON journal
WHEN OLD.retention = 'retain_forever'
BEGIN SELECT RAISE(ABORT, 'journal entry is retained for ever'); END;

CREATE TRIGGER contents_no_update BEFORE UPDATE ON contents
BEGIN SELECT RAISE(ABORT, 'contents is append-only'); END;
CREATE TRIGGER contents_keep BEFORE DELETE ON contents
WHEN EXISTS (SELECT 1 FROM journal WHERE payload_hash = OLD.digest)
    OR EXISTS (SELECT 1 FROM content_pins WHERE digest = OLD.digest)
BEGIN SELECT RAISE(ABORT, 'content is referred to'); END;

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
CREATE INDEX directives_request ON directives(request_id) WHERE request_id IS NOT NULL;

-- Every name a job has anywhere (M-2): from any one to all the others.
CREATE TABLE correlation (
    request_id TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('job_hash', 'task_id', 'correlation_id', 'thread_id', 'directive_id',
        'call_id', 'session_id', 'payment_hash', 'result_event_id', 'receipt_id')),
    value      TEXT NOT NULL CHECK (value <> ''),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (request_id, kind, value)
) STRICT, WITHOUT ROWID;
CREATE INDEX correlation_value ON correlation(value);

-- Signed events on their way to relays.
CREATE TABLE outbox (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id     TEXT NOT NULL UNIQUE CHECK (length(event_id) = 64 AND event_id NOT GLOB '*[^0-9a-f]*'),
    event        BLOB NOT NULL,
    request_id   TEXT,
    purpose      TEXT NOT NULL,
    required_oks INTEGER NOT NULL CHECK (required_oks >= 0),
    created_ms   INTEGER NOT NULL CHECK (created_ms >= 0)
) STRICT;
CREATE INDEX outbox_request ON outbox(request_id) WHERE request_id IS NOT NULL;
CREATE TABLE outbox_relays (
    event_id TEXT NOT NULL REFERENCES outbox(event_id),
    relay    TEXT NOT NULL CHECK (relay <> ''),
    PRIMARY KEY (event_id, relay)
) STRICT, WITHOUT ROWID;
CREATE TABLE outbox_acks (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL REFERENCES outbox(event_id),
    relay    TEXT NOT NULL CHECK (relay <> ''),
    ok       INTEGER NOT NULL CHECK (ok IN (0, 1)),
    message  TEXT NOT NULL,
    at_ms    INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE INDEX outbox_acks_event ON outbox_acks(event_id, ok, relay);

-- An event is enough once its required number of relays said OK.
CREATE VIEW outbox_current AS
SELECT o.event_id, o.required_oks,
    (SELECT count(DISTINCT relay) FROM outbox_acks a WHERE a.event_id = o.event_id AND a.ok = 1) AS oks,
    (SELECT count(*) FROM outbox_acks a WHERE a.event_id = o.event_id) AS attempts
FROM outbox o;

-- An index of the events that some relay has yet to confirm. Rows change; they
-- follow from the tables above.
CREATE TABLE outbox_open (
    created_ms INTEGER NOT NULL,
    seq        INTEGER NOT NULL REFERENCES outbox(seq),
    PRIMARY KEY (created_ms, seq)
) STRICT, WITHOUT ROWID;
