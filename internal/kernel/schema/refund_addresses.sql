-- Whose an address for refunds is: the buyer's whose request named it first. A
-- request is public, and an address serves one refund.
CREATE TABLE refund_addresses (
    address    TEXT PRIMARY KEY CHECK (length(address) BETWEEN 1 AND 200),
    buyer      TEXT NOT NULL CHECK (length(buyer) = 64),
    request_id TEXT NOT NULL REFERENCES jobs(request_id)
) STRICT, WITHOUT ROWID;
