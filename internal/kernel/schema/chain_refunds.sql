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
INSERT INTO refund_outcomes (request_id, attempt, buyer, state, fee_msats, unused_msats, preimage, outpoints, reason, at_ms)
SELECT e.request_id, 1, r.buyer, e.state, e.fee_msats, 0, e.preimage, '', e.reason, e.at_ms FROM refund_ends e JOIN refunds r USING (request_id)
UNION ALL
SELECT e.request_id, e.attempt, r.buyer, e.state, e.fee_msats, 0, e.preimage, '', e.reason, e.at_ms
FROM refund_retry_ends e JOIN refund_retries r USING (request_id, attempt);

DROP VIEW refund_attempts;
DROP VIEW credit_entries;
DROP TABLE refund_ends;
DROP TABLE refund_retry_ends;

CREATE VIEW refund_attempts AS
SELECT r.request_id, r.attempt, r.buyer, r.bolt11, r.payment_hash, r.msats, r.fee_limit_msats, r.at_ms,
    e.state, e.fee_msats, e.unused_msats, e.preimage, e.outpoints, e.reason, e.at_ms AS end_ms
FROM (SELECT request_id, 1 AS attempt, buyer, bolt11, payment_hash, msats, fee_limit_msats, at_ms FROM refunds
    UNION ALL
    SELECT request_id, attempt, buyer, bolt11, payment_hash, msats, fee_limit_msats, at_ms FROM refund_retries) r
LEFT JOIN refund_outcomes e USING (request_id, attempt);

-- As before, and what was reserved for a fee and not needed.
CREATE VIEW credit_entries AS
SELECT buyer, msats FROM credits
UNION ALL SELECT buyer, msats FROM late_credits
UNION ALL SELECT buyer, unused_msats FROM refund_outcomes
UNION ALL SELECT buyer, -msats FROM job_credits u
    WHERE NOT EXISTS (SELECT 1 FROM job_states s
        WHERE s.request_id = u.request_id AND s.state IN ('failed', 'canceled', 'expired'))
    OR EXISTS (SELECT 1 FROM jobs j JOIN job_results r USING (request_id)
        WHERE j.request_id = u.request_id AND j.mode = 'postpay'
        AND instr(CAST(j.quote AS TEXT), '"delivery":"sealed"') = 0) -- a quote is canonical JSON
UNION ALL SELECT buyer, -msats FROM refunds r
    WHERE NOT EXISTS (SELECT 1 FROM refund_outcomes e WHERE e.request_id = r.request_id AND e.attempt = 1 AND e.state = 'failed')
UNION ALL SELECT buyer, -msats FROM refund_retries r
    WHERE NOT EXISTS (SELECT 1 FROM refund_outcomes e
        WHERE e.request_id = r.request_id AND e.attempt = r.attempt AND e.state = 'failed')
UNION ALL SELECT buyer, -msats FROM write_offs;
