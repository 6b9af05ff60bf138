package cashu

// schema of the wallet's file. Times are milliseconds since 1970. A note has a row
// from the moment when it is ours, and is never removed. An op is a request to the
// mint, with everything needed to repeat it.
const schema = `
CREATE TABLE wallet (
  one  INTEGER PRIMARY KEY CHECK (one = 1),
  mint TEXT NOT NULL,
  node TEXT NOT NULL CHECK (length(node) = 66)
) STRICT;

-- the next number of NUT-13's path; it only grows
CREATE TABLE counters (
  keyset TEXT PRIMARY KEY,
  next   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE ops (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  kind         TEXT NOT NULL CHECK (kind IN ('send', 'claim', 'refund', 'topup', 'export')),
  payment_hash BLOB CHECK (length(payment_hash) = 32),
  quote        TEXT NOT NULL DEFAULT '',
  inputs       TEXT NOT NULL,
  outputs      TEXT NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('open', 'done', 'refused')),
  -- when a request was last sent whose answer is not known; 0: none is
  unsure_ms    INTEGER NOT NULL DEFAULT 0,
  at_ms        INTEGER NOT NULL,
  token        TEXT NOT NULL DEFAULT '', -- of an export that is done
  failure      TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX ops_open ON ops (id) WHERE state = 'open';
CREATE UNIQUE INDEX ops_once ON ops (kind, payment_hash) WHERE payment_hash IS NOT NULL AND state <> 'refused';

CREATE TABLE notes (
  secret TEXT PRIMARY KEY,
  keyset TEXT NOT NULL,
  sats   INTEGER NOT NULL CHECK (sats > 0),
  note   TEXT NOT NULL,
  state  TEXT NOT NULL CHECK (state IN ('free', 'reserved', 'spent')),
  op     INTEGER REFERENCES ops (id), -- which reserved or spent it
  CHECK ((op IS NULL) = (state = 'free'))
) STRICT, WITHOUT ROWID;
CREATE INDEX notes_free ON notes (sats) WHERE state = 'free';
CREATE INDEX notes_by_op ON notes (op) WHERE state = 'reserved';

CREATE TABLE invoices (
  payment_hash     BLOB PRIMARY KEY CHECK (length(payment_hash) = 32),
  bolt11           TEXT NOT NULL UNIQUE,
  amount_msats     INTEGER NOT NULL CHECK (amount_msats > 0),
  description_hash BLOB NOT NULL CHECK (length(description_hash) = 32),
  expiry_s         INTEGER NOT NULL CHECK (expiry_s > 0),
  hold             INTEGER NOT NULL CHECK (hold IN (0, 1)),
  preimage         BLOB CHECK (length(preimage) = 32),
  -- claiming: held, and the mint is being asked for the money
  state            TEXT NOT NULL CHECK (state IN ('open', 'held', 'claiming', 'settled', 'canceled')),
  expires_ms       INTEGER NOT NULL,
  notes            TEXT,
  locked_ms        INTEGER, -- when the notes' lock ends
  settled_ms       INTEGER,
  canceled_why     TEXT,
  CHECK ((settled_ms IS NOT NULL) = (state = 'settled')),
  CHECK ((canceled_why IS NOT NULL) = (state = 'canceled')),
  CHECK (notes IS NOT NULL OR state IN ('open', 'canceled')),
  CHECK (preimage IS NOT NULL OR state NOT IN ('claiming', 'settled'))
) STRICT;
CREATE INDEX invoices_open ON invoices (expires_ms) WHERE state IN ('open', 'held', 'claiming');

-- messages that may pay an invoice, until the mint was asked about them
CREATE TABLE arrivals (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  payment_hash BLOB NOT NULL REFERENCES invoices (payment_hash),
  digest       BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  notes        TEXT NOT NULL,
  at_ms        INTEGER NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('new', 'taken', 'refused'))
) STRICT;
CREATE INDEX arrivals_new ON arrivals (id) WHERE state = 'new';
CREATE INDEX arrivals_by_invoice ON arrivals (payment_hash);

CREATE TABLE payments (
  payment_hash BLOB PRIMARY KEY CHECK (length(payment_hash) = 32),
  bolt11       TEXT NOT NULL,
  -- locking: the notes are being made; sent: they are, and the payee has the
  -- message or will; refunding: the lock is over and we take them back
  state        TEXT NOT NULL CHECK (state IN ('locking', 'sent', 'refunding', 'succeeded', 'failed')),
  amount_msats INTEGER NOT NULL CHECK (amount_msats > 0),
  fee_msats    INTEGER NOT NULL CHECK (fee_msats >= 0),
  payee        TEXT NOT NULL CHECK (length(payee) = 66),
  notes        TEXT NOT NULL DEFAULT '[]',
  locked_s     INTEGER NOT NULL,
  preimage     BLOB CHECK (length(preimage) = 32),
  failure      TEXT NOT NULL DEFAULT '',
  warning      TEXT NOT NULL DEFAULT '',
  CHECK ((preimage IS NOT NULL) = (state = 'succeeded'))
) STRICT, WITHOUT ROWID;
CREATE INDEX payments_open ON payments (state) WHERE state IN ('locking', 'sent', 'refunding');
`

