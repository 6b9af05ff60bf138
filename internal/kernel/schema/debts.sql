-- What quotes were lowered by, out of what is owed to their buyer.
CREATE TABLE job_credits (
    request_id TEXT PRIMARY KEY REFERENCES jobs(request_id),
    buyer      TEXT NOT NULL,
    msats      INTEGER NOT NULL CHECK (msats BETWEEN 1 AND 9007199254740991)
) STRICT;

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
CREATE TABLE refund_ends (
    request_id TEXT PRIMARY KEY REFERENCES refunds(request_id),
    state      TEXT NOT NULL CHECK (state IN ('succeeded', 'failed')),
    fee_msats  INTEGER NOT NULL CHECK (fee_msats BETWEEN 0 AND 9007199254740991),
    preimage   BLOB CHECK (length(preimage) = 32),
    reason     TEXT NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0),
    CHECK ((preimage IS NOT NULL) = (state = 'succeeded'))
) STRICT;
CREATE INDEX credits_buyer ON credits(buyer);
CREATE INDEX job_credits_buyer ON job_credits(buyer);
CREATE INDEX refunds_buyer ON refunds(buyer);

-- A buyer's credit is the sum of its entries. What a job used comes back if it
-- fails, unless the buyer has its result in the clear and did not pay the rest;
-- what a refund takes comes back if its payment fails.
CREATE VIEW credit_entries AS
SELECT buyer, msats FROM credits
UNION ALL SELECT buyer, -msats FROM job_credits u
    WHERE NOT EXISTS (SELECT 1 FROM job_states s
        WHERE s.request_id = u.request_id AND s.state IN ('failed', 'canceled', 'expired'))
    OR EXISTS (SELECT 1 FROM jobs j JOIN job_results r USING (request_id)
        WHERE j.request_id = u.request_id AND j.mode = 'postpay'
        AND instr(CAST(j.quote AS TEXT), '"delivery":"sealed"') = 0) -- a quote is canonical JSON
UNION ALL SELECT buyer, -msats FROM refunds r
    WHERE NOT EXISTS (SELECT 1 FROM refund_ends e WHERE e.request_id = r.request_id AND e.state = 'failed');

CREATE TRIGGER job_credits_covered AFTER INSERT ON job_credits
WHEN (SELECT sum(msats) FROM credit_entries WHERE buyer = NEW.buyer) < 0
BEGIN SELECT RAISE(ABORT, 'more credit is used than is owed'); END;
CREATE TRIGGER refunds_covered AFTER INSERT ON refunds
WHEN (SELECT sum(msats) FROM credit_entries WHERE buyer = NEW.buyer) < 0
BEGIN SELECT RAISE(ABORT, 'more is refunded than is owed'); END;

-- What came back to the buyer of a prepayment.
CREATE TABLE purchase_refunds (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    msats      INTEGER NOT NULL CHECK (msats BETWEEN 1 AND 9007199254740991),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
