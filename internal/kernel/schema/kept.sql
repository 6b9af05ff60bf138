-- Whether the entry came with its payload, and so keeps the content. Most have the
-- hash alone: hashes are random, and each would be a page of an index to write. Of
-- the entries before this step nobody knows any more: they keep what is there.
DROP VIEW content_refs;
DROP INDEX journal_payload;
ALTER TABLE journal ADD COLUMN keeps INTEGER NOT NULL DEFAULT 1 CHECK (keeps IN (0, 1));
CREATE INDEX journal_keeps ON journal(payload_hash) WHERE keeps = 1;

CREATE VIEW content_refs AS
SELECT payload_hash AS digest FROM journal WHERE keeps = 1
UNION ALL SELECT digest FROM content_pins
UNION ALL SELECT content FROM context_segments c
    WHERE NOT EXISTS (SELECT 1 FROM context_states x WHERE x.segment_id = c.id AND x.status = 'Pruned')
UNION ALL SELECT summary FROM context_states s
    WHERE summary IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM context_states x WHERE x.segment_id = s.segment_id AND x.status = 'Pruned');
