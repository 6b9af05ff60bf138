-- A job's events and the answers to them go by numbers, which rise: the ids are
-- random, and each index of them a page to write with every row. An event of a job
-- that is sold has its number (requests.seq) in place of its request_id; jobs are
-- never deleted. Its relays are a JSON list; of events from before, which have
-- none, they are in outbox_relays.
ALTER TABLE outbox ADD COLUMN job INTEGER;
ALTER TABLE outbox ADD COLUMN relays TEXT;
CREATE INDEX outbox_job ON outbox(job) WHERE job IS NOT NULL;

CREATE TABLE outbox_answers (
    event   INTEGER NOT NULL REFERENCES outbox(seq),
    n       INTEGER NOT NULL CHECK (n >= 1), -- rises
    relay   TEXT NOT NULL CHECK (relay <> ''),
    ok      INTEGER NOT NULL CHECK (ok IN (0, 1)),
    message TEXT NOT NULL,
    at_ms   INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (event, n)
) STRICT, WITHOUT ROWID;
INSERT INTO outbox_answers(event, n, relay, ok, message, at_ms)
SELECT o.seq, a.seq, a.relay, a.ok, a.message, a.at_ms -- read in order, so that little is sorted in memory
FROM outbox o CROSS JOIN outbox_acks a ON a.event_id = o.event_id ORDER BY o.seq, a.seq;
DROP VIEW outbox_current;
DROP TABLE outbox_acks;

-- An event as it was queued, and what was said of it. It is enough once its
-- required number of relays said OK.
CREATE VIEW outbox_current AS
SELECT o.seq, o.event_id, o.event, o.purpose, o.required_oks, o.created_ms,
    coalesce(o.request_id, (SELECT r.request_id FROM requests r WHERE r.seq = o.job)) AS request_id,
    coalesce(o.relays, (SELECT json_group_array(r.relay) FROM outbox_relays r WHERE r.event_id = o.event_id)) AS relays,
    (SELECT json_group_array(a.relay) FROM outbox_answers a WHERE a.event = o.seq AND a.ok = 1) AS confirmed,
    (SELECT count(DISTINCT a.relay) FROM outbox_answers a WHERE a.event = o.seq AND a.ok = 1) AS oks,
    (SELECT count(*) FROM outbox_answers a WHERE a.event = o.seq) AS attempts
FROM outbox o;
