-- A result that came in boxes, before the payment that opens them: what a buyer
-- who paid for a false box has to show.
CREATE TABLE purchase_sealed (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    event      BLOB NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
