-- When an open event is to be offered to its relays again: at once until one
-- has answered, then ever more rarely. With many open events, as a dead relay
-- leaves them, the old ones must not stand before the new.
ALTER TABLE outbox_open ADD COLUMN due_ms INTEGER NOT NULL DEFAULT 0;
CREATE INDEX outbox_open_due ON outbox_open(due_ms, created_ms);
