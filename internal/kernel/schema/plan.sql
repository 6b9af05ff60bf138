-- What a run will do, fixed as it starts; null in runs from before that was kept. A
-- result is of its run's plan.
ALTER TABLE job_runs ADD COLUMN plan_hash BLOB CHECK (length(plan_hash) = 32);
CREATE TRIGGER job_results_planned BEFORE INSERT ON job_results
WHEN NEW.plan_hash <> (SELECT plan_hash FROM job_runs WHERE request_id = NEW.request_id AND run = NEW.run)
BEGIN SELECT RAISE(ABORT, 'the result is of another plan'); END;
