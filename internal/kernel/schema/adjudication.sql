-- How a judge or a merge came to a panel's decision: the ballots or the votes as
-- JSON, and the document that was merged.
CREATE TABLE panel_adjudications (
    panel_id TEXT PRIMARY KEY REFERENCES panels(panel_id),
    record   BLOB NOT NULL,
    output   BLOB
) STRICT;
