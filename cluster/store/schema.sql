-- What one gateway must not forget. Times are Unix milliseconds.

CREATE TABLE self (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  node      TEXT NOT NULL,
  epoch     TEXT NOT NULL,              -- of the stream that copies the outbox; '' before the first
  next_seq  INTEGER NOT NULL,           -- the sequence of the next event
  first_seq INTEGER NOT NULL,           -- the lowest that is kept
  published INTEGER NOT NULL            -- the last that is in the stream
) STRICT;

CREATE TABLE outbox (
  seq      INTEGER PRIMARY KEY,
  event_id TEXT NOT NULL,
  attempt  INTEGER NOT NULL,
  at       INTEGER NOT NULL,
  body     BLOB NOT NULL
) STRICT;

-- What recipients have to acknowledge. The text of an event is there until all have.
CREATE TABLE sent (
  event_id   TEXT NOT NULL,
  agent_id   TEXT NOT NULL,
  node_id    TEXT NOT NULL,             -- where the agent lives
  state      TEXT NOT NULL CHECK (state IN ('open', 'accepted', 'processed', 'failed', 'dead')),
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (event_id, agent_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE retry (
  event_id TEXT PRIMARY KEY,
  body     BLOB NOT NULL,
  attempt  INTEGER NOT NULL,
  due_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX retry_due ON retry (due_at);

-- The delivery ledger: an event is in a recipient's session if and only if it has a row.
CREATE TABLE ledger (
  event_id   TEXT NOT NULL,
  agent_id   TEXT NOT NULL,
  source     TEXT NOT NULL,
  place      INTEGER NOT NULL,          -- in the order of arrival
  attempt    INTEGER NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('queued', 'done')),
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (event_id, agent_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_queue ON ledger (agent_id, place) WHERE state = 'queued';
CREATE INDEX ledger_expiry ON ledger (expires_at);

-- The text of events that a recipient has in its queue.
CREATE TABLE received (event_id TEXT PRIMARY KEY, body BLOB NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE cursors (
  source     TEXT PRIMARY KEY,
  epoch      TEXT NOT NULL,
  last_seq   INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  held       INTEGER NOT NULL,          -- rows that the ledger has of this source
  gap_to     INTEGER NOT NULL,          -- the last sequence that is missing; 0 without a gap
  gap_since  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Sequences of a source that are never taken any more.
CREATE TABLE tombstones (
  source TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  PRIMARY KEY (source, first)
) STRICT, WITHOUT ROWID;

CREATE TABLE refusals (
  source TEXT NOT NULL, code TEXT NOT NULL, count INTEGER NOT NULL, last_at INTEGER NOT NULL,
  PRIMARY KEY (source, code)
) STRICT, WITHOUT ROWID;

CREATE TABLE incidents (
  id     INTEGER PRIMARY KEY,
  at     INTEGER NOT NULL,
  source TEXT NOT NULL,
  what   TEXT NOT NULL,
  detail TEXT NOT NULL
) STRICT;

-- The records of the control plane: our own, and what peers wrote when they were last read.
CREATE TABLE records (
  node TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
  PRIMARY KEY (node, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
  role          TEXT NOT NULL CHECK (role IN ('requester', 'executor')),
  task_id       TEXT NOT NULL,
  agent_id      TEXT NOT NULL,          -- who does it
  event_id      TEXT NOT NULL,          -- that asked for it
  corr_id       TEXT NOT NULL,
  peer          TEXT NOT NULL,          -- the gateway of the other side
  other_agent   TEXT NOT NULL,          -- who asked for it
  capability_id TEXT NOT NULL,
  skill         TEXT NOT NULL,          -- <name>@<version> that a completion confirms; '' for other tasks
  state         TEXT NOT NULL CHECK (state IN ('created', 'accepted', 'in_progress', 'complete', 'failed')),
  failure_class TEXT NOT NULL,
  summary       TEXT NOT NULL,
  progress      INTEGER NOT NULL,
  eta_at        INTEGER NOT NULL,       -- 0 before it is known, and after it was missed
  deadline_at   INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL,
  PRIMARY KEY (role, task_id, agent_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_eta ON tasks (eta_at) WHERE eta_at > 0 AND role = 'requester';
CREATE INDEX tasks_open ON tasks (role, deadline_at) WHERE state NOT IN ('complete', 'failed');
CREATE INDEX tasks_event ON tasks (event_id);
CREATE INDEX tasks_old ON tasks (updated_at);

CREATE TABLE reviews (
  review_id TEXT PRIMARY KEY,
  cause     TEXT NOT NULL UNIQUE,       -- what made it, so that it is made once
  body      BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE route_failures (capability_id TEXT NOT NULL, at INTEGER NOT NULL) STRICT;
CREATE INDEX route_failures_of ON route_failures (capability_id, at);
