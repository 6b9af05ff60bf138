-- Bytes by their SHA-256. Rows that nothing refers to any more are deleted.
CREATE TABLE contents (
    digest BLOB PRIMARY KEY CHECK (length(digest) = 32),
    size   INTEGER NOT NULL CHECK (size >= length(bytes)),
    bytes  BLOB NOT NULL, -- the first 256 KiB
    pinned INTEGER NOT NULL DEFAULT 0 -- as it was stored
) STRICT;
CREATE TRIGGER contents_no_update BEFORE UPDATE ON contents
BEGIN SELECT RAISE(ABORT, 'contents is append-only'); END;
CREATE TRIGGER contents_keep BEFORE DELETE ON contents
WHEN EXISTS (SELECT 1 FROM content_refs WHERE digest = OLD.digest)
BEGIN SELECT RAISE(ABORT, 'content is referred to'); END;

-- What a content has beyond its first 256 KiB, in pieces of that size: to delete a row
-- is to free all its pages, and other writers wait for that.
CREATE TABLE content_pieces (
    digest BLOB NOT NULL,
    n      INTEGER NOT NULL CHECK (n >= 1), -- rises
    bytes  BLOB NOT NULL,
    PRIMARY KEY (digest, n)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER content_pieces_no_update BEFORE UPDATE ON content_pieces
BEGIN SELECT RAISE(ABORT, 'content_pieces is append-only'); END;
CREATE TRIGGER content_pieces_keep BEFORE DELETE ON content_pieces
WHEN EXISTS (SELECT 1 FROM contents WHERE digest = OLD.digest)
BEGIN SELECT RAISE(ABORT, 'piece of a content that is here'); END;

-- The contents that were deleted and have pieces still. Rows change.
CREATE TABLE content_rests (
    digest BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;
CREATE TRIGGER contents_deleted AFTER DELETE ON contents
WHEN OLD.size > length(OLD.bytes)
BEGIN INSERT INTO content_rests(digest) VALUES (OLD.digest); END;

-- Contents that were there already, by a journal entry or a segment, when they were
-- pinned.
CREATE TABLE content_pins (
    digest BLOB PRIMARY KEY REFERENCES contents(digest)
) STRICT, WITHOUT ROWID;

-- What the threads know: pieces of context by the digest of their bytes.
CREATE TABLE context_segments (
    id             INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice
    thread_id      TEXT NOT NULL REFERENCES threads(thread_id),
    content        BLOB NOT NULL CHECK (length(content) = 32),
    content_type   TEXT NOT NULL CHECK (content_type <> '' AND length(content_type) <= 128),
    byte_size      INTEGER NOT NULL CHECK (byte_size >= 0),
    token_estimate INTEGER NOT NULL CHECK (token_estimate >= 0),
    created_ms     INTEGER NOT NULL CHECK (created_ms >= 0)
) STRICT;
CREATE INDEX context_segments_thread ON context_segments(thread_id, id);
CREATE INDEX context_segments_content ON context_segments(content);
CREATE TRIGGER context_segments_stored BEFORE INSERT ON context_segments
WHEN NOT EXISTS (SELECT 1 FROM contents WHERE digest = NEW.content AND size = NEW.byte_size)
BEGIN SELECT RAISE(ABORT, 'segment without its content'); END;
CREATE TRIGGER context_segments_active BEFORE INSERT ON context_segments
WHEN (SELECT state FROM thread_current WHERE thread_id = NEW.thread_id) IS NOT 'Active'
BEGIN SELECT RAISE(ABORT, 'segment of a thread that has ended'); END;

-- The tier of a segment is its newest row. Pruned is the end: by retention, when
-- the thread has ended. In all other tiers the content is kept.
CREATE TABLE context_states (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    segment_id INTEGER NOT NULL REFERENCES context_segments(id),
    status     TEXT NOT NULL CHECK (status IN ('Expanded', 'Folded', 'Evicted', 'Pruned')),
    relevance  REAL NOT NULL CHECK (relevance BETWEEN 0.0 AND 1.0),
    summary    BLOB CHECK (length(summary) = 32), -- digest; kept from row to row
    asked_for  BLOB CHECK (length(asked_for) = 32), -- digest of a task
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0),
    CHECK (status <> 'Folded' OR summary IS NOT NULL),
    CHECK (status <> 'Pruned' OR summary IS NULL)
) STRICT;
CREATE INDEX context_states_segment ON context_states(segment_id, seq);
CREATE INDEX context_states_summary ON context_states(summary) WHERE summary IS NOT NULL;
CREATE UNIQUE INDEX context_states_pruned ON context_states(segment_id) WHERE status = 'Pruned';
CREATE TRIGGER context_states_order BEFORE INSERT ON context_states
WHEN EXISTS (SELECT 1 FROM context_states WHERE segment_id = NEW.segment_id AND status = 'Pruned')
    OR NEW.status <> 'Expanded' AND NOT EXISTS (SELECT 1 FROM context_states WHERE segment_id = NEW.segment_id)
BEGIN SELECT RAISE(ABORT, 'segment is pruned, or was never expanded'); END;
CREATE TRIGGER context_states_stored BEFORE INSERT ON context_states
WHEN NEW.summary IS NOT NULL AND NOT EXISTS (SELECT 1 FROM contents WHERE digest = NEW.summary)
BEGIN SELECT RAISE(ABORT, 'segment without its summary'); END;
CREATE TRIGGER context_states_prune BEFORE INSERT ON context_states
WHEN NEW.status = 'Pruned' AND 'Active' = (SELECT t.state FROM thread_current t
    JOIN context_segments c ON c.thread_id = t.thread_id WHERE c.id = NEW.segment_id)
BEGIN SELECT RAISE(ABORT, 'context of a thread at work is not pruned'); END;

CREATE VIEW context_current AS
SELECT c.id, c.thread_id, c.content, c.content_type, s.relevance, s.status, c.byte_size, c.token_estimate,
    s.summary, s.asked_for, s.at_ms
FROM context_segments c JOIN context_states s
    ON s.seq = (SELECT max(seq) FROM context_states x WHERE x.segment_id = c.id);

-- An index of the ended threads whose context is to be pruned at a time. Rows
-- change.
CREATE TABLE context_expiring (
    expires_ms INTEGER NOT NULL CHECK (expires_ms >= 0),
    thread_id  TEXT NOT NULL UNIQUE REFERENCES threads(thread_id),
    PRIMARY KEY (expires_ms, thread_id)
) STRICT, WITHOUT ROWID;

-- Everything that keeps a content from being deleted.
CREATE VIEW content_refs AS
SELECT payload_hash AS digest FROM journal WHERE keeps = 1
UNION ALL SELECT digest FROM contents WHERE pinned = 1
UNION ALL SELECT digest FROM content_pins
UNION ALL SELECT digest FROM job_contents
UNION ALL SELECT content FROM context_segments c
    WHERE NOT EXISTS (SELECT 1 FROM context_states x WHERE x.segment_id = c.id AND x.status = 'Pruned')
UNION ALL SELECT summary FROM context_states s
    WHERE summary IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM context_states x WHERE x.segment_id = s.segment_id AND x.status = 'Pruned');
