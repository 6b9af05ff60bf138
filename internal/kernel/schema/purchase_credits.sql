-- What a provider signed that it owes of a purchase, and what its quotes were
-- lowered by: its word, never more than what we paid.
CREATE TABLE purchase_credits (
    request_id TEXT NOT NULL REFERENCES purchases(request_id),
    way        TEXT NOT NULL CHECK (way IN ('owed', 'used')),
    msats      INTEGER NOT NULL CHECK (msats > 0),
    at_ms      INTEGER NOT NULL,
    PRIMARY KEY (request_id, way)
) STRICT, WITHOUT ROWID;
