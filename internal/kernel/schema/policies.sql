-- Which policy manifest each life of the provider sold under.
CREATE TABLE policy_runs (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    digest BLOB NOT NULL REFERENCES contents(digest),
    at_ms  INTEGER NOT NULL CHECK (at_ms >= 0)
) STRICT;
