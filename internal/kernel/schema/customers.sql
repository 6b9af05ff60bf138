-- Who has bought here is asked when places for invoices grow scarce.
CREATE INDEX requests_buyer ON requests(buyer, request_id);
