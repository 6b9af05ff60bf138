-- The events that a request names as its inputs, one a line.
CREATE TABLE purchase_inputs (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    events     BLOB NOT NULL
) STRICT;
