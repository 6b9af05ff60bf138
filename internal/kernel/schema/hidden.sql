-- What an encrypted request asks for, in the clear.
CREATE TABLE purchase_hidden (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    tags       TEXT NOT NULL CHECK (json_valid(tags))
) STRICT;
