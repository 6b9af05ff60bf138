-- Which wallet a payment of ours was begun with: no other knows what became of it,
-- and none may make it in its place. The last row of a hash counts, since a refund
-- that failed for good may be sent again.
CREATE TABLE payer_wallets (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    payment_hash BLOB NOT NULL CHECK (length(payment_hash) = 32),
    wallet       TEXT NOT NULL CHECK (wallet <> '')
) STRICT;
CREATE INDEX payer_wallets_hash ON payer_wallets(payment_hash, seq);
