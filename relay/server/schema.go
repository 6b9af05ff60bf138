package server

// migrations is the schema of relay.db. Tags are found by the first eight
// bytes of a hash, so that a value of any length costs the same; a collision
// only costs a row that is read and found not to match.
var migrations = []string{`
CREATE TABLE events (
  seq        INTEGER PRIMARY KEY,
  id         BLOB NOT NULL UNIQUE CHECK (length(id) = 32),
  pubkey     BLOB NOT NULL CHECK (length(pubkey) = 32),
  kind       INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  address    TEXT UNIQUE, -- kind:pubkey:d of replaceable and addressable events
  raw        BLOB NOT NULL
) STRICT;
CREATE INDEX events_author ON events (pubkey, created_at);
CREATE INDEX events_author_kind ON events (pubkey, kind, created_at);
CREATE INDEX events_kind ON events (kind, created_at);
CREATE INDEX events_time ON events (created_at);
CREATE INDEX events_expiry ON events (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE tags (
  key        INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  PRIMARY KEY (key, created_at, seq)
) STRICT, WITHOUT ROWID;

-- What its author deleted: an event id, or an address up to a time. It keeps
-- a deleted event from coming back.
CREATE TABLE deleted (
  target TEXT NOT NULL,
  pubkey BLOB NOT NULL,
  until  INTEGER NOT NULL,
  PRIMARY KEY (target, pubkey)
) STRICT, WITHOUT ROWID;

CREATE TABLE blobs (
  sha256   BLOB PRIMARY KEY CHECK (length(sha256) = 32),
  size     INTEGER NOT NULL CHECK (size >= 0),
  type     TEXT NOT NULL,
  uploaded INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE blob_owners (
  sha256 BLOB NOT NULL REFERENCES blobs ON DELETE CASCADE,
  pubkey BLOB NOT NULL CHECK (length(pubkey) = 32),
  PRIMARY KEY (sha256, pubkey)
) STRICT, WITHOUT ROWID;
`}
