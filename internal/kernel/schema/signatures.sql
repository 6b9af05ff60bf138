-- Signatures of events that were queued before their signature was known: the
-- key is with a remote signer. The id of an event does not depend on it.
CREATE TABLE event_signatures (
    event_id  TEXT PRIMARY KEY REFERENCES outbox(event_id),
    sig       TEXT NOT NULL CHECK (length(sig) = 128),
    signed_ms INTEGER NOT NULL CHECK (signed_ms >= 0)
) STRICT, WITHOUT ROWID;
