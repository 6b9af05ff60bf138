-- Signed events on their way to relays. They and the answers to them go by numbers,
-- which rise: the ids are random, and each index of them a page to write with every
-- row.
CREATE TABLE outbox (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id     TEXT NOT NULL UNIQUE CHECK (length(event_id) = 64 AND event_id NOT GLOB '*[^0-9a-f]*'),
    event        BLOB NOT NULL,
    request_id   TEXT, -- of a job that is bought
    domain       TEXT NOT NULL, -- of an encrypted event, that of what is inside; may be empty
    required_oks INTEGER NOT NULL CHECK (required_oks >= 0),
    created_ms   INTEGER NOT NULL CHECK (created_ms >= 0),
    job          INTEGER, -- requests.seq of a job that is sold; jobs are never deleted, their feedback is in time
    relays       TEXT NOT NULL CHECK (json_valid(relays))
) STRICT;
CREATE INDEX outbox_request ON outbox(request_id) WHERE request_id IS NOT NULL;
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

-- An index of the events that some relay has yet to confirm, with the time when each
-- is to be offered again: at once until one has answered, then ever more rarely. With
-- many open events, as a dead relay leaves them, the old ones must not stand before
-- the new. Rows change; they follow from the tables above.
CREATE TABLE outbox_open (
    created_ms INTEGER NOT NULL,
    seq        INTEGER NOT NULL REFERENCES outbox(seq),
    due_ms     INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (created_ms, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX outbox_open_due ON outbox_open(due_ms, created_ms);

-- Signatures of events that were queued before their signature was known: the
-- key is with a remote signer. The id of an event does not depend on it.
CREATE TABLE event_signatures (
    event_id  TEXT PRIMARY KEY REFERENCES outbox(event_id),
    sig       TEXT NOT NULL CHECK (length(sig) = 128),
    signed_ms INTEGER NOT NULL CHECK (signed_ms >= 0)
) STRICT, WITHOUT ROWID;

-- Events of a sold job that prove nothing, and copies, go once that is noted in job_pruned,
-- with what belongs to them; every other row stays.
CREATE TRIGGER outbox_no_update BEFORE UPDATE ON outbox
BEGIN SELECT RAISE(ABORT, 'outbox is append-only'); END;
CREATE TRIGGER outbox_answers_no_update BEFORE UPDATE ON outbox_answers
BEGIN SELECT RAISE(ABORT, 'outbox_answers is append-only'); END;
CREATE TRIGGER event_signatures_no_update BEFORE UPDATE ON event_signatures
BEGIN SELECT RAISE(ABORT, 'event_signatures is append-only'); END;
CREATE TRIGGER outbox_keep BEFORE DELETE ON outbox
WHEN NOT EXISTS (SELECT 1 FROM prunable_events p WHERE p.seq = OLD.seq)
BEGIN SELECT RAISE(ABORT, 'event is kept'); END;
CREATE TRIGGER outbox_answers_keep BEFORE DELETE ON outbox_answers
WHEN NOT EXISTS (SELECT 1 FROM prunable_events p WHERE p.seq = OLD.event)
BEGIN SELECT RAISE(ABORT, 'answer is kept'); END;
CREATE TRIGGER event_signatures_keep BEFORE DELETE ON event_signatures
WHEN NOT EXISTS (SELECT 1 FROM prunable_events p WHERE p.event_id = OLD.event_id)
BEGIN SELECT RAISE(ABORT, 'signature is kept'); END;

-- Of jobs whose events are marked as pruned: feedback, the events of the job's life, and
-- copies of result events that relays have. A result event stays with its result; one
-- that was signed after it was queued has its signature here.
CREATE VIEW prunable_events AS
SELECT o.seq, o.event_id, o.job FROM outbox o JOIN job_pruned p ON p.job = o.job AND p.part = 'events'
WHERE o.domain IN ('lightwork/feedback/v1', 'lightwork/tick_request/v1', 'lightwork/tick_result/v1',
        'lightwork/trajectory_session/v1', 'lightwork/trajectory_event/v1')
    OR (EXISTS (SELECT 1 FROM job_results r WHERE r.event_id = o.event_id AND r.event = o.event)
            OR EXISTS (SELECT 1 FROM job_result_events r WHERE r.event_id = o.event_id AND r.event = o.event))
        AND NOT EXISTS (SELECT 1 FROM outbox_open w WHERE w.created_ms = o.created_ms AND w.seq = o.seq)
        AND NOT EXISTS (SELECT 1 FROM event_signatures s WHERE s.event_id = o.event_id);

-- An event as it was queued, and what was said of it. It is enough once its
-- required number of relays said OK.
CREATE VIEW outbox_current AS
SELECT o.seq, o.event_id, o.event, o.domain, o.required_oks, o.created_ms,
    coalesce(o.request_id, (SELECT r.request_id FROM requests r WHERE r.seq = o.job)) AS request_id,
    o.relays,
    (SELECT json_group_array(a.relay) FROM outbox_answers a WHERE a.event = o.seq AND a.ok = 1) AS confirmed,
    (SELECT count(DISTINCT a.relay) FROM outbox_answers a WHERE a.event = o.seq AND a.ok = 1) AS oks,
    (SELECT count(*) FROM outbox_answers a WHERE a.event = o.seq) AS attempts
FROM outbox o;
