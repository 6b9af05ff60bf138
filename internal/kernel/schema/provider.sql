-- What the node sells. Every request that was decided on has one row here: that
-- is what makes a second decision impossible.
CREATE TABLE requests (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id TEXT NOT NULL UNIQUE CHECK (length(request_id) = 64 AND request_id NOT GLOB '*[^0-9a-f]*'),
    buyer      TEXT NOT NULL CHECK (length(buyer) = 64 AND buyer NOT GLOB '*[^0-9a-f]*'),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;

-- The admitted ones, with the quote intent.
CREATE TABLE jobs (
    request_id   TEXT PRIMARY KEY REFERENCES requests(request_id),
    kind         INTEGER NOT NULL,
    schema_id    TEXT NOT NULL CHECK (schema_id <> ''),
    job_hash     BLOB NOT NULL CHECK (length(job_hash) = 32),
    request      BLOB NOT NULL,
    input        BLOB NOT NULL,
    relays       TEXT NOT NULL CHECK (json_valid(relays)),
    mode         TEXT NOT NULL CHECK (mode IN ('hold', 'prepay', 'postpay', 'free')),
    price_msats  INTEGER NOT NULL CHECK (price_msats BETWEEN 0 AND 9007199254740991),
    quote        BLOB NOT NULL,
    quote_hash   BLOB NOT NULL UNIQUE CHECK (length(quote_hash) = 32),
    payment_hash BLOB UNIQUE CHECK (length(payment_hash) = 32),
    nonce        BLOB NOT NULL,
    expires_ms   INTEGER NOT NULL,
    policy_id    BLOB NOT NULL CHECK (length(policy_id) = 32),
    added_ms     INTEGER NOT NULL CHECK (added_ms >= 0),
    CHECK ((payment_hash IS NULL) = (mode = 'free'))
) STRICT;

CREATE TABLE job_states (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id TEXT NOT NULL REFERENCES requests(request_id),
    state      TEXT NOT NULL CHECK (state IN ('refused', 'quoted', 'paid', 'running', 'delivering',
        'succeeded', 'failed', 'canceled', 'expired')),
    code       TEXT NOT NULL,
    detail     TEXT NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE INDEX job_states_request ON job_states(request_id, seq);
CREATE INDEX job_states_state ON job_states(state, request_id);
CREATE TRIGGER job_states_end BEFORE INSERT ON job_states
WHEN EXISTS (SELECT 1 FROM job_states WHERE request_id = NEW.request_id
    AND state IN ('refused', 'succeeded', 'failed', 'canceled', 'expired'))
BEGIN SELECT RAISE(ABORT, 'job has ended'); END;

CREATE VIEW job_current AS
SELECT r.seq, r.request_id, r.buyer, s.state, s.code, s.detail, s.at_ms
FROM requests r JOIN job_states s
    ON s.seq = (SELECT max(seq) FROM job_states x WHERE x.request_id = r.request_id);

-- An index of the jobs that have not ended. Rows change; they follow from
-- job_states.
CREATE TABLE open_jobs (request_id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TRIGGER job_states_open AFTER INSERT ON job_states
WHEN NEW.state IN ('quoted', 'paid', 'running', 'delivering')
BEGIN INSERT OR IGNORE INTO open_jobs VALUES (NEW.request_id); END;
CREATE TRIGGER job_states_closed AFTER INSERT ON job_states
WHEN NEW.state NOT IN ('quoted', 'paid', 'running', 'delivering')
BEGIN DELETE FROM open_jobs WHERE request_id = NEW.request_id; END;

CREATE TABLE job_invoices (
    request_id TEXT PRIMARY KEY REFERENCES jobs(request_id),
    bolt11     TEXT NOT NULL UNIQUE CHECK (bolt11 <> ''),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;

CREATE TABLE job_acceptances (
    request_id TEXT PRIMARY KEY REFERENCES jobs(request_id),
    event      BLOB NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;

-- Money that arrived: held, then settled, or settled at once.
CREATE TABLE job_payments (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id   TEXT NOT NULL REFERENCES jobs(request_id),
    payment_hash BLOB NOT NULL CHECK (length(payment_hash) = 32),
    state        TEXT NOT NULL CHECK (state IN ('held', 'settled')),
    paid_msats   INTEGER NOT NULL CHECK (paid_msats BETWEEN 0 AND 9007199254740991),
    settle_by_ms INTEGER,
    recorded_ms  INTEGER NOT NULL CHECK (recorded_ms >= 0),
    UNIQUE (request_id, state),
    UNIQUE (payment_hash, state)
) STRICT;

-- The go-ahead for a job: what approved it and the thread it runs on.
CREATE TABLE job_orders (
    request_id   TEXT PRIMARY KEY REFERENCES jobs(request_id),
    directive_id TEXT NOT NULL UNIQUE REFERENCES directives(id),
    thread_id    TEXT NOT NULL UNIQUE REFERENCES threads(thread_id)
) STRICT;

-- The run number fences the result: only the latest run may finish.
CREATE TABLE job_runs (
    request_id TEXT NOT NULL REFERENCES job_orders(request_id),
    run        INTEGER NOT NULL CHECK (run >= 1),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (request_id, run)
) STRICT, WITHOUT ROWID;

CREATE TABLE job_results (
    request_id     TEXT PRIMARY KEY REFERENCES jobs(request_id),
    run            INTEGER NOT NULL,
    session_id     TEXT NOT NULL UNIQUE CHECK (session_id <> ''),
    output         BLOB NOT NULL REFERENCES contents(digest),
    agreement_hash BLOB CHECK (length(agreement_hash) = 32),
    plan_hash      BLOB NOT NULL CHECK (length(plan_hash) = 32),
    trajectory     BLOB NOT NULL CHECK (length(trajectory) = 32),
    redacted       BLOB NOT NULL CHECK (length(redacted) = 32),
    replay         BLOB NOT NULL REFERENCES contents(digest),
    event_id       TEXT NOT NULL UNIQUE,
    event          BLOB NOT NULL,
    artifacts      TEXT NOT NULL CHECK (json_valid(artifacts)),
    started_ms     INTEGER NOT NULL,
    finished_ms    INTEGER NOT NULL,
    FOREIGN KEY (request_id, run) REFERENCES job_runs(request_id, run)
) STRICT;

-- One chain without gaps.
CREATE TABLE receipts (
    sequence      INTEGER PRIMARY KEY CHECK (sequence >= 1),
    request_id    TEXT NOT NULL UNIQUE REFERENCES jobs(request_id),
    receipt_id    TEXT NOT NULL UNIQUE CHECK (receipt_id <> ''),
    receipt       BLOB NOT NULL,
    receipt_hash  BLOB NOT NULL UNIQUE CHECK (length(receipt_hash) = 32),
    previous_hash BLOB CHECK (length(previous_hash) = 32),
    issued_ms     INTEGER NOT NULL CHECK (issued_ms >= 0),
    CHECK ((previous_hash IS NULL) = (sequence = 1))
) STRICT;
CREATE TRIGGER receipts_chain BEFORE INSERT ON receipts
WHEN NEW.sequence <> (SELECT coalesce(max(sequence), 0) + 1 FROM receipts)
    OR NEW.previous_hash IS NOT (SELECT receipt_hash FROM receipts WHERE sequence = NEW.sequence - 1)
BEGIN SELECT RAISE(ABORT, 'receipt does not continue the chain'); END;

-- Owed to buyers whose prepaid job failed.
CREATE TABLE credits (
    request_id TEXT PRIMARY KEY REFERENCES jobs(request_id),
    buyer      TEXT NOT NULL,
    msats      INTEGER NOT NULL CHECK (msats BETWEEN 1 AND 9007199254740991),
    refund_to  TEXT,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