// schemaMelts lets the wallet pay Lightning invoices through the mint. It rewrites
// the table of ops for two new kinds: split makes notes of exactly the needed sum,
// melt gives them to the mint.
const schemaMelts = `
PRAGMA defer_foreign_keys = ON;
CREATE TABLE ops_before AS SELECT * FROM ops;
DROP TABLE ops;
CREATE TABLE ops (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  kind         TEXT NOT NULL CHECK (kind IN ('send', 'claim', 'refund', 'topup', 'export', 'split', 'melt')),
  payment_hash BLOB CHECK (length(payment_hash) = 32),
  quote        TEXT NOT NULL DEFAULT '', -- the mint's name for a topup, split or melt
  inputs       TEXT NOT NULL,
  outputs      TEXT NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('open', 'done', 'refused')),
  -- when a request was last sent whose answer is not known; 0: none is
  unsure_ms    INTEGER NOT NULL DEFAULT 0,
  at_ms        INTEGER NOT NULL,
  token        TEXT NOT NULL DEFAULT '', -- of an export that is done
  failure      TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO ops (id, kind, payment_hash, quote, inputs, outputs, state, unsure_ms, at_ms, token, failure)
  SELECT id, kind, payment_hash, quote, inputs, outputs, state, unsure_ms, at_ms, token, failure FROM ops_before;
DROP TABLE ops_before;
CREATE INDEX ops_open ON ops (id) WHERE state = 'open';
CREATE UNIQUE INDEX ops_once ON ops (kind, payment_hash) WHERE payment_hash IS NOT NULL AND state <> 'refused';

CREATE TABLE melts (
  payment_hash BLOB PRIMARY KEY CHECK (length(payment_hash) = 32),
  bolt11       TEXT NOT NULL,
  amount_msats INTEGER NOT NULL CHECK (amount_msats > 0),
  quote        TEXT NOT NULL UNIQUE, -- the mint's name for it
  sats         INTEGER NOT NULL CHECK (sats > 0),
  reserve_sats INTEGER NOT NULL CHECK (reserve_sats >= 0), -- for the route's fee; what is left of it comes back
  expires_ms   INTEGER NOT NULL, -- of the quote, or of the invoice if that is sooner
  -- splitting: notes of the sum are being made; paying: the mint has them or will
  state        TEXT NOT NULL CHECK (state IN ('quoted', 'splitting', 'paying', 'paid', 'failed')),
  cost_sats    INTEGER NOT NULL DEFAULT 0 CHECK (cost_sats >= 0), -- what leaves or has left the wallet
  preimage     BLOB CHECK (length(preimage) = 32), -- if the mint has shown it
  failure      TEXT NOT NULL DEFAULT '',
  at_ms        INTEGER NOT NULL,
  CHECK (preimage IS NULL OR state = 'paid')
) STRICT, WITHOUT ROWID;
`

// schemaTopups stores until when an invoice of the mint can be paid: until then it
// counts towards MaxMsats. Older open ones count as long as they are polled.
const schemaTopups = `
ALTER TABLE ops ADD COLUMN until_ms INTEGER NOT NULL DEFAULT 0; -- of a topup; 0: not known
`

// schemaSearched stores for which keysets the mint was asked for earlier notes.
const schemaSearched = `
ALTER TABLE counters ADD COLUMN searched INTEGER NOT NULL DEFAULT 1 CHECK (searched IN (0, 1)); -- 0: not to its end
`
