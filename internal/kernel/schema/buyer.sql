-- What the node buys.
CREATE TABLE purchases (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id TEXT NOT NULL UNIQUE CHECK (length(request_id) = 64 AND request_id NOT GLOB '*[^0-9a-f]*'),
    provider   TEXT NOT NULL CHECK (length(provider) = 64 AND provider NOT GLOB '*[^0-9a-f]*'),
    schema_id  TEXT NOT NULL CHECK (schema_id <> ''),
    job_hash   BLOB NOT NULL CHECK (length(job_hash) = 32),
    request    BLOB NOT NULL,
    max_msats  INTEGER NOT NULL CHECK (max_msats BETWEEN 0 AND 9007199254740991),
    relays     TEXT NOT NULL CHECK (json_valid(relays)),
    payee_node TEXT,
    added_ms   INTEGER NOT NULL CHECK (added_ms >= 0)
) STRICT;

CREATE TABLE purchase_states (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id TEXT NOT NULL REFERENCES purchases(request_id),
    state      TEXT NOT NULL CHECK (state IN ('requested', 'paying', 'paid', 'done', 'failed', 'canceled')),
    reason     TEXT NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE INDEX purchase_states_request ON purchase_states(request_id, seq);
CREATE TRIGGER purchase_states_end BEFORE INSERT ON purchase_states
WHEN EXISTS (SELECT 1 FROM purchase_states WHERE request_id = NEW.request_id AND state IN ('done', 'failed', 'canceled'))
BEGIN SELECT RAISE(ABORT, 'purchase has ended'); END;

CREATE VIEW purchase_current AS
SELECT p.seq, p.request_id, s.state, s.reason, s.at_ms
FROM purchases p JOIN purchase_states s
    ON s.seq = (SELECT max(seq) FROM purchase_states x WHERE x.request_id = p.request_id);

-- An index of the purchases that have not ended. Rows change; they follow from
-- purchase_states.
CREATE TABLE open_purchases (request_id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TRIGGER purchase_states_open AFTER INSERT ON purchase_states
WHEN NEW.state NOT IN ('done', 'failed', 'canceled')
BEGIN INSERT OR IGNORE INTO open_purchases VALUES (NEW.request_id); END;
CREATE TRIGGER purchase_states_closed AFTER INSERT ON purchase_states
WHEN NEW.state IN ('done', 'failed', 'canceled')
BEGIN DELETE FROM open_purchases WHERE request_id = NEW.request_id; END;

-- The one payment of each (request, provider, purpose).
CREATE TABLE attempts (
    request_id      TEXT NOT NULL REFERENCES purchases(request_id),
    provider        TEXT NOT NULL,
    purpose         TEXT NOT NULL CHECK (purpose IN ('result', 'engagement')),
    payment_hash    BLOB NOT NULL UNIQUE CHECK (length(payment_hash) = 32),
    amount_msats    INTEGER NOT NULL CHECK (amount_msats BETWEEN 0 AND 9007199254740991),
    fee_limit_msats INTEGER NOT NULL CHECK (fee_limit_msats BETWEEN 0 AND 9007199254740991),
    rule_id         TEXT NOT NULL,
    quote           BLOB NOT NULL,
    bolt11          TEXT NOT NULL UNIQUE CHECK (bolt11 <> ''),
    acceptance      BLOB NOT NULL,
    reserved_ms     INTEGER NOT NULL CHECK (reserved_ms >= 0),
    PRIMARY KEY (request_id, provider, purpose)
) STRICT, WITHOUT ROWID;

-- The budget of a day (UTC): what is reserved and what is spent are the sums of
-- its rows. A reservation is +reserved; its end is -reserved, with +spent if
-- the payment succeeded.
CREATE TABLE ledger (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT,
    day            TEXT NOT NULL CHECK (day GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]'),
    request_id     TEXT NOT NULL REFERENCES purchases(request_id),
    provider       TEXT NOT NULL,
    purpose        TEXT NOT NULL,
    entry          TEXT NOT NULL CHECK (entry IN ('reserve', 'spend', 'release')),
    reserved_msats INTEGER NOT NULL CHECK ((reserved_msats >= 0) = (entry = 'reserve') OR reserved_msats = 0),
    spent_msats    INTEGER NOT NULL CHECK (spent_msats >= 0 AND (spent_msats = 0 OR entry = 'spend')),
    at_ms          INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE INDEX ledger_day ON ledger(day, provider, reserved_msats, spent_msats);
-- A reservation is made once and ended once.
CREATE UNIQUE INDEX ledger_once ON ledger(request_id, purpose, entry = 'reserve');

CREATE TABLE purchase_payments (
    request_id     TEXT PRIMARY KEY REFERENCES purchases(request_id),
    payment_hash   BLOB NOT NULL CHECK (length(payment_hash) = 32),
    state          TEXT NOT NULL CHECK (state IN ('succeeded', 'failed')),
    amount_msats   INTEGER NOT NULL CHECK (amount_msats BETWEEN 0 AND 9007199254740991),
    fee_msats      INTEGER NOT NULL CHECK (fee_msats BETWEEN 0 AND 9007199254740991),
    preimage       BLOB CHECK (length(preimage) = 32),
    failure_reason TEXT NOT NULL,
    at_ms          INTEGER NOT NULL CHECK (at_ms >= 0),
    CHECK ((preimage IS NOT NULL) = (state = 'succeeded'))
) STRICT;

CREATE TABLE feedback (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id TEXT NOT NULL REFERENCES purchases(request_id),
    event_id   TEXT NOT NULL,
    event      BLOB NOT NULL,
    at_ms      INTEGER NOT NULL,
    UNIQUE (request_id, event_id)
) STRICT;

CREATE TABLE purchase_results (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    event      BLOB NOT NULL,
    output     BLOB NOT NULL REFERENCES contents(digest),
    early      INTEGER NOT NULL CHECK (early IN (0, 1)),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;

CREATE TABLE purchase_receipts (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    receipt_id TEXT NOT NULL UNIQUE CHECK (receipt_id <> ''),
    event      BLOB NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;

CREATE TABLE purchase_cancels (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    event      BLOB NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
