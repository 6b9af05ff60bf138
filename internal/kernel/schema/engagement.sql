-- An engagement fee: what a provider asks for the attempt at a job whose result
-- it may not be paid for. It has a quote, an invoice and a payment of its own.
CREATE TABLE job_engagements (
    request_id   TEXT PRIMARY KEY REFERENCES jobs(request_id),
    price_msats  INTEGER NOT NULL CHECK (price_msats BETWEEN 1 AND 9007199254740991),
    quote        BLOB NOT NULL,
    quote_hash   BLOB NOT NULL UNIQUE CHECK (length(quote_hash) = 32),
    payment_hash BLOB NOT NULL UNIQUE CHECK (length(payment_hash) = 32),
    nonce        BLOB NOT NULL,
    expires_ms   INTEGER NOT NULL
) STRICT;
CREATE TABLE engagement_invoices (
    request_id TEXT PRIMARY KEY REFERENCES job_engagements(request_id),
    bolt11     TEXT NOT NULL UNIQUE CHECK (bolt11 <> ''),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE TABLE engagement_acceptances (
    request_id TEXT PRIMARY KEY REFERENCES job_engagements(request_id),
    event      BLOB NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;

-- The fee that came, and its receipt, which is in the one chain with the others.
CREATE TABLE engagement_receipts (
    sequence      INTEGER PRIMARY KEY CHECK (sequence >= 1),
    request_id    TEXT NOT NULL UNIQUE REFERENCES job_engagements(request_id),
    paid_msats    INTEGER NOT NULL CHECK (paid_msats BETWEEN 1 AND 9007199254740991),
    receipt_id    TEXT NOT NULL UNIQUE CHECK (receipt_id <> ''),
    receipt       BLOB NOT NULL,
    receipt_hash  BLOB NOT NULL UNIQUE CHECK (length(receipt_hash) = 32),
    previous_hash BLOB CHECK (length(previous_hash) = 32),
    issued_ms     INTEGER NOT NULL CHECK (issued_ms >= 0),
    CHECK ((previous_hash IS NULL) = (sequence = 1))
) STRICT;

DROP VIEW receipt_tip;
CREATE VIEW receipt_tip AS
SELECT sequence, receipt_hash FROM receipts
UNION ALL SELECT sequence, receipt_hash FROM engagement_receipts
UNION ALL SELECT sequence, receipt_hash FROM receipt_heads
ORDER BY sequence DESC LIMIT 1;
CREATE TRIGGER engagement_receipts_chain BEFORE INSERT ON engagement_receipts
WHEN NEW.sequence <> coalesce((SELECT sequence FROM receipt_tip), 0) + 1
    OR NEW.previous_hash IS NOT (SELECT receipt_hash FROM receipt_tip)
BEGIN SELECT RAISE(ABORT, 'receipt does not continue the chain'); END;

-- A job of which the fee is not paid does not go on.
CREATE TRIGGER engagement_first BEFORE INSERT ON job_states
WHEN NEW.state IN ('paid', 'running')
    AND EXISTS (SELECT 1 FROM job_engagements WHERE request_id = NEW.request_id)
    AND NOT EXISTS (SELECT 1 FROM engagement_receipts WHERE request_id = NEW.request_id)
BEGIN SELECT RAISE(ABORT, 'the engagement fee is not paid'); END;

-- The buyer's side: the most that may be paid, as announced when the job was
-- ordered; how the payment ended (its attempt is one of attempts); its receipt.
CREATE TABLE purchase_engagements (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    max_msats  INTEGER NOT NULL CHECK (max_msats BETWEEN 1 AND 9007199254740991)
) STRICT;
CREATE TABLE engagement_payments (
    request_id     TEXT PRIMARY KEY REFERENCES purchases(request_id),
    payment_hash   BLOB NOT NULL CHECK (length(payment_hash) = 32),
    state          TEXT NOT NULL CHECK (state IN ('succeeded', 'failed')),
    amount_msats   INTEGER NOT NULL CHECK (amount_msats BETWEEN 0 AND 9007199254740991),
    fee_msats      INTEGER NOT NULL CHECK (fee_msats BETWEEN 0 AND 9007199254740991),
    preimage       BLOB CHECK (length(preimage) = 32),
    failure_reason TEXT NOT NULL,
    at_ms          INTEGER NOT NULL CHECK (at_ms >= 0),
    CHECK ((preimage IS NOT NULL) = (state = 'succeeded'))
) STRICT;
CREATE TABLE purchase_engagement_receipts (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    receipt_id TEXT NOT NULL UNIQUE CHECK (receipt_id <> ''),
    event      BLOB NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;

-- Before a panel has decided, a seat is paid at most its fee.
DROP TRIGGER attempts_of_seats;
CREATE TRIGGER attempts_of_seats BEFORE INSERT ON attempts
WHEN NEW.purpose = 'result'
    AND EXISTS (SELECT 1 FROM panel_seats WHERE request_id = NEW.request_id)
    AND NOT EXISTS (SELECT 1 FROM panel_rulings WHERE request_id = NEW.request_id AND taken = 1)
BEGIN SELECT RAISE(ABORT, 'the panel has not taken this seat'); END;
