-- Receipts are listed by their date, and found by the ids of the events that
-- brought them, without a look at every other.
CREATE INDEX purchase_receipts_at ON purchase_receipts(at_ms);
CREATE INDEX purchase_engagement_receipts_at ON purchase_engagement_receipts(at_ms);
CREATE INDEX purchase_receipts_event ON purchase_receipts(iif(json_valid(CAST(event AS TEXT)), json_extract(CAST(event AS TEXT), '$.id'), NULL));
CREATE INDEX purchase_results_event ON purchase_results(iif(json_valid(CAST(event AS TEXT)), json_extract(CAST(event AS TEXT), '$.id'), NULL));
CREATE INDEX feedback_event ON feedback(event_id);
