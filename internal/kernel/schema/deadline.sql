-- When all work on a job ends, decided as its first run starts; the same in every
-- run. Null in runs from before there was one.
ALTER TABLE job_runs ADD COLUMN deadline_ms INTEGER CHECK (deadline_ms >= 0);
