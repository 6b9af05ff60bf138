-- An entry is written to the page that the one before is on, and to no other: not
-- to one that counts, since the number comes from the entry before, and not to its
-- thread's page of an index. The entry that ends a block of 1,024 brings the block
-- into journal_threads; a block that has not ended is looked through.
ALTER TABLE journal RENAME TO journal_old;
CREATE TABLE journal (
    seq          INTEGER PRIMARY KEY CHECK (seq > 0), -- one more than the highest ever, see journal_deleted
    at_ms        INTEGER NOT NULL CHECK (at_ms >= 0),
    thread_id    TEXT NOT NULL REFERENCES threads(thread_id),
    direction    TEXT NOT NULL CHECK (direction IN ('Inbound', 'Outbound')),
    handler      TEXT NOT NULL CHECK (handler <> ''),
    payload_tag  TEXT NOT NULL CHECK (payload_tag <> ''),
    payload_hash BLOB NOT NULL CHECK (length(payload_hash) = 32),
    retention    TEXT NOT NULL CHECK (retention IN ('retain_forever', 'prune_on_delivery') OR retention GLOB 'retain_days([1-9]*)'),
    expires_ms   INTEGER CHECK ((expires_ms IS NOT NULL) = (retention GLOB 'retain_days(*')),
    request_id   TEXT, -- the job, if the message belongs to one
    call_id      TEXT, -- pairs the outbound and inbound entry of one call
    keeps        INTEGER NOT NULL CHECK (keeps IN (0, 1)) -- its content
) STRICT;
INSERT INTO journal(seq, at_ms, thread_id, direction, handler, payload_tag, payload_hash, retention, expires_ms, request_id, call_id, keeps)
SELECT seq, at_ms, thread_id, direction, handler, payload_tag, payload_hash, retention, expires_ms, request_id, call_id, keeps
FROM journal_old ORDER BY seq;

CREATE TABLE journal_threads (
    thread_id TEXT NOT NULL,
    seq       INTEGER NOT NULL,
    PRIMARY KEY (thread_id, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO journal_threads(thread_id, seq) SELECT thread_id, seq FROM journal_old ORDER BY thread_id, seq;

-- The highest number of an entry that was the last one when it was deleted.
CREATE TABLE journal_deleted (seq INTEGER NOT NULL) STRICT;
INSERT INTO journal_deleted(seq) SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'journal_old';

DROP VIEW content_refs;
CREATE VIEW content_refs AS
SELECT payload_hash AS digest FROM journal WHERE keeps = 1
UNION ALL SELECT digest FROM contents WHERE pinned = 1
UNION ALL SELECT digest FROM content_pins
UNION ALL SELECT content FROM context_segments c
    WHERE NOT EXISTS (SELECT 1 FROM context_states x WHERE x.segment_id = c.id AND x.status = 'Pruned')
UNION ALL SELECT summary FROM context_states s
    WHERE summary IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM context_states x WHERE x.segment_id = s.segment_id AND x.status = 'Pruned');
DROP TABLE journal_old;

CREATE INDEX journal_request ON journal(request_id, seq) WHERE request_id IS NOT NULL;
CREATE INDEX journal_call ON journal(call_id, seq) WHERE call_id IS NOT NULL;
CREATE INDEX journal_keeps ON journal(payload_hash) WHERE keeps = 1;
CREATE INDEX journal_expires ON journal(expires_ms) WHERE expires_ms IS NOT NULL;
CREATE INDEX journal_undelivered ON journal(thread_id, seq) WHERE retention = 'prune_on_delivery';

CREATE TRIGGER journal_no_update BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'journal is append-only'); END;
CREATE TRIGGER journal_keep BEFORE DELETE ON journal
WHEN OLD.retention = 'retain_forever'
BEGIN SELECT RAISE(ABORT, 'journal entry is retained for ever'); END;
CREATE TRIGGER journal_gone AFTER DELETE ON journal BEGIN
    DELETE FROM journal_threads WHERE thread_id = OLD.thread_id AND seq = OLD.seq;
    UPDATE journal_deleted SET seq = OLD.seq
        WHERE seq < OLD.seq AND NOT EXISTS (SELECT 1 FROM journal WHERE seq > OLD.seq);
END;

-- The entries of each thread; those of the last block may be here twice.
CREATE VIEW journal_by_thread AS
SELECT thread_id, seq FROM journal_threads
UNION ALL SELECT thread_id, seq FROM journal WHERE seq > (SELECT max(seq) FROM journal) / 1024 * 1024;
