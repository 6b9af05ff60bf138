-- What nothing asks for, or what another row says already, is a page more to write
-- in every job.
DROP INDEX directives_request;

-- A buyer's requests in their order, so that new ones come to the end.
DROP INDEX requests_buyer;
CREATE INDEX requests_buyer ON requests(buyer);

-- A content that is pinned as it is stored says so itself; content_pins has those
-- that were there before, by a journal entry or a segment.
DROP VIEW content_refs;
ALTER TABLE contents ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
CREATE VIEW content_refs AS
SELECT payload_hash AS digest FROM journal WHERE keeps = 1
UNION ALL SELECT digest FROM contents WHERE pinned = 1
UNION ALL SELECT digest FROM content_pins
UNION ALL SELECT content FROM context_segments c
    WHERE NOT EXISTS (SELECT 1 FROM context_states x WHERE x.segment_id = c.id AND x.status = 'Pruned')
UNION ALL SELECT summary FROM context_states s
    WHERE summary IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM context_states x WHERE x.segment_id = s.segment_id AND x.status = 'Pruned');

-- A thread is Active from its own row until one here ends it. Rows that say Active
-- are from before that.
DROP VIEW thread_current;
CREATE VIEW thread_current AS
SELECT t.thread_id, t.parent, t.profile, t.created_ms, coalesce(s.state, 'Active') AS state, s.result,
    coalesce(s.at_ms, t.created_ms) AS at_ms
FROM threads t LEFT JOIN thread_states s
    ON s.seq = (SELECT max(seq) FROM thread_states x WHERE x.thread_id = t.thread_id);
DROP TRIGGER thread_states_order;
CREATE TRIGGER thread_states_order BEFORE INSERT ON thread_states
WHEN NEW.state = 'Active'
    OR EXISTS (SELECT 1 FROM thread_states WHERE thread_id = NEW.thread_id AND state <> 'Active')
BEGIN SELECT RAISE(ABORT, 'thread has ended, or never stopped'); END;
