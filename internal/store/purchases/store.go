// Package purchases keeps what a buyer buys: purchases, orders and panels.
package purchases

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/money"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/receipts"
)

//go:embed schema.sql
var tables string

// Schema makes the tables of the area.
func Schema() string {
	return tables + row.AppendOnly("purchases", "purchase_states", "purchase_plain", "purchase_hidden", "purchase_inputs",
		"purchase_engagements", "feedback", "purchase_results", "purchase_sealed", "purchase_receipts",
		"purchase_cancels", "panels", "panel_seats", "panel_closings", "panel_reveals",
		"panel_decisions", "panel_rulings", "panel_adjudications", "orders", "order_requests")
}

// Store keeps the purchases that a node makes, with its orders and panels, and its
// budget.
type Store struct {
	base
	PanelStore
}

var (
	_ buyer.Store = (*Store)(nil)
	_ panel.Store = (*Store)(nil)
)

// New is the store of purchases in a database.
func New(db *row.DB) *Store {
	b := base{db.NameErrors(nameError)}
	return &Store{base: b, PanelStore: PanelStore{b}}
}

// base is the database with the transactions of this area.
type base struct{ db *row.DB }

// transaction is one over all that a step of a purchase may change.
type transaction struct {
	*row.Tx
	journal.Journal
	money.Ledger
}

func (b base) update(ctx context.Context, fn func(tx *transaction) error) error {
	return b.db.Update(ctx, func(tx *row.Tx) error { return fn(in(tx)) })
}

func (b base) view(ctx context.Context, fn func(tx *transaction) error) error {
	return b.db.View(ctx, func(tx *row.Tx) error { return fn(in(tx)) })
}

func in(tx *row.Tx) *transaction {
	return &transaction{Tx: tx, Journal: journal.Journal{Tx: tx}, Ledger: money.Ledger{Tx: tx}}
}

// nameError gives the store's errors the names that the buyer knows.
func nameError(err error) error {
	switch {
	case err == nil, errors.Is(err, buyer.ErrNotFound), errors.Is(err, buyer.ErrDuplicate), errors.Is(err, buyer.ErrConflict),
		errors.Is(err, buyer.ErrSecondPayment):
		return err
	case errors.Is(err, row.ErrNotFound):
		return fmt.Errorf("%w: %w", buyer.ErrNotFound, err)
	case errors.Is(err, row.ErrConflict), sqlite.IsUnique(err):
		return fmt.Errorf("%w: %w", buyer.ErrConflict, err)
	}
	return err
}

// AddPurchase stores a signed request before anything is sent.
func (s *Store) AddPurchase(ctx context.Context, p buyer.Purchase) error {
	return s.update(ctx, func(tx *transaction) error { return tx.addPurchase(p) })
}

