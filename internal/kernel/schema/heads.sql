-- Receipts that this provider's key signed and that this database never wrote:
-- it was restored from an older backup. The chain goes on behind the last.
CREATE TABLE receipt_heads (
    sequence     INTEGER PRIMARY KEY CHECK (sequence >= 1),
    receipt_hash BLOB NOT NULL UNIQUE CHECK (length(receipt_hash) = 32),
    adopted_ms   INTEGER NOT NULL CHECK (adopted_ms >= 0)
) STRICT;
CREATE VIEW receipt_tip AS
SELECT sequence, receipt_hash FROM receipts UNION ALL SELECT sequence, receipt_hash FROM receipt_heads
ORDER BY sequence DESC LIMIT 1;

DROP TRIGGER receipts_chain;
CREATE TRIGGER receipts_chain BEFORE INSERT ON receipts
WHEN NEW.sequence <> coalesce((SELECT sequence FROM receipt_tip), 0) + 1
    OR NEW.previous_hash IS NOT (SELECT receipt_hash FROM receipt_tip)
BEGIN SELECT RAISE(ABORT, 'receipt does not continue the chain'); END;
CREATE TRIGGER receipt_heads_ahead BEFORE INSERT ON receipt_heads
WHEN NEW.sequence <= coalesce((SELECT sequence FROM receipt_tip), 0)
BEGIN SELECT RAISE(ABORT, 'receipt head is not ahead of the chain'); END;
