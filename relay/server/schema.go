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
`, `
-- What each key's events take, and all: see quota. Standing events have an
-- address, regular ones none.
ALTER TABLE events ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
UPDATE events SET size = length(raw) + 700; -- roughly, for those that are here
CREATE INDEX events_regular ON events (seq) WHERE address IS NULL;
CREATE INDEX events_regular_author ON events (pubkey) WHERE address IS NULL;
CREATE TABLE usage (
  pubkey   BLOB PRIMARY KEY,
  regular  INTEGER NOT NULL,
  standing INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_regular ON usage (regular);
CREATE TABLE usage_total (
  regular  INTEGER NOT NULL,
  standing INTEGER NOT NULL
) STRICT;
INSERT INTO usage SELECT pubkey, sum(iif(address IS NULL, size, 0)), sum(iif(address IS NULL, 0, size))
  FROM events GROUP BY pubkey;
INSERT INTO usage_total SELECT coalesce(sum(regular), 0), coalesce(sum(standing), 0) FROM usage;
CREATE TRIGGER events_in AFTER INSERT ON events BEGIN
  INSERT INTO usage VALUES (new.pubkey, iif(new.address IS NULL, new.size, 0), iif(new.address IS NULL, 0, new.size))
    ON CONFLICT DO UPDATE SET regular = regular + excluded.regular, standing = standing + excluded.standing;
  UPDATE usage_total SET regular = regular + iif(new.address IS NULL, new.size, 0),
    standing = standing + iif(new.address IS NULL, 0, new.size);
END;
CREATE TRIGGER events_out AFTER DELETE ON events BEGIN
  UPDATE usage SET regular = regular - iif(old.address IS NULL, old.size, 0),
    standing = standing - iif(old.address IS NULL, 0, old.size) WHERE pubkey = old.pubkey;
  DELETE FROM usage WHERE pubkey = old.pubkey AND regular = 0 AND standing = 0;
  UPDATE usage_total SET regular = regular - iif(old.address IS NULL, old.size, 0),
    standing = standing - iif(old.address IS NULL, 0, old.size);
END;
`, `
-- What comes in is added up for a whole commit: see tally.
DROP TRIGGER events_in;
`, `
-- The bytes of small blobs. Other blobs, and those from before, are files.
CREATE TABLE blob_bodies (
  id   INTEGER PRIMARY KEY,
  body BLOB NOT NULL
) STRICT;
ALTER TABLE blobs ADD COLUMN body INTEGER;
`, `
-- Events of the operator's own keys, which strangers do not push out.
ALTER TABLE events ADD COLUMN own INTEGER NOT NULL DEFAULT 0;
DROP INDEX events_regular;
CREATE INDEX events_regular ON events (seq) WHERE address IS NULL AND own = 0;
CREATE INDEX events_standing ON events (seq) WHERE address IS NOT NULL AND own = 0;
CREATE INDEX events_standing_author ON events (pubkey) WHERE address IS NOT NULL AND own = 0;
CREATE INDEX events_own ON events (seq) WHERE own = 1;
CREATE INDEX usage_standing ON usage (standing);

-- What each key's blobs take, 512 bytes for each included, and when it
-- uploaded each last, in milliseconds.
ALTER TABLE blob_owners ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
ALTER TABLE blob_owners ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
UPDATE blob_owners SET (size, since) = (SELECT size, 1000 * uploaded FROM blobs b WHERE b.sha256 = blob_owners.sha256);
CREATE INDEX blob_owners_age ON blob_owners (since);
CREATE INDEX blob_owners_key ON blob_owners (pubkey, since);
CREATE TABLE blob_usage (
  pubkey BLOB PRIMARY KEY,
  bytes  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_usage_bytes ON blob_usage (bytes);
INSERT INTO blob_usage SELECT pubkey, sum(size + 512) FROM blob_owners GROUP BY pubkey;
CREATE TRIGGER blob_owners_in AFTER INSERT ON blob_owners BEGIN
  INSERT INTO blob_usage VALUES (new.pubkey, new.size + 512) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER blob_owners_out AFTER DELETE ON blob_owners BEGIN
  UPDATE blob_usage SET bytes = bytes - old.size - 512 WHERE pubkey = old.pubkey;
  DELETE FROM blob_usage WHERE pubkey = old.pubkey AND bytes <= 0;
END;
`, `
-- Rooms that providers of the operator opened for what the buyer of one request
-- uploads, and what is in each. Times are in milliseconds.
CREATE TABLE rooms (
  id       BLOB PRIMARY KEY CHECK (length(id) = 32),
  owner    BLOB NOT NULL CHECK (length(owner) = 32),
  uploader BLOB NOT NULL CHECK (length(uploader) = 32),
  address  TEXT NOT NULL DEFAULT '', -- of the last upload
  bytes    INTEGER NOT NULL CHECK (bytes > 0),
  blobs    INTEGER NOT NULL CHECK (blobs > 0),
  used     INTEGER NOT NULL DEFAULT 0 CHECK (used <= bytes),
  stored   INTEGER NOT NULL DEFAULT 0 CHECK (stored <= blobs),
  lapses   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX rooms_uploader ON rooms (uploader);
CREATE INDEX rooms_address ON rooms (address);
CREATE TABLE room_blobs (
  room   BLOB NOT NULL REFERENCES rooms,
  sha256 BLOB NOT NULL REFERENCES blobs,
  PRIMARY KEY (room, sha256)
) STRICT, WITHOUT ROWID;
CREATE INDEX room_blobs_blob ON room_blobs (sha256);
`}
