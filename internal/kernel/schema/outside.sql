-- Purchases from programs that know NIP-90 alone: the buyer said that it pays
-- without a quote and takes what comes without a receipt.
CREATE TABLE purchase_outside (
    request_id TEXT PRIMARY KEY REFERENCES purchases(request_id)
) STRICT;
