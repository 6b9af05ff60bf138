-- A payment of a purchase that a wallet was about to be told to make, one row each
-- time. A wallet that was restored, or whose payments were deleted, knows nothing of
-- one that it has made: the row is how we know.
CREATE TABLE sent_payments (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    payment_hash BLOB NOT NULL CHECK (length(payment_hash) = 32),
    at_ms        INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE INDEX sent_payments_hash ON sent_payments(payment_hash);
