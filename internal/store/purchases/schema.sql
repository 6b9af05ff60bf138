-- What the node buys.
CREATE TABLE purchases (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id TEXT NOT NULL UNIQUE CHECK (length(request_id) = 64 AND request_id NOT GLOB '*[^0-9a-f]*'),
    provider   TEXT NOT NULL CHECK (length(provider) = 64 AND provider NOT GLOB '*[^0-9a-f]*'),
    schema_id  TEXT NOT NULL CHECK (schema_id <> ''),
    job_hash   BLOB NOT NULL CHECK (length(job_hash) = 32),
    request    BLOB NOT NULL,
    max_msats  INTEGER NOT NULL CHECK (max_msats BETWEEN 0 AND 9007199254740991),
    relays     TEXT NOT NULL CHECK (json_valid(relays)),
    payee_node TEXT,
    added_ms   INTEGER NOT NULL CHECK (added_ms >= 0)
) STRICT;

CREATE TABLE purchase_states (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id TEXT NOT NULL REFERENCES purchases(request_id),
    state      TEXT NOT NULL CHECK (state IN ('requested', 'paying', 'paid', 'done', 'failed', 'canceled')),
    reason     TEXT NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE INDEX purchase_states_request ON purchase_states(request_id, seq);
-- Those that ended without a result, of which there are few.
CREATE INDEX purchase_states_undone ON purchase_states(request_id) WHERE state IN ('failed', 'canceled');
-- Purchases that were given up with their wallet.
CREATE INDEX purchase_states_given_up ON purchase_states(request_id) WHERE state = 'paying' AND reason <> '';
CREATE TRIGGER purchase_states_end BEFORE INSERT ON purchase_states
WHEN EXISTS (SELECT 1 FROM purchase_states WHERE request_id = NEW.request_id AND state IN ('done', 'failed', 'canceled'))
BEGIN SELECT RAISE(ABORT, 'purchase has ended'); END;
CREATE TRIGGER purchase_states_open AFTER INSERT ON purchase_states
WHEN NEW.state NOT IN ('done', 'failed', 'canceled')
BEGIN INSERT OR IGNORE INTO open_purchases VALUES (NEW.request_id); END;
CREATE TRIGGER purchase_states_closed AFTER INSERT ON purchase_states
WHEN NEW.state IN ('done', 'failed', 'canceled')
BEGIN DELETE FROM open_purchases WHERE request_id = NEW.request_id; END;
CREATE TRIGGER purchase_states_counted AFTER INSERT ON purchase_states
WHEN NEW.state IN ('done', 'failed', 'canceled')
BEGIN
    UPDATE purchase_totals SET done = done + (NEW.state = 'done'), failed = failed + (NEW.state = 'failed'),
        canceled = canceled + (NEW.state = 'canceled');
END;
CREATE TRIGGER purchase_states_done AFTER INSERT ON purchase_states
WHEN NEW.state = 'done'
BEGIN
    INSERT INTO provider_done(provider, done) SELECT provider, 1 FROM purchases WHERE request_id = NEW.request_id
    ON CONFLICT (provider) DO UPDATE SET done = done + 1;
END;
CREATE TRIGGER orders_served AFTER INSERT ON purchase_states
WHEN NEW.state IN ('done', 'canceled')
BEGIN
    DELETE FROM open_orders WHERE order_id = (SELECT order_id FROM order_requests WHERE request_id = NEW.request_id);
END;

CREATE VIEW purchase_current AS
SELECT p.seq, p.request_id, s.state, s.reason, s.at_ms
FROM purchases p JOIN purchase_states s
    ON s.seq = (SELECT max(seq) FROM purchase_states x WHERE x.request_id = p.request_id);

-- An index of the purchases that have not ended. Rows change; they follow from
-- purchase_states.
CREATE TABLE open_purchases (request_id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- Purchases from programs that know NIP-90 alone: the buyer said that it pays
-- without a quote and takes what comes without a receipt.
CREATE TABLE purchase_plain (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id)
) STRICT;

-- What an encrypted request asks for, in the clear.
CREATE TABLE purchase_hidden (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    tags       TEXT NOT NULL CHECK (json_valid(tags))
) STRICT;

-- The events that a request names as its inputs, one a line.
CREATE TABLE purchase_inputs (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    events     BLOB NOT NULL
) STRICT;

-- The most that may be paid as engagement fee, as announced when the job was ordered.
CREATE TABLE purchase_engagements (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    max_msats  INTEGER NOT NULL CHECK (max_msats BETWEEN 1 AND 9007199254740991)
) STRICT;

CREATE TABLE feedback (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id TEXT NOT NULL REFERENCES purchases(request_id),
    event_id   TEXT NOT NULL,
    event      BLOB NOT NULL,
    at_ms      INTEGER NOT NULL,
    UNIQUE (request_id, event_id)
) STRICT;
CREATE INDEX feedback_event ON feedback(event_id);

CREATE TABLE purchase_results (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    event      BLOB NOT NULL,
    output     BLOB NOT NULL REFERENCES contents(digest),
    early      INTEGER NOT NULL CHECK (early IN (0, 1)),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
CREATE INDEX purchase_results_event ON purchase_results(iif(json_valid(CAST(event AS TEXT)), json_extract(CAST(event AS TEXT), '$.id'), NULL));

-- A result that came in boxes, before the payment that opens them: what a buyer
-- who paid for a false box has to show.
CREATE TABLE purchase_sealed (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    event      BLOB NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;

CREATE TABLE purchase_receipts (
    request_id TEXT NOT NULL REFERENCES purchases(request_id),
    purpose    TEXT NOT NULL CHECK (purpose IN ('result', 'engagement')),
    receipt_id TEXT NOT NULL UNIQUE CHECK (receipt_id <> ''),
    event      BLOB NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (request_id, purpose)
) STRICT;
-- Receipts are listed by their date, and found by the ids of the events that
-- brought them, without a look at every other.
CREATE INDEX purchase_receipts_at ON purchase_receipts(at_ms);
CREATE INDEX purchase_receipts_event ON purchase_receipts(iif(json_valid(CAST(event AS TEXT)), json_extract(CAST(event AS TEXT), '$.id'), NULL));

CREATE TABLE purchase_cancels (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    event      BLOB NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;

-- How many purchases each provider served. Rows change; they follow from
-- purchase_states.
CREATE TABLE provider_done (
    provider TEXT PRIMARY KEY,
    done     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One job given to several providers; each seat is a purchase.
CREATE TABLE panels (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    panel_id    TEXT NOT NULL UNIQUE CHECK (panel_id GLOB 'panel_*'),
    schema_id   TEXT NOT NULL CHECK (schema_id <> ''),
    job_hash    BLOB NOT NULL CHECK (length(job_hash) = 32),
    rule        TEXT NOT NULL CHECK (rule IN ('first', 'majority', 'merge', 'judge')),
    max_msats   INTEGER NOT NULL CHECK (max_msats BETWEEN 0 AND 9007199254740991),
    deadline_ms INTEGER NOT NULL CHECK (deadline_ms >= 0),
    added_ms    INTEGER NOT NULL CHECK (added_ms >= 0)
) STRICT;

CREATE TABLE panel_seats (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    panel_id   TEXT NOT NULL REFERENCES panels(panel_id),
    seat       INTEGER NOT NULL CHECK (seat BETWEEN 1 AND 16),
    provider   TEXT NOT NULL,
    UNIQUE (panel_id, seat),
    UNIQUE (panel_id, provider)
) STRICT, WITHOUT ROWID;

-- Our event that ended the commits: what comes later does not count.
CREATE TABLE panel_closings (
    panel_id TEXT PRIMARY KEY REFERENCES panels(panel_id),
    event    BLOB NOT NULL,
    at_ms    INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;

CREATE TABLE panel_reveals (
    request_id     TEXT PRIMARY KEY REFERENCES panel_seats(request_id),
    agreement_hash BLOB NOT NULL CHECK (length(agreement_hash) = 32),
    event          BLOB NOT NULL,
    at_ms          INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;

-- What the panel decided, and of each seat.
CREATE TABLE panel_decisions (
    panel_id       TEXT PRIMARY KEY REFERENCES panels(panel_id),
    outcome        TEXT NOT NULL CHECK (outcome <> ''),
    agreement_hash BLOB CHECK (length(agreement_hash) = 32),
    reason         TEXT NOT NULL,
    at_ms          INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;

CREATE TABLE panel_rulings (
    request_id TEXT PRIMARY KEY REFERENCES panel_seats(request_id),
    taken      INTEGER NOT NULL CHECK (taken IN (0, 1)),
    why        TEXT NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;

-- How a judge or a merge came to a panel's decision: the ballots or the votes as
-- JSON, and the document that was merged.
CREATE TABLE panel_adjudications (
    panel_id TEXT PRIMARY KEY REFERENCES panels(panel_id),
    record   BLOB NOT NULL,
    output   BLOB
) STRICT;

-- Orders that name no provider, by their first request, and the further requests of
-- each: one after the other, until one is served.
CREATE TABLE orders (
    order_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    wanted   TEXT NOT NULL CHECK (json_valid(wanted)),
    added_ms INTEGER NOT NULL CHECK (added_ms >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE order_requests (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id   TEXT NOT NULL REFERENCES orders(order_id),
    request_id TEXT NOT NULL UNIQUE REFERENCES purchases(request_id)
) STRICT;
CREATE INDEX order_requests_order ON order_requests(order_id, seq);

-- The orders that have not ended. Rows change.
CREATE TABLE open_orders (order_id TEXT PRIMARY KEY REFERENCES orders(order_id)) STRICT, WITHOUT ROWID;