func (tx *transaction) addPurchase(p buyer.Purchase) error {
	relays, err := json.Marshal(p.Relays)
	if err != nil {
		return fmt.Errorf("encode relays: %w", err)
	}
	_, err = tx.Exec(`INSERT INTO purchases(request_id, provider, schema_id, job_hash, request, max_msats, relays, payee_node, added_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		p.RequestID, p.Provider, p.SchemaID, p.JobHash[:], p.Request, p.MaxMsats, string(relays), row.Text(p.PayeeNode), p.AddedAt.UnixMilli())
	if sqlite.IsUnique(err) {
		return fmt.Errorf("purchase %s: %w", p.RequestID, buyer.ErrDuplicate)
	}
	if err != nil {
		return fmt.Errorf("add purchase: %w", err)
	}

	if p.Plain {
		if _, err := tx.Exec("INSERT INTO purchase_plain(request_id) VALUES (?)", p.RequestID); err != nil {
			return fmt.Errorf("add purchase: %w", err)
		}
	}

	if p.Hidden != nil {
		if _, err := tx.Exec("INSERT INTO purchase_hidden(request_id, tags) VALUES (?, ?)", p.RequestID, string(p.Hidden)); err != nil {
			return fmt.Errorf("add purchase: %w", err)
		}
	}

	if p.EngagementMax > 0 {
		if _, err := tx.Exec("INSERT INTO purchase_engagements(request_id, max_msats) VALUES (?, ?)", p.RequestID, p.EngagementMax); err != nil {
			return fmt.Errorf("add purchase: %w", err)
		}
	}

	if p.Inputs != nil {
		if _, err := tx.Exec("INSERT INTO purchase_inputs(request_id, events) VALUES (?, ?)", p.RequestID, p.Inputs); err != nil {
			return fmt.Errorf("add purchase: %w", err)
		}
	}

	if err := tx.Correlate(p.RequestID, journal.NameJobHash, p.JobHash.String()); err != nil {
		return err
	}
	return tx.appendPurchaseState(p.RequestID, buyer.StateRequested, "")
}

func (tx *transaction) appendPurchaseState(id string, to buyer.State, reason string) error {
	_, err := tx.Exec("INSERT INTO purchase_states(request_id, state, reason, at_ms) VALUES (?, ?, ?, ?)",
		id, string(to), reason, tx.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("record purchase state %s: %w", to, err)
	}
	return nil
}

// purchaseIn reads the state of a purchase, which must be one of states.
func (tx *transaction) purchaseIn(id string, states ...buyer.State) (buyer.State, error) {
	var state buyer.State
	err := tx.QueryRow("SELECT state FROM purchase_states WHERE request_id = ? ORDER BY seq DESC LIMIT 1", id).Scan(&state)
	if err != nil {
		return "", row.NotFound(err, "purchase "+id)
	}
	if !slices.Contains(states, state) {
		return state, fmt.Errorf("purchase %s is %s: %w", id, state, buyer.ErrConflict)
	}
	return state, nil
}

func allPurchaseStates() []buyer.State {
	return []buyer.State{
		buyer.StateRequested, buyer.StatePaying, buyer.StatePaid, buyer.StateDone, buyer.StateFailed, buyer.StateCanceled,
	}
}

// AddFeedback keeps a 7000 event; a known id is fine.
func (s *Store) AddFeedback(ctx context.Context, requestID, eventID string, event []byte, at time.Time) error {
	return s.update(ctx, func(tx *transaction) error {
		if _, err := tx.purchaseIn(requestID, allPurchaseStates()...); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO feedback(request_id, event_id, event, at_ms) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
			requestID, eventID, event, at.UnixMilli())
		if err != nil {
			return fmt.Errorf("keep feedback: %w", err)
		}
		return nil
	})
}

// Feedback returns the 7000 events of a purchase in the order they came.
func (s *Store) Feedback(ctx context.Context, requestID string) (events [][]byte, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		list, err := tx.Strings("SELECT event FROM feedback WHERE request_id = ? ORDER BY seq", requestID)
		for _, e := range list {
			events = append(events, []byte(e))
		}
		return err
	})
	return events, err
}

// SetResult keeps the verified result; the first stays. It may come after the
// purchase ended: it is evidence either way.
func (s *Store) SetResult(ctx context.Context, requestID string, event, output []byte, contents [][]byte, early bool) error {
	return s.update(ctx, func(tx *transaction) error {
		if _, err := tx.purchaseIn(requestID, allPurchaseStates()...); err != nil {
			return err
		}
		var known int
		if err := tx.QueryRow("SELECT count(*) FROM purchase_results WHERE request_id = ?", requestID).Scan(&known); err != nil {
			return fmt.Errorf("look for result: %w", err)
		}
		if known > 0 {
			return nil
		}

		digest, err := tx.PutContent(output)
		if err != nil {
			return err
		}
		if err := tx.PutContents(contents); err != nil {
			return err
		}

		_, err = tx.Exec("INSERT INTO purchase_results(request_id, event, output, early, at_ms) VALUES (?, ?, ?, ?, ?)",
			requestID, event, digest[:], early, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("keep result: %w", err)
		}
		return nil
	})
}

// SetSealed keeps a result in boxes, and the boxes; the first stays. The boxes
// are evidence, so they are kept too after they were opened.
func (s *Store) SetSealed(ctx context.Context, requestID string, event []byte, contents [][]byte) error {
	return s.update(ctx, func(tx *transaction) error {
		if _, err := tx.purchaseIn(requestID, allPurchaseStates()...); err != nil {
			return err
		}
		res, err := tx.Exec("INSERT INTO purchase_sealed(request_id, event, at_ms) VALUES (?, ?, ?) ON CONFLICT(request_id) DO NOTHING",
			requestID, event, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("keep sealed result: %w", err)
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}

		return tx.PutContents(contents)
	})
}

// SetReceipt keeps the receipt event of the charge for a purpose; the first stays.
func (s *Store) SetReceipt(ctx context.Context, requestID string, purpose receipts.Purpose, receiptID string, event []byte) error {
	return s.update(ctx, func(tx *transaction) error {
		if _, err := tx.purchaseIn(requestID, allPurchaseStates()...); err != nil {
			return err
		}
		if purpose == receipts.PurposeEngagement {
			if fee, err := tx.purchaseCharge(requestID, purpose); err != nil {
				return fmt.Errorf("read engagement fee: %w", err)
			} else if fee.Attempt == nil {
				return fmt.Errorf("purchase %s has no engagement fee: %w", requestID, buyer.ErrConflict)
			}
		}

		res, err := tx.Exec(`INSERT INTO purchase_receipts(request_id, purpose, receipt_id, event, at_ms) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT(request_id, purpose) DO NOTHING`, requestID, string(purpose), receiptID, event, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("keep receipt: %w", err)
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}

		return tx.Correlate(requestID, journal.NameReceipt, receiptID)
	})
}

// SetCancel keeps our signed cancellation request; the first stays.
func (s *Store) SetCancel(ctx context.Context, requestID string, event []byte) error {
	return s.update(ctx, func(tx *transaction) error {
		if _, err := tx.purchaseIn(requestID, buyer.StateRequested, buyer.StatePaying, buyer.StatePaid); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO purchase_cancels(request_id, event, at_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
			requestID, event, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("keep cancellation: %w", err)
		}
		return nil
	})
}

// Close ends a purchase. One whose payment is not resolved cannot be closed.
func (s *Store) Close(ctx context.Context, requestID string, to buyer.State, reason string) error {
	return s.closeFrom(ctx, requestID, to, reason, buyer.StateRequested, buyer.StatePaid)
}

// CloseUnpaid moves a purchase that no payment was begun for to a terminal state.
func (s *Store) CloseUnpaid(ctx context.Context, requestID string, to buyer.State, reason string) error {
	return s.closeFrom(ctx, requestID, to, reason, buyer.StateRequested)
}

func (s *Store) closeFrom(ctx context.Context, requestID string, to buyer.State, reason string, from ...buyer.State) error {
	if !to.Terminal() {
		return fmt.Errorf("close purchase as %s: %w", to, buyer.ErrConflict)
	}
	return s.update(ctx, func(tx *transaction) error {
		if _, err := tx.purchaseIn(requestID, from...); err != nil {
			return err
		}
		return tx.appendPurchaseState(requestID, to, reason)
	})
}

// GiveUp takes a purchase off the open ones whose payment nobody can ask for. Its
// next state, if ever there is one, puts it back.
func (s *Store) GiveUp(ctx context.Context, requestID, reason string) error {
	return s.update(ctx, func(tx *transaction) error {
		if _, err := tx.purchaseIn(requestID, buyer.StatePaying); err != nil {
			return err
		}
		if err := tx.appendPurchaseState(requestID, buyer.StatePaying, reason); err != nil {
			return err
		}
		if _, err := tx.Exec("DELETE FROM open_purchases WHERE request_id = ?", requestID); err != nil {
			return fmt.Errorf("give up: %w", err)
		}
		if _, err := tx.Exec("DELETE FROM open_orders WHERE order_id = (SELECT order_id FROM order_requests WHERE request_id = ?)", requestID); err != nil {
			return fmt.Errorf("give up: %w", err)
		}

		return nil
	})
}

// Content returns the bytes with this digest.
func (s *Store) Content(ctx context.Context, d hashing.Digest) (data []byte, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		data, err = tx.Content(d)
		return err
	})
	return data, err
}
