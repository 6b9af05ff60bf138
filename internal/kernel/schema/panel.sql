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

-- A seat is not paid before its panel has decided, and only if it was taken.
CREATE TRIGGER attempts_of_seats BEFORE INSERT ON attempts
WHEN EXISTS (SELECT 1 FROM panel_seats WHERE request_id = NEW.request_id)
    AND NOT EXISTS (SELECT 1 FROM panel_rulings WHERE request_id = NEW.request_id AND taken = 1)
BEGIN SELECT RAISE(ABORT, 'the panel has not taken this seat'); END;
