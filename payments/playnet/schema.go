package playnet

// schema of the ledger's file. Money is in accounts and moves only through rows in
// moves, which a trigger applies; rows are never changed or removed. The sum over
// accounts is therefore always 0, where @issued is the negated payout of the
// faucet. Times are milliseconds since 1970, amounts are msats.
const schema = `
CREATE TABLE accounts (
  name          TEXT PRIMARY KEY,
  balance_msats INTEGER NOT NULL DEFAULT 0,
  CHECK (balance_msats >= 0 OR name = '@issued')
) STRICT, WITHOUT ROWID;
INSERT INTO accounts (name) VALUES ('@issued'), ('@held'), ('@fees');

CREATE TABLE moves (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT,
  at_ms        INTEGER NOT NULL,
  src          TEXT NOT NULL REFERENCES accounts (name),
  dst          TEXT NOT NULL REFERENCES accounts (name),
  msats        INTEGER NOT NULL CHECK (msats > 0),
  why          TEXT NOT NULL CHECK (why IN ('faucet', 'reserve', 'settle', 'fee', 'refund')),
  payment_hash BLOB CHECK (length(payment_hash) = 32),
  CHECK (src <> dst)
) STRICT;
CREATE TRIGGER moves_apply AFTER INSERT ON moves BEGIN
  UPDATE accounts SET balance_msats = balance_msats - NEW.msats WHERE name = NEW.src;
  UPDATE accounts SET balance_msats = balance_msats + NEW.msats WHERE name = NEW.dst;
END;
CREATE TRIGGER moves_keep BEFORE UPDATE ON moves BEGIN SELECT RAISE(ABORT, 'moves are append-only'); END;
CREATE TRIGGER moves_stay BEFORE DELETE ON moves BEGIN SELECT RAISE(ABORT, 'moves are append-only'); END;

CREATE TABLE wallets (
  name       TEXT PRIMARY KEY REFERENCES accounts (name),
  token_hash BLOB NOT NULL UNIQUE CHECK (length(token_hash) = 32),
  node_key   BLOB NOT NULL CHECK (length(node_key) = 32),
  pub_key    TEXT NOT NULL UNIQUE CHECK (length(pub_key) = 66),
  opened_ms  INTEGER NOT NULL
) STRICT;

CREATE TABLE invoices (
  payment_hash     BLOB PRIMARY KEY CHECK (length(payment_hash) = 32),
  wallet           TEXT NOT NULL REFERENCES wallets (name),
  bolt11           TEXT NOT NULL UNIQUE,
  amount_msats     INTEGER NOT NULL CHECK (amount_msats > 0),
  description_hash BLOB NOT NULL CHECK (length(description_hash) = 32),
  expiry_s         INTEGER NOT NULL CHECK (expiry_s > 0),
  hold             INTEGER NOT NULL CHECK (hold IN (0, 1)),
  preimage         BLOB CHECK (length(preimage) = 32),
  state            TEXT NOT NULL CHECK (state IN ('open', 'held', 'settled', 'canceled')),
  -- while open: when it expires; while held: when the money goes back
  deadline_ms      INTEGER,
  settled_ms       INTEGER,
  canceled_why     TEXT,
  CHECK ((deadline_ms IS NULL) = (state IN ('settled', 'canceled'))),
  CHECK ((settled_ms IS NOT NULL) = (state = 'settled')),
  CHECK ((canceled_why IS NOT NULL) = (state = 'canceled')),
  CHECK (state <> 'settled' OR preimage IS NOT NULL)
) STRICT;
CREATE INDEX invoices_by_deadline ON invoices (deadline_ms) WHERE deadline_ms IS NOT NULL;
CREATE INDEX invoices_by_wallet ON invoices (wallet, state);

CREATE TABLE payments (
  payment_hash BLOB NOT NULL REFERENCES invoices (payment_hash),
  payer        TEXT NOT NULL REFERENCES wallets (name),
  state        TEXT NOT NULL CHECK (state IN ('in_flight', 'succeeded', 'failed')),
  amount_msats INTEGER NOT NULL CHECK (amount_msats > 0),
  fee_msats    INTEGER NOT NULL CHECK (fee_msats >= 0),
  failure      TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (payment_hash, payer)
) STRICT, WITHOUT ROWID;
-- one invoice is paid by one wallet, once
CREATE UNIQUE INDEX payments_once ON payments (payment_hash) WHERE state <> 'failed';
CREATE INDEX payments_by_payer ON payments (payer, state);

-- what watchers of a wallet's invoices are told
CREATE TABLE changes (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT,
  wallet       TEXT NOT NULL REFERENCES wallets (name),
  payment_hash BLOB NOT NULL REFERENCES invoices (payment_hash)
) STRICT;
CREATE INDEX changes_by_wallet ON changes (wallet, seq);
`
