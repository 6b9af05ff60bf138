-- What is asked for again and again of everything sold or bought is counted as it
-- happens: to add it up anew takes the longer the more there is. Rows change; they
-- follow from job_history, ledger, purchase_states, purchase_payments and
-- purchase_refunds.

-- A provider's own record.
CREATE TABLE job_record (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    succeeded  INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    timed      INTEGER NOT NULL, -- how many of the succeeded ran and were delivered
    latency_ms INTEGER NOT NULL  -- what they took from one to the other, in sum
) STRICT;
CREATE VIEW job_latency AS
SELECT s.job,
    (SELECT min(at_ms) FROM job_history d WHERE d.job = s.job AND d.state = 'delivering') -
    (SELECT min(at_ms) FROM job_history r WHERE r.job = s.job AND r.state = 'running') AS ms
FROM job_history s WHERE s.state = 'succeeded';
INSERT INTO job_record(id, succeeded, failed, timed, latency_ms)
SELECT 1, count(*), (SELECT count(*) FROM job_history WHERE state = 'failed'), count(ms), coalesce(sum(ms), 0) FROM job_latency;
DROP INDEX job_history_succeeded;
DROP INDEX job_history_failed;
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

-- The sums of the ledger.
CREATE TABLE ledger_days (
    day            TEXT NOT NULL,
    provider       TEXT NOT NULL,
    reserved_msats INTEGER NOT NULL,
    spent_msats    INTEGER NOT NULL,
    PRIMARY KEY (day, provider)
) STRICT, WITHOUT ROWID;
INSERT INTO ledger_days(day, provider, reserved_msats, spent_msats)
SELECT day, provider, sum(reserved_msats), sum(spent_msats) FROM ledger GROUP BY day, provider;
DROP INDEX ledger_day;
CREATE TRIGGER ledger_summed AFTER INSERT ON ledger
BEGIN
    INSERT INTO ledger_days(day, provider, reserved_msats, spent_msats)
    VALUES (NEW.day, NEW.provider, NEW.reserved_msats, NEW.spent_msats)
    ON CONFLICT (day, provider) DO UPDATE SET
        reserved_msats = reserved_msats + excluded.reserved_msats, spent_msats = spent_msats + excluded.spent_msats;
END;

-- What was bought.
CREATE TABLE purchase_totals (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    done           INTEGER NOT NULL,
    failed         INTEGER NOT NULL,
    canceled       INTEGER NOT NULL,
    paid_msats     INTEGER NOT NULL,
    fees_msats     INTEGER NOT NULL,
    refunded_msats INTEGER NOT NULL
) STRICT;
INSERT INTO purchase_totals(id, done, failed, canceled, paid_msats, fees_msats, refunded_msats)
SELECT 1, coalesce(sum(state = 'done'), 0), coalesce(sum(state = 'failed'), 0), coalesce(sum(state = 'canceled'), 0),
    (SELECT coalesce(sum(amount_msats), 0) FROM purchase_payments WHERE state = 'succeeded'),
    (SELECT coalesce(sum(fee_msats), 0) FROM purchase_payments WHERE state = 'succeeded'),
    (SELECT coalesce(sum(msats), 0) FROM purchase_refunds)
FROM purchase_states;
CREATE TRIGGER purchase_states_counted AFTER INSERT ON purchase_states
WHEN NEW.state IN ('done', 'failed', 'canceled')
BEGIN
    UPDATE purchase_totals SET done = done + (NEW.state = 'done'), failed = failed + (NEW.state = 'failed'),
        canceled = canceled + (NEW.state = 'canceled');
END;
CREATE TRIGGER purchase_payments_summed AFTER INSERT ON purchase_payments
WHEN NEW.state = 'succeeded'
BEGIN UPDATE purchase_totals SET paid_msats = paid_msats + NEW.amount_msats, fees_msats = fees_msats + NEW.fee_msats; END;
CREATE TRIGGER purchase_refunds_summed AFTER INSERT ON purchase_refunds
BEGIN UPDATE purchase_totals SET refunded_msats = refunded_msats + NEW.msats; END;

-- Of whom; and the others that ended, of which there are few.
CREATE TABLE provider_done (
    provider TEXT PRIMARY KEY,
    done     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO provider_done(provider, done)
SELECT p.provider, count(*) FROM purchase_states s JOIN purchases p USING (request_id) WHERE s.state = 'done' GROUP BY p.provider;
CREATE TRIGGER purchase_states_done AFTER INSERT ON purchase_states
WHEN NEW.state = 'done'
BEGIN
    INSERT INTO provider_done(provider, done) SELECT provider, 1 FROM purchases WHERE request_id = NEW.request_id
    ON CONFLICT (provider) DO UPDATE SET done = done + 1;
END;
CREATE INDEX purchase_states_undone ON purchase_states(request_id) WHERE state IN ('failed', 'canceled');

-- Those given up with their wallet.
CREATE INDEX purchase_states_given_up ON purchase_states(request_id) WHERE state = 'paying' AND reason <> '';
