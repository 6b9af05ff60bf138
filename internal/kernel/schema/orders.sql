-- Orders that name no provider, by their first request, and the further requests of
-- each: one after the other, until one is served.
CREATE TABLE orders (
    order_id TEXT PRIMARY KEY REFERENCES purchases(request_id),
    wanted   TEXT NOT NULL CHECK (json_valid(wanted)),
    added_ms INTEGER NOT NULL CHECK (added_ms >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE order_requests (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id   TEXT NOT NULL REFERENCES orders(order_id),
    request_id TEXT NOT NULL UNIQUE REFERENCES purchases(request_id)
) STRICT;
CREATE INDEX order_requests_order ON order_requests(order_id, seq);

-- Those that have not ended. Rows change.
CREATE TABLE open_orders (order_id TEXT PRIMARY KEY REFERENCES orders(order_id)) STRICT, WITHOUT ROWID;
CREATE TRIGGER orders_served AFTER INSERT ON purchase_states
WHEN NEW.state IN ('done', 'canceled')
BEGIN
    DELETE FROM open_orders WHERE order_id = (SELECT order_id FROM order_requests WHERE request_id = NEW.request_id);
END;
