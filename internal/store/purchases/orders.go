package purchases

import (
	"context"
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// AddOrder stores an order that names no provider, with its first request.
func (s *Store) AddOrder(ctx context.Context, wanted []byte, first buyer.Purchase) error {
	return s.update(ctx, func(tx *transaction) error {
		if err := tx.addPurchase(first); err != nil {
			return err
		}
		if _, err := tx.Exec("INSERT INTO orders(order_id, wanted, added_ms) VALUES (?, ?, ?)", first.RequestID, string(wanted), tx.Now().UnixMilli()); err != nil {
			return fmt.Errorf("add order: %w", err)
		}
		if _, err := tx.Exec("INSERT INTO open_orders(order_id) VALUES (?)", first.RequestID); err != nil {
			return fmt.Errorf("add order: %w", err)
		}
		return tx.addOrderRequest(first.RequestID, first.RequestID)
	})
}

func (tx *transaction) addOrderRequest(orderID, requestID string) error {
	if _, err := tx.Exec("INSERT INTO order_requests(order_id, request_id) VALUES (?, ?)", orderID, requestID); err != nil {
		return fmt.Errorf("add request of order: %w", err)
	}
	return nil
}

// AddRequest adds a further request to an open order whose last one has failed, if
// nothing was paid for any: an order is paid for once.
func (s *Store) AddRequest(ctx context.Context, orderID string, p buyer.Purchase) error {
	return s.update(ctx, func(tx *transaction) error {
		order, err := tx.placedOrder(orderID)
		if err != nil {
			return err
		}
		if !order.Open {
			return fmt.Errorf("order %s has ended: %w", orderID, buyer.ErrConflict)
		}
		if _, err := tx.purchaseIn(order.Requests[len(order.Requests)-1].RequestID, buyer.StateFailed); err != nil {
			return err
		}

		var paid bool
		if err := tx.QueryRow(`SELECT EXISTS (
				SELECT 1 FROM order_requests o JOIN purchase_payments m USING (request_id) WHERE o.order_id = ? AND m.state = 'succeeded')`,
			orderID).Scan(&paid); err != nil {
			return fmt.Errorf("look for payments of the order: %w", err)
		}
		if paid {
			return fmt.Errorf("a request of order %s was paid for: %w", orderID, buyer.ErrConflict)
		}
		if err := tx.addPurchase(p); err != nil {
			return err
		}

		return tx.addOrderRequest(orderID, p.RequestID)
	})
}

// PlacedOrder is the order that a request belongs to.
func (s *Store) PlacedOrder(ctx context.Context, requestID string) (o buyer.PlacedOrder, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		var id string
		if err := tx.QueryRow("SELECT order_id FROM order_requests WHERE request_id = ?", requestID).Scan(&id); err != nil {
			return row.NotFound(err, "order of "+requestID)
		}
		o, err = tx.placedOrder(id)
		return err
	})
	return o, err
}

func (tx *transaction) placedOrder(id string) (buyer.PlacedOrder, error) {
	o := buyer.PlacedOrder{ID: id}
	err := tx.QueryRow("SELECT wanted, EXISTS (SELECT 1 FROM open_orders x WHERE x.order_id = o.order_id) FROM orders o WHERE order_id = ?", id).
		Scan(&o.Wanted, &o.Open)
	if err != nil {
		return o, row.NotFound(err, "order "+id)
	}
	rows, err := tx.Query("SELECT p.request_id, p.provider FROM order_requests r JOIN purchases p USING (request_id) WHERE r.order_id = ? ORDER BY r.seq", id)
	if err != nil {
		return o, fmt.Errorf("read order %s: %w", id, err)
	}
	defer rows.Close()

	for rows.Next() {
		var r buyer.OrderRequest
		if err := rows.Scan(&r.RequestID, &r.Provider); err != nil {
			return o, fmt.Errorf("read order %s: %w", id, err)
		}
		o.Requests = append(o.Requests, r)
	}

	return o, rows.Err()
}

// OpenOrders lists the ids of orders that have not ended, oldest first.
func (s *Store) OpenOrders(ctx context.Context) (ids []string, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		ids, err = tx.Strings("SELECT order_id FROM open_orders JOIN orders USING (order_id) ORDER BY added_ms, order_id")
		return err
	})
	return ids, err
}

// Unfinished lists the requests that are to be followed, to their orders' ends: the open
// purchases that are no member of a panel, and the last request of each open order,
// which may still ask another provider.
func (s *Store) Unfinished(ctx context.Context) (requestIDs []string, err error) {
	open, err := s.OpenPurchases(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range open {
		p, err := s.Purchase(ctx, id)
		if err != nil {
			return nil, err
		}
		if p.Member == nil {
			requestIDs = append(requestIDs, id)
		}
	}

	orders, err := s.OpenOrders(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range orders {
		order, err := s.PlacedOrder(ctx, id)
		if err != nil {
			return nil, err
		}
		if last := order.Requests[len(order.Requests)-1].RequestID; !slices.Contains(requestIDs, last) {
			requestIDs = append(requestIDs, last)
		}
	}

	return requestIDs, nil
}

// EndOrder takes an order off the open ones.
func (s *Store) EndOrder(ctx context.Context, orderID string) error {
	return s.update(ctx, func(tx *transaction) error {
		if _, err := tx.Exec("DELETE FROM open_orders WHERE order_id = ?", orderID); err != nil {
			return fmt.Errorf("end order: %w", err)
		}
		return nil
	})
}
