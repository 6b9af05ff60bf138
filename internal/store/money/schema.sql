-- What is owed to buyers and paid back, and what the node pays for its purchases.

-- Owed to buyers whose prepaid job failed.
CREATE TABLE credits (
    request_id TEXT PRIMARY KEY REFERENCES jobs(request_id),
    buyer      TEXT NOT NULL,
    msats      INTEGER NOT NULL CHECK (msats BETWEEN 1 AND 9007199254740991),
    refund_to  TEXT,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE INDEX credits_buyer ON credits(buyer);

-- What quotes were lowered by, out of what is owed to their buyer.
CREATE TABLE job_credits (
    request_id TEXT PRIMARY KEY REFERENCES jobs(request_id),
    buyer      TEXT NOT NULL,
    msats      INTEGER NOT NULL CHECK (msats BETWEEN 1 AND 9007199254740991)
) STRICT;
CREATE INDEX job_credits_buyer ON job_credits(buyer);
CREATE TRIGGER job_credits_covered AFTER INSERT ON job_credits
WHEN (SELECT sum(msats) FROM credit_entries WHERE buyer = NEW.buyer) < 0
BEGIN SELECT RAISE(ABORT, 'more credit is used than is owed'); END;

-- What came on the chain for a job after its debt was recorded.
CREATE TABLE late_credits (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id TEXT NOT NULL REFERENCES credits(request_id),
    buyer      TEXT NOT NULL,
    msats      INTEGER NOT NULL CHECK (msats BETWEEN 1 AND 9007199254740991),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE INDEX late_credits_job ON late_credits(request_id);
CREATE INDEX late_credits_buyer ON late_credits(buyer);

-- The one payment of a debt; recorded with it, before the wallet hears of it.
CREATE TABLE refunds (
    request_id      TEXT PRIMARY KEY REFERENCES credits(request_id),
    buyer           TEXT NOT NULL,
    bolt11          TEXT NOT NULL UNIQUE CHECK (bolt11 <> ''),
    payment_hash    BLOB NOT NULL UNIQUE CHECK (length(payment_hash) = 32),
    msats           INTEGER NOT NULL CHECK (msats BETWEEN 1 AND 9007199254740991),
    fee_limit_msats INTEGER NOT NULL CHECK (fee_limit_msats BETWEEN 0 AND 9007199254740991),
    at_ms           INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE INDEX refunds_buyer ON refunds(buyer);
CREATE TRIGGER refunds_covered AFTER INSERT ON refunds
WHEN (SELECT sum(msats) FROM credit_entries WHERE buyer = NEW.buyer) < 0
BEGIN SELECT RAISE(ABORT, 'more is refunded than is owed'); END;
CREATE TRIGGER refunds_opened AFTER INSERT ON refunds
BEGIN INSERT INTO open_refunds(request_id, attempt, at_ms) VALUES (NEW.request_id, 1, NEW.at_ms); END;

-- Further attempts to pay a debt, each after the one before failed for good; the
-- first is in refunds.
CREATE TABLE refund_retries (
    request_id      TEXT NOT NULL REFERENCES refunds(request_id),
    attempt         INTEGER NOT NULL CHECK (attempt BETWEEN 2 AND 100),
    buyer           TEXT NOT NULL,
    bolt11          TEXT NOT NULL CHECK (bolt11 <> ''),
    payment_hash    BLOB NOT NULL CHECK (length(payment_hash) = 32),
    msats           INTEGER NOT NULL CHECK (msats BETWEEN 1 AND 9007199254740991),
    fee_limit_msats INTEGER NOT NULL CHECK (fee_limit_msats BETWEEN 0 AND 9007199254740991),
    at_ms           INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (request_id, attempt)
) STRICT;
CREATE INDEX refund_retries_buyer ON refund_retries(buyer);
CREATE INDEX refund_retries_hash ON refund_retries(payment_hash);
CREATE TRIGGER refund_retries_covered AFTER INSERT ON refund_retries
WHEN (SELECT sum(msats) FROM credit_entries WHERE buyer = NEW.buyer) < 0
BEGIN SELECT RAISE(ABORT, 'more is refunded than is owed'); END;
CREATE TRIGGER refund_retries_opened AFTER INSERT ON refund_retries
BEGIN INSERT INTO open_refunds(request_id, attempt, at_ms) VALUES (NEW.request_id, NEW.attempt, NEW.at_ms); END;

-- How every attempt to pay a debt ended, in one table: shown by its preimage, or
-- on the chain by its output. What was reserved for the miners and not needed is
-- the buyer's credit again.
CREATE TABLE refund_outcomes (
    request_id   TEXT NOT NULL REFERENCES refunds(request_id),
    attempt      INTEGER NOT NULL CHECK (attempt BETWEEN 1 AND 100),
    buyer        TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('succeeded', 'failed')),
    fee_msats    INTEGER NOT NULL CHECK (fee_msats BETWEEN 0 AND 9007199254740991),
    unused_msats INTEGER NOT NULL CHECK (unused_msats BETWEEN 0 AND 9007199254740991),
    preimage     BLOB CHECK (length(preimage) = 32),
    outpoints    TEXT NOT NULL,
    reason       TEXT NOT NULL,
    at_ms        INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (request_id, attempt),
    CHECK ((preimage IS NOT NULL) + (outpoints <> '') = (state = 'succeeded')),
    CHECK (unused_msats = 0 OR state = 'succeeded')
) STRICT;
CREATE INDEX refund_outcomes_buyer ON refund_outcomes(buyer);
CREATE TRIGGER refund_outcomes_ended AFTER INSERT ON refund_outcomes
BEGIN DELETE FROM open_refunds WHERE request_id = NEW.request_id AND attempt = NEW.attempt; END;

-- The attempts to pay debts that have not ended, so that they are found among all.
-- Rows change; they follow from the tables above.
CREATE TABLE open_refunds (
    request_id TEXT PRIMARY KEY REFERENCES refunds(request_id),
    attempt    INTEGER NOT NULL,
    at_ms      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What the operator settled with the buyer by other means.
CREATE TABLE write_offs (
    request_id TEXT PRIMARY KEY REFERENCES credits(request_id),
    buyer      TEXT NOT NULL,
    msats      INTEGER NOT NULL CHECK (msats BETWEEN 1 AND 9007199254740991),
    note       TEXT NOT NULL CHECK (note <> ''),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE INDEX write_offs_buyer ON write_offs(buyer);
CREATE TRIGGER write_offs_covered AFTER INSERT ON write_offs
WHEN (SELECT sum(msats) FROM credit_entries WHERE buyer = NEW.buyer) < 0
BEGIN SELECT RAISE(ABORT, 'more is written off than is owed'); END;

-- Whose an address for refunds is: the buyer's whose request named it first. A
-- request is public, and an address serves one refund.
CREATE TABLE refund_addresses (
    address    TEXT PRIMARY KEY CHECK (length(address) BETWEEN 1 AND 200),
    buyer      TEXT NOT NULL CHECK (length(buyer) = 64),
    request_id TEXT NOT NULL REFERENCES jobs(request_id)
) STRICT, WITHOUT ROWID;

CREATE VIEW refund_attempts AS
SELECT r.request_id, r.attempt, r.buyer, r.bolt11, r.payment_hash, r.msats, r.fee_limit_msats, r.at_ms,
    e.state, e.fee_msats, e.unused_msats, e.preimage, e.outpoints, e.reason, e.at_ms AS end_ms
FROM (SELECT request_id, 1 AS attempt, buyer, bolt11, payment_hash, msats, fee_limit_msats, at_ms FROM refunds
    UNION ALL
    SELECT request_id, attempt, buyer, bolt11, payment_hash, msats, fee_limit_msats, at_ms FROM refund_retries) r
LEFT JOIN refund_outcomes e USING (request_id, attempt);

-- A buyer's credit is the sum of its entries. What a job used comes back if it
-- fails, unless the buyer has its result in the clear and did not pay the rest;
-- what a refund takes comes back if its payment fails, and what it reserved for a
-- fee and did not need.
CREATE VIEW credit_entries AS
SELECT buyer, msats FROM credits
UNION ALL SELECT buyer, msats FROM late_credits
UNION ALL SELECT buyer, unused_msats FROM refund_outcomes
UNION ALL SELECT buyer, -msats FROM job_credits u
    WHERE NOT EXISTS (SELECT 1 FROM job_states s
        WHERE s.request_id = u.request_id AND s.state IN ('failed', 'canceled', 'expired'))
    OR EXISTS (SELECT 1 FROM jobs j JOIN job_results r USING (request_id) JOIN charges c USING (request_id)
        WHERE j.request_id = u.request_id AND j.mode = 'postpay' AND c.purpose = 'result'
        AND instr(CAST(c.quote AS TEXT), '"delivery":"sealed"') = 0) -- a quote is canonical JSON
UNION ALL SELECT buyer, -msats FROM refunds r
    WHERE NOT EXISTS (SELECT 1 FROM refund_outcomes e WHERE e.request_id = r.request_id AND e.attempt = 1 AND e.state = 'failed')
UNION ALL SELECT buyer, -msats FROM refund_retries r
    WHERE NOT EXISTS (SELECT 1 FROM refund_outcomes e
        WHERE e.request_id = r.request_id AND e.attempt = r.attempt AND e.state = 'failed')
UNION ALL SELECT buyer, -msats FROM write_offs;

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
-- Before its panel has decided, a seat is paid at most its fee; afterwards its result
-- only if it was taken.
CREATE TRIGGER attempts_of_seats BEFORE INSERT ON attempts
WHEN NEW.purpose = 'result'
    AND EXISTS (SELECT 1 FROM panel_seats WHERE request_id = NEW.request_id)
    AND NOT EXISTS (SELECT 1 FROM panel_rulings WHERE request_id = NEW.request_id AND taken = 1)
BEGIN SELECT RAISE(ABORT, 'the panel has not taken this seat'); END;

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
-- A reservation is made once and ended once.
CREATE UNIQUE INDEX ledger_once ON ledger(request_id, purpose, entry = 'reserve');
CREATE TRIGGER ledger_summed AFTER INSERT ON ledger
BEGIN
    INSERT INTO ledger_days(day, provider, reserved_msats, spent_msats)
    VALUES (NEW.day, NEW.provider, NEW.reserved_msats, NEW.spent_msats)
    ON CONFLICT (day, provider) DO UPDATE SET
        reserved_msats = reserved_msats + excluded.reserved_msats, spent_msats = spent_msats + excluded.spent_msats;
END;

-- The sums of the ledger. Rows change; they follow from it.
CREATE TABLE ledger_days (
    day            TEXT NOT NULL,
    provider       TEXT NOT NULL,
    reserved_msats INTEGER NOT NULL,
    spent_msats    INTEGER NOT NULL,
    PRIMARY KEY (day, provider)
) STRICT, WITHOUT ROWID;

-- How the payment of an attempt ended: shown by its preimage, or on the chain by its
-- output.
CREATE TABLE purchase_payments (
    request_id     TEXT NOT NULL REFERENCES purchases(request_id),
    purpose        TEXT NOT NULL CHECK (purpose IN ('result', 'engagement')),
    payment_hash   BLOB NOT NULL CHECK (length(payment_hash) = 32),
    state          TEXT NOT NULL CHECK (state IN ('succeeded', 'failed')),
    amount_msats   INTEGER NOT NULL CHECK (amount_msats BETWEEN 0 AND 9007199254740991),
    fee_msats      INTEGER NOT NULL CHECK (fee_msats BETWEEN 0 AND 9007199254740991),
    preimage       BLOB CHECK (length(preimage) = 32),
    failure_reason TEXT NOT NULL,
    at_ms          INTEGER NOT NULL CHECK (at_ms >= 0),
    outpoints      TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (request_id, purpose),
    CHECK ((preimage IS NOT NULL) + (outpoints <> '') = (state = 'succeeded'))
) STRICT;
CREATE TRIGGER purchase_payments_summed AFTER INSERT ON purchase_payments
WHEN NEW.state = 'succeeded' AND NEW.purpose = 'result'
BEGIN UPDATE purchase_totals SET paid_msats = paid_msats + NEW.amount_msats, fees_msats = fees_msats + NEW.fee_msats; END;

-- What came back to the buyer of a prepayment.
CREATE TABLE purchase_refunds (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    msats      INTEGER NOT NULL CHECK (msats BETWEEN 1 AND 9007199254740991),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE TRIGGER purchase_refunds_summed AFTER INSERT ON purchase_refunds
BEGIN UPDATE purchase_totals SET refunded_msats = refunded_msats + NEW.msats; END;

-- What a provider signed that it owes of a purchase, and what its quotes were
-- lowered by: its word, never more than what we paid.
CREATE TABLE purchase_credits (
    request_id TEXT NOT NULL REFERENCES purchases(request_id),
    way        TEXT NOT NULL CHECK (way IN ('owed', 'used')),
    msats      INTEGER NOT NULL CHECK (msats > 0),
    at_ms      INTEGER NOT NULL,
    PRIMARY KEY (request_id, way)
) STRICT, WITHOUT ROWID;

-- What was bought. The one row changes; it follows from purchase_states,
-- purchase_payments and purchase_refunds.
CREATE TABLE purchase_totals (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    done           INTEGER NOT NULL,
    failed         INTEGER NOT NULL,
    canceled       INTEGER NOT NULL,
    paid_msats     INTEGER NOT NULL,
    fees_msats     INTEGER NOT NULL,
    refunded_msats INTEGER NOT NULL
) STRICT;
INSERT INTO purchase_totals(id, done, failed, canceled, paid_msats, fees_msats, refunded_msats) VALUES (1, 0, 0, 0, 0, 0, 0);

-- Which wallet a payment of ours was begun with: no other knows what became of it,
-- and none may make it in its place. The last row of a hash counts, since a refund
-- that failed for good may be sent again.
CREATE TABLE payer_wallets (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    payment_hash BLOB NOT NULL CHECK (length(payment_hash) = 32),
    wallet       TEXT NOT NULL CHECK (wallet <> '')
) STRICT;
CREATE INDEX payer_wallets_hash ON payer_wallets(payment_hash, seq);

-- A payment of a purchase that a wallet was about to be told to make, one row each
-- time. A wallet that was restored, or whose payments were deleted, knows nothing of
-- one that it has made: the row is how we know.
CREATE TABLE sent_payments (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    payment_hash BLOB NOT NULL CHECK (length(payment_hash) = 32),
    at_ms        INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE INDEX sent_payments_hash ON sent_payments(payment_hash);

-- An attempt to pay a debt that the wallet was about to be told to send, one row each
-- time: see sent_payments.
CREATE TABLE sent_refunds (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id TEXT NOT NULL REFERENCES credits(request_id),
    attempt    INTEGER NOT NULL CHECK (attempt >= 1),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE INDEX sent_refunds_attempt ON sent_refunds(request_id, attempt);
