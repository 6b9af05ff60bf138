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
CREATE TABLE refund_retry_ends (
    request_id TEXT NOT NULL,
    attempt    INTEGER NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('succeeded', 'failed')),
    fee_msats  INTEGER NOT NULL CHECK (fee_msats BETWEEN 0 AND 9007199254740991),
    preimage   BLOB CHECK (length(preimage) = 32),
    reason     TEXT NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (request_id, attempt),
    FOREIGN KEY (request_id, attempt) REFERENCES refund_retries(request_id, attempt),
    CHECK ((preimage IS NOT NULL) = (state = 'succeeded'))
) STRICT;
CREATE INDEX refund_retries_buyer ON refund_retries(buyer);
CREATE INDEX refund_retries_hash ON refund_retries(payment_hash);

-- What the operator settled with the buyer by other means.
CREATE TABLE write_offs (
    request_id TEXT PRIMARY KEY REFERENCES credits(request_id),
    buyer      TEXT NOT NULL,
    msats      INTEGER NOT NULL CHECK (msats BETWEEN 1 AND 9007199254740991),
    note       TEXT NOT NULL CHECK (note <> ''),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE INDEX write_offs_buyer ON write_offs(buyer);

CREATE VIEW refund_attempts AS
SELECT r.request_id, 1 AS attempt, r.buyer, r.bolt11, r.payment_hash, r.msats, r.fee_limit_msats, r.at_ms,
    e.state, e.fee_msats, e.preimage, e.reason, e.at_ms AS end_ms
FROM refunds r LEFT JOIN refund_ends e USING (request_id)
UNION ALL
SELECT r.request_id, r.attempt, r.buyer, r.bolt11, r.payment_hash, r.msats, r.fee_limit_msats, r.at_ms,
    e.state, e.fee_msats, e.preimage, e.reason, e.at_ms
FROM refund_retries r LEFT JOIN refund_retry_ends e USING (request_id, attempt);

-- As before, less what further attempts take and what was written off.
DROP VIEW credit_entries;
CREATE VIEW credit_entries AS
SELECT buyer, msats FROM credits
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

CREATE TRIGGER refund_retries_covered AFTER INSERT ON refund_retries
WHEN (SELECT sum(msats) FROM credit_entries WHERE buyer = NEW.buyer) < 0
BEGIN SELECT RAISE(ABORT, 'more is refunded than is owed'); END;
CREATE TRIGGER write_offs_covered AFTER INSERT ON write_offs
WHEN (SELECT sum(msats) FROM credit_entries WHERE buyer = NEW.buyer) < 0
BEGIN SELECT RAISE(ABORT, 'more is written off than is owed'); END;
