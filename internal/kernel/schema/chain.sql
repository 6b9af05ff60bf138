-- The outputs on the chain that paid, as "txid:index,..."; empty on other rails.
ALTER TABLE job_payments ADD COLUMN outpoints TEXT NOT NULL DEFAULT '';

-- A buyer's payment is shown by its preimage, or on the chain by its output.
CREATE TABLE purchase_payments_shown (
    request_id     TEXT PRIMARY KEY REFERENCES purchases(request_id),
    payment_hash   BLOB NOT NULL CHECK (length(payment_hash) = 32),
    state          TEXT NOT NULL CHECK (state IN ('succeeded', 'failed')),
    amount_msats   INTEGER NOT NULL CHECK (amount_msats BETWEEN 0 AND 9007199254740991),
    fee_msats      INTEGER NOT NULL CHECK (fee_msats BETWEEN 0 AND 9007199254740991),
    preimage       BLOB CHECK (length(preimage) = 32),
    failure_reason TEXT NOT NULL,
    at_ms          INTEGER NOT NULL CHECK (at_ms >= 0),
    outpoints      TEXT NOT NULL DEFAULT '',
    CHECK ((preimage IS NOT NULL) + (outpoints <> '') = (state = 'succeeded'))
) STRICT;
INSERT INTO purchase_payments_shown (request_id, payment_hash, state, amount_msats, fee_msats, preimage, failure_reason, at_ms)
SELECT request_id, payment_hash, state, amount_msats, fee_msats, preimage, failure_reason, at_ms FROM purchase_payments;
DROP TABLE purchase_payments;
ALTER TABLE purchase_payments_shown RENAME TO purchase_payments;

CREATE TABLE engagement_payments_shown (
    request_id     TEXT PRIMARY KEY REFERENCES purchases(request_id),
    payment_hash   BLOB NOT NULL CHECK (length(payment_hash) = 32),
    state          TEXT NOT NULL CHECK (state IN ('succeeded', 'failed')),
    amount_msats   INTEGER NOT NULL CHECK (amount_msats BETWEEN 0 AND 9007199254740991),
    fee_msats      INTEGER NOT NULL CHECK (fee_msats BETWEEN 0 AND 9007199254740991),
    preimage       BLOB CHECK (length(preimage) = 32),
    failure_reason TEXT NOT NULL,
    at_ms          INTEGER NOT NULL CHECK (at_ms >= 0),
    outpoints      TEXT NOT NULL DEFAULT '',
    CHECK ((preimage IS NOT NULL) + (outpoints <> '') = (state = 'succeeded'))
) STRICT;
INSERT INTO engagement_payments_shown (request_id, payment_hash, state, amount_msats, fee_msats, preimage, failure_reason, at_ms)
SELECT request_id, payment_hash, state, amount_msats, fee_msats, preimage, failure_reason, at_ms FROM engagement_payments;
DROP TABLE engagement_payments;
ALTER TABLE engagement_payments_shown RENAME TO engagement_payments;

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

-- As before, and what came late.
DROP VIEW credit_entries;
CREATE VIEW credit_entries AS
SELECT buyer, msats FROM credits
UNION ALL SELECT buyer, msats FROM late_credits
UNION ALL SELECT buyer, -msats FROM job_credits u
    WHERE NOT EXISTS (SELECT 1 FROM job_states s
        WHERE s.request_id = u.request_id AND s.state IN ('failed', 'canceled', 'expired'))
    OR EXISTS (SELECT 1 FROM jobs j JOIN job_results r USING (request_id)
        WHERE j.request_id = u.request_id AND j.mode = 'postpay'
        AND instr(CAST(j.quote AS TEXT), '"delivery":"sealed"') = 0) -- a quote is canonical JSON
UNION ALL SELECT buyer, -msats FROM refunds r
    WHERE NOT EXISTS (SELECT 1 FROM refund_ends e WHERE e.request_id = r.request_id AND e.state = 'failed')
UNION ALL SELECT buyer, -msats FROM refund_retries r
    WHERE NOT EXISTS (SELECT 1 FROM refund_retry_ends e
        WHERE e.request_id = r.request_id AND e.attempt = r.attempt AND e.state = 'failed')
UNION ALL SELECT buyer, -msats FROM write_offs;
