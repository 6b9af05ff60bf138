-- The attempts to pay debts that have not ended, so that they are found among all.
CREATE TABLE open_refunds (
    request_id TEXT PRIMARY KEY REFERENCES refunds(request_id),
    attempt    INTEGER NOT NULL,
    at_ms      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO open_refunds(request_id, attempt, at_ms) SELECT request_id, attempt, at_ms FROM refund_attempts WHERE state IS NULL;

CREATE TRIGGER refunds_opened AFTER INSERT ON refunds
BEGIN INSERT INTO open_refunds(request_id, attempt, at_ms) VALUES (NEW.request_id, 1, NEW.at_ms); END;
CREATE TRIGGER refund_retries_opened AFTER INSERT ON refund_retries
BEGIN INSERT INTO open_refunds(request_id, attempt, at_ms) VALUES (NEW.request_id, NEW.attempt, NEW.at_ms); END;
CREATE TRIGGER refund_outcomes_ended AFTER INSERT ON refund_outcomes
BEGIN DELETE FROM open_refunds WHERE request_id = NEW.request_id AND attempt = NEW.attempt; END;
