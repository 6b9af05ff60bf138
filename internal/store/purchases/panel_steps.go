package purchases

import (
	"context"
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// SetClosing keeps the event that ends the commits; the first stays.
func (s PanelStore) SetClosing(ctx context.Context, id string, event []byte) error {
	return s.update(ctx, func(tx *transaction) error {
		if _, err := tx.openPanel(id); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO panel_closings(panel_id, event, at_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
			id, event, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("keep closing: %w", err)
		}
		return nil
	})
}

// SetReveal keeps a reveal; the first stays.
func (s PanelStore) SetReveal(ctx context.Context, requestID string, agreement hashing.Digest, event []byte) error {
	return s.update(ctx, func(tx *transaction) error {
		var id string
		if err := tx.QueryRow("SELECT panel_id FROM panel_seats WHERE request_id = ?", requestID).Scan(&id); err != nil {
			return row.NotFound(err, "panel of "+requestID)
		}
		p, err := tx.openPanel(id)
		if err != nil {
			return err
		}
		if p.Closing == nil {
			return fmt.Errorf("panel %s still takes commits: %w", id, buyer.ErrConflict)
		}

		_, err = tx.Exec("INSERT INTO panel_reveals(request_id, agreement_hash, event, at_ms) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
			requestID, agreement[:], event, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("keep reveal: %w", err)
		}
		return nil
	})
}

// openPanel reads a panel that is not decided.
func (tx *transaction) openPanel(id string) (panel.Panel, error) {
	p, err := tx.panel(id)
	if err == nil && p.Decision != nil {
		err = fmt.Errorf("panel %s is decided: %w", id, buyer.ErrConflict)
	}
	return p, err
}

// Decide stores the decision, the rulings, the reservations of what is paid, and
// the end of what is not, all at once.
func (s PanelStore) Decide(ctx context.Context, id string, d panel.Decision, pay []buyer.Award, drop []panel.Drop, l buyer.Limits) error {
	return s.update(ctx, func(tx *transaction) error {
		p, err := tx.openPanel(id)
		if err != nil {
			return err
		}
		_, err = tx.Exec("INSERT INTO panel_decisions(panel_id, outcome, agreement_hash, reason, at_ms) VALUES (?, ?, ?, ?, ?)",
			id, string(d.Outcome), row.BlobPtr(d.Agreement), d.Reason, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("record decision: %w", err)
		}
		if d.Record != nil {
			if _, err := tx.Exec("INSERT INTO panel_adjudications(panel_id, record, output) VALUES (?, ?, ?)", id, d.Record, d.Output); err != nil {
				return fmt.Errorf("record adjudication: %w", err)
			}
		}

		for _, seat := range p.Members {
			i := slices.IndexFunc(drop, func(x panel.Drop) bool { return x.RequestID == seat.RequestID })
			if i >= 0 {
				err = tx.dropSeat(drop[i])
			} else {
				err = tx.rule(seat.RequestID, true, d.Reason)
			}
			if err != nil {
				return err
			}
		}

		for _, a := range pay {
			if err := tx.reserve(a.RequestID, a.Charge, l); err != nil {
				return &panel.MemberError{RequestID: a.RequestID, Err: err}
			}
		}

		return nil
	})
}

func (tx *transaction) rule(requestID string, taken bool, why string) error {
	_, err := tx.Exec("INSERT INTO panel_rulings(request_id, taken, why, at_ms) VALUES (?, ?, ?, ?)", requestID, taken, why, tx.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("record ruling: %w", err)
	}
	return nil
}

// dropSeat ends a seat that is not paid; one that ended by itself keeps its own
// reason. One whose engagement fee is under way stays open until the wallet says how
// that ended: its reservation must not be forgotten.
func (tx *transaction) dropSeat(d panel.Drop) error {
	if err := tx.rule(d.RequestID, false, d.Why); err != nil {
		return err
	}
	state, err := tx.purchaseIn(d.RequestID, allPurchaseStates()...)
	if err != nil || state.Terminal() {
		return err
	}
	_, err = tx.Exec("INSERT INTO purchase_cancels(request_id, event, at_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
		d.RequestID, d.Cancel, tx.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("keep cancellation: %w", err)
	}
	if state == buyer.StatePaying {
		return nil
	}

	return tx.appendPurchaseState(d.RequestID, buyer.StateFailed, "not paid: "+d.Why)
}
