-- What the node sells. Every request that was decided on has one row here: that
-- is what makes a second decision impossible. Requests that were refused are
-- strangers' doing, and cost them nothing. Their rows are needed only as long as the
-- request is young enough to be looked at: afterwards they are deleted.
CREATE TABLE requests (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id TEXT NOT NULL UNIQUE CHECK (length(request_id) = 64 AND request_id NOT GLOB '*[^0-9a-f]*'),
    buyer      TEXT NOT NULL CHECK (length(buyer) = 64 AND buyer NOT GLOB '*[^0-9a-f]*'),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
-- Who has bought here is asked when places for invoices grow scarce. New requests of
-- a buyer come to the end.
CREATE INDEX requests_buyer ON requests(buyer);
CREATE TRIGGER requests_no_update BEFORE UPDATE ON requests
BEGIN SELECT RAISE(ABORT, 'requests is append-only'); END;
CREATE TRIGGER requests_keep BEFORE DELETE ON requests
WHEN EXISTS (SELECT 1 FROM jobs WHERE request_id = OLD.request_id)
    OR EXISTS (SELECT 1 FROM job_history WHERE job = OLD.seq)
BEGIN SELECT RAISE(ABORT, 'requests is append-only'); END;

-- The admitted ones.
CREATE TABLE jobs (
    request_id   TEXT PRIMARY KEY REFERENCES requests(request_id),
    kind         INTEGER NOT NULL,
    schema_id    TEXT NOT NULL CHECK (schema_id <> ''),
    job_hash     BLOB NOT NULL CHECK (length(job_hash) = 32),
    request      BLOB NOT NULL,
    input        BLOB NOT NULL,
    relays       TEXT NOT NULL CHECK (json_valid(relays)),
    mode         TEXT NOT NULL CHECK (mode IN ('hold', 'prepay', 'postpay', 'free')),
    policy_id    BLOB NOT NULL CHECK (length(policy_id) = 32),
    added_ms     INTEGER NOT NULL CHECK (added_ms >= 0)
) STRICT;
CREATE INDEX jobs_hash ON jobs('sha256:' || lower(hex(job_hash)));

-- What a job asks money for, with the quote intent: its result, and the attempt at it
-- where the provider may not be paid for the result. Each is paid for by itself.
CREATE TABLE charges (
    request_id   TEXT NOT NULL REFERENCES jobs(request_id),
    purpose      TEXT NOT NULL CHECK (purpose IN ('result', 'engagement')),
    price_msats  INTEGER NOT NULL CHECK (price_msats BETWEEN (purpose = 'engagement') AND 9007199254740991),
    quote        BLOB NOT NULL,
    quote_hash   BLOB NOT NULL UNIQUE CHECK (length(quote_hash) = 32),
    payment_hash BLOB UNIQUE CHECK (length(payment_hash) = 32),
    nonce        BLOB NOT NULL,
    expires_ms   INTEGER NOT NULL,
    PRIMARY KEY (request_id, purpose)
) STRICT;
-- Free jobs have no payment hash, and results whose quote leaves it to the wallet: see
-- chosen_hashes.
CREATE TRIGGER charges_hash BEFORE INSERT ON charges
WHEN CASE (SELECT mode FROM jobs WHERE request_id = NEW.request_id)
    WHEN 'free' THEN NEW.payment_hash IS NOT NULL
    WHEN 'hold' THEN NEW.payment_hash IS NULL
    ELSE NEW.payment_hash IS NULL AND NEW.purpose <> 'result' END
BEGIN SELECT RAISE(ABORT, 'the charge needs a payment hash, or may have none'); END;

-- The states of a job, in a row of pages of its own, by its number (requests.seq):
-- jobs at work are neighbours, and their next states go to the same few pages. Those
-- of refused requests are deleted with them.
CREATE TABLE job_history (
    job    INTEGER NOT NULL REFERENCES requests(seq),
    n      INTEGER NOT NULL CHECK (n >= 1), -- rises
    state  TEXT NOT NULL CHECK (state IN ('refused', 'quoted', 'paid', 'running', 'delivering',
        'succeeded', 'failed', 'canceled', 'expired')),
    code   TEXT NOT NULL,
    detail TEXT NOT NULL,
    at_ms  INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (job, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_history_refused ON job_history(at_ms) WHERE state = 'refused';
CREATE TRIGGER job_history_no_update BEFORE UPDATE ON job_history
BEGIN SELECT RAISE(ABORT, 'job_history is append-only'); END;
CREATE TRIGGER job_history_keep BEFORE DELETE ON job_history
WHEN OLD.state <> 'refused'
BEGIN SELECT RAISE(ABORT, 'job_history is append-only'); END;
CREATE TRIGGER job_history_end BEFORE INSERT ON job_history
WHEN EXISTS (SELECT 1 FROM job_history WHERE job = NEW.job
    AND state IN ('refused', 'succeeded', 'failed', 'canceled', 'expired'))
BEGIN SELECT RAISE(ABORT, 'job has ended'); END;
CREATE TRIGGER job_history_fee BEFORE INSERT ON job_history
WHEN NEW.state IN ('paid', 'running')
    AND EXISTS (SELECT 1 FROM requests r JOIN charges c ON c.request_id = r.request_id AND c.purpose = 'engagement' WHERE r.seq = NEW.job
        AND NOT EXISTS (SELECT 1 FROM receipts x WHERE x.request_id = c.request_id AND x.purpose = c.purpose))
BEGIN SELECT RAISE(ABORT, 'the engagement fee is not paid'); END;
-- The index of open jobs follows from the first state and the last.
CREATE TRIGGER job_history_open AFTER INSERT ON job_history
WHEN NEW.n = 1 AND NEW.state IN ('quoted', 'paid', 'running', 'delivering')
BEGIN INSERT INTO open_jobs SELECT request_id FROM requests WHERE seq = NEW.job; END;
CREATE TRIGGER job_history_closed AFTER INSERT ON job_history
WHEN NEW.n > 1 AND NEW.state NOT IN ('quoted', 'paid', 'running', 'delivering')
BEGIN DELETE FROM open_jobs WHERE request_id = (SELECT request_id FROM requests WHERE seq = NEW.job); END;
CREATE TRIGGER job_history_unknown AFTER INSERT ON job_history
WHEN NEW.code = 'payment_unknown'
BEGIN INSERT INTO unknown_payments SELECT request_id FROM requests WHERE seq = NEW.job; END;
CREATE TRIGGER job_history_succeeded AFTER INSERT ON job_history
WHEN NEW.state = 'succeeded'
BEGIN
    UPDATE job_record SET succeeded = succeeded + 1,
        timed = timed + ((SELECT ms FROM job_latency WHERE job = NEW.job) IS NOT NULL),
        latency_ms = latency_ms + coalesce((SELECT ms FROM job_latency WHERE job = NEW.job), 0);
END;
CREATE TRIGGER job_history_failed AFTER INSERT ON job_history
WHEN NEW.state = 'failed'
BEGIN UPDATE job_record SET failed = failed + 1; END;

CREATE VIEW job_states AS
SELECT r.request_id, h.n AS seq, h.state, h.code, h.detail, h.at_ms
FROM job_history h JOIN requests r ON r.seq = h.job;

CREATE VIEW job_current AS
SELECT r.seq, r.request_id, r.buyer, h.state, h.code, h.detail, h.at_ms
FROM requests r JOIN job_history h ON h.job = r.seq AND h.n = (SELECT max(n) FROM job_history x WHERE x.job = r.seq);

-- An index of the jobs that have not ended. Rows change; they follow from
-- job_history.
CREATE TABLE open_jobs (request_id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- The jobs that have ended before their wallet said what came for them. A row goes once
-- it has.
CREATE TABLE unknown_payments (request_id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

CREATE TABLE charge_invoices (
    request_id TEXT NOT NULL,
    purpose    TEXT NOT NULL,
    bolt11     TEXT NOT NULL UNIQUE CHECK (bolt11 <> ''),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (request_id, purpose),
    FOREIGN KEY (request_id, purpose) REFERENCES charges(request_id, purpose)
) STRICT;

CREATE TABLE charge_acceptances (
    request_id TEXT NOT NULL,
    purpose    TEXT NOT NULL,
    event      BLOB NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (request_id, purpose),
    FOREIGN KEY (request_id, purpose) REFERENCES charges(request_id, purpose)
) STRICT;

-- Money that arrived: held, then settled, or settled at once.
CREATE TABLE charge_payments (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id   TEXT NOT NULL,
    purpose      TEXT NOT NULL,
    payment_hash BLOB NOT NULL CHECK (length(payment_hash) = 32),
    state        TEXT NOT NULL CHECK (state IN ('held', 'settled')),
    paid_msats   INTEGER NOT NULL CHECK (paid_msats BETWEEN 0 AND 9007199254740991),
    settle_by_ms INTEGER,
    recorded_ms  INTEGER NOT NULL CHECK (recorded_ms >= 0),
    outpoints    TEXT NOT NULL DEFAULT '', -- of the chain that paid, as "txid:index,..."; empty on other rails
    preimage     BLOB CHECK (length(preimage) = 32), -- where the wallet chose it: no secret of ours gives it again
    UNIQUE (request_id, purpose, state),
    UNIQUE (payment_hash, state),
    FOREIGN KEY (request_id, purpose) REFERENCES charges(request_id, purpose)
) STRICT;

-- The go-ahead for a job: what approved it and the thread it runs on.
CREATE TABLE job_orders (
    request_id   TEXT PRIMARY KEY REFERENCES jobs(request_id),
    directive_id TEXT NOT NULL UNIQUE REFERENCES directives(id),
    thread_id    TEXT NOT NULL UNIQUE REFERENCES threads(thread_id)
) STRICT;

-- The run number fences the result: only the latest run may finish.
CREATE TABLE job_runs (
    request_id TEXT NOT NULL REFERENCES job_orders(request_id),
    run        INTEGER NOT NULL CHECK (run >= 1),
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0),
    -- When all work on the job ends, decided as its first run starts; the same in every run.
    deadline_ms INTEGER NOT NULL CHECK (deadline_ms >= 0),
    plan_hash   BLOB NOT NULL CHECK (length(plan_hash) = 32), -- what the run will do, fixed as it starts
    PRIMARY KEY (request_id, run)
) STRICT, WITHOUT ROWID;

CREATE TABLE job_results (
    request_id     TEXT PRIMARY KEY REFERENCES jobs(request_id),
    run            INTEGER NOT NULL,
    session_id     TEXT NOT NULL UNIQUE CHECK (session_id <> ''),
    output         BLOB NOT NULL CHECK (length(output) = 32), -- of contents, until it is pruned
    agreement_hash BLOB CHECK (length(agreement_hash) = 32),
    plan_hash      BLOB NOT NULL CHECK (length(plan_hash) = 32),
    trajectory     BLOB NOT NULL CHECK (length(trajectory) = 32),
    redacted       BLOB NOT NULL CHECK (length(redacted) = 32),
    replay         BLOB NOT NULL CHECK (length(replay) = 32), -- likewise
    event_id       TEXT NOT NULL UNIQUE,
    event          BLOB NOT NULL,
    artifacts      TEXT NOT NULL CHECK (json_valid(artifacts)),
    started_ms     INTEGER NOT NULL,
    finished_ms    INTEGER NOT NULL,
    FOREIGN KEY (request_id, run) REFERENCES job_runs(request_id, run)
) STRICT;
CREATE TRIGGER job_results_stored BEFORE INSERT ON job_results
WHEN NOT EXISTS (SELECT 1 FROM contents WHERE digest = NEW.output) OR NOT EXISTS (SELECT 1 FROM contents WHERE digest = NEW.replay)
BEGIN SELECT RAISE(ABORT, 'result without its contents'); END;
-- A result is of its run's plan.
CREATE TRIGGER job_results_planned BEFORE INSERT ON job_results
WHEN NEW.plan_hash <> (SELECT plan_hash FROM job_runs WHERE request_id = NEW.request_id AND run = NEW.run)
BEGIN SELECT RAISE(ABORT, 'the result is of another plan'); END;

-- The events that told of a result after its first one, which every relay refused:
-- each is shorter than the one before, and the last counts.
CREATE TABLE job_result_events (
    request_id TEXT NOT NULL REFERENCES job_results(request_id),
    n          INTEGER NOT NULL CHECK (n >= 1),
    event_id   TEXT NOT NULL UNIQUE CHECK (event_id <> ''),
    event      BLOB NOT NULL,
    at_ms      INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (request_id, n)
) STRICT, WITHOUT ROWID;

-- One chain without gaps, of results and of engagement fees.
CREATE TABLE receipts (
    sequence      INTEGER PRIMARY KEY CHECK (sequence >= 1),
    request_id    TEXT NOT NULL,
    purpose       TEXT NOT NULL,
    receipt_id    TEXT NOT NULL UNIQUE CHECK (receipt_id <> ''),
    receipt       BLOB NOT NULL,
    receipt_hash  BLOB NOT NULL UNIQUE CHECK (length(receipt_hash) = 32),
    previous_hash BLOB CHECK (length(previous_hash) = 32),
    issued_ms     INTEGER NOT NULL CHECK (issued_ms >= 0),
    UNIQUE (request_id, purpose),
    FOREIGN KEY (request_id, purpose) REFERENCES charges(request_id, purpose),
    CHECK ((previous_hash IS NULL) = (sequence = 1))
) STRICT;
CREATE TRIGGER receipts_chain BEFORE INSERT ON receipts
WHEN NEW.sequence <> coalesce((SELECT sequence FROM receipt_tip), 0) + 1
    OR NEW.previous_hash IS NOT (SELECT receipt_hash FROM receipt_tip)
BEGIN SELECT RAISE(ABORT, 'receipt does not continue the chain'); END;

-- Receipts that this provider's key signed and that this database never wrote:
-- it was restored from an older backup. The chain goes on behind the last.
CREATE TABLE receipt_heads (
    sequence     INTEGER PRIMARY KEY CHECK (sequence >= 1),
    receipt_hash BLOB NOT NULL UNIQUE CHECK (length(receipt_hash) = 32),
    adopted_ms   INTEGER NOT NULL CHECK (adopted_ms >= 0)
) STRICT;
CREATE TRIGGER receipt_heads_ahead BEFORE INSERT ON receipt_heads
WHEN NEW.sequence <= coalesce((SELECT sequence FROM receipt_tip), 0)
BEGIN SELECT RAISE(ABORT, 'receipt head is not ahead of the chain'); END;

-- The payment hash that a wallet chose as it made the invoice. No two payments of this
-- node have the same, whoever chose it.
CREATE TABLE chosen_hashes (
    request_id   TEXT NOT NULL,
    purpose      TEXT NOT NULL CHECK (purpose = 'result'),
    payment_hash BLOB NOT NULL UNIQUE CHECK (length(payment_hash) = 32),
    PRIMARY KEY (request_id, purpose),
    FOREIGN KEY (request_id, purpose) REFERENCES charge_invoices(request_id, purpose)
) STRICT;
CREATE TRIGGER chosen_hashes_once BEFORE INSERT ON chosen_hashes
WHEN EXISTS (SELECT 1 FROM charges WHERE payment_hash = NEW.payment_hash)
    OR EXISTS (SELECT 1 FROM charges c JOIN jobs j USING (request_id) WHERE c.request_id = NEW.request_id AND c.purpose = NEW.purpose
        AND (c.payment_hash IS NOT NULL OR j.mode = 'free'))
BEGIN SELECT RAISE(ABORT, 'payment hash is of another payment, or the charge has one'); END;
CREATE TRIGGER charges_hash_once BEFORE INSERT ON charges
WHEN EXISTS (SELECT 1 FROM chosen_hashes WHERE payment_hash = NEW.payment_hash)
BEGIN SELECT RAISE(ABORT, 'payment hash is of another payment'); END;

CREATE VIEW receipt_tip AS
SELECT sequence, receipt_hash FROM receipts
UNION ALL SELECT sequence, receipt_hash FROM receipt_heads
ORDER BY sequence DESC LIMIT 1;

-- A provider's own record. What is asked for again and again of everything sold or
-- bought is counted as it happens: to add it up anew takes the longer the more there
-- is. The one row changes; it follows from job_history.
CREATE TABLE job_record (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    succeeded  INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    timed      INTEGER NOT NULL, -- how many of the succeeded ran and were delivered
    latency_ms INTEGER NOT NULL  -- what they took from one to the other, in sum
) STRICT;
INSERT INTO job_record(id, succeeded, failed, timed, latency_ms) VALUES (1, 0, 0, 0, 0);

CREATE VIEW job_latency AS
SELECT s.job,
    (SELECT min(at_ms) FROM job_history d WHERE d.job = s.job AND d.state = 'delivering') -
    (SELECT min(at_ms) FROM job_history r WHERE r.job = s.job AND r.state = 'running') AS ms
FROM job_history s WHERE s.state = 'succeeded';

-- Which policy manifest each life of the provider sold under.
CREATE TABLE policy_runs (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    digest BLOB NOT NULL REFERENCES contents(digest),
    at_ms  INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;

-- Every name a job has anywhere (M-2): from any one to all the others.
CREATE VIEW job_names AS
SELECT request_id, kind, value, at_ms FROM correlation
UNION ALL SELECT request_id, 'job_hash', 'sha256:' || lower(hex(job_hash)), added_ms FROM jobs
UNION ALL SELECT request_id, 'directive_id', directive_id, 0 FROM job_orders
UNION ALL SELECT request_id, 'thread_id', thread_id, 0 FROM job_orders
UNION ALL SELECT request_id, 'session_id', session_id, finished_ms FROM job_results
UNION ALL SELECT request_id, 'result_event_id', event_id, finished_ms FROM job_results
UNION ALL SELECT request_id, 'result_event_id', event_id, at_ms FROM job_result_events
UNION ALL SELECT request_id, 'receipt_id', receipt_id, issued_ms FROM receipts;
