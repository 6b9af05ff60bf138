package purchases

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// PanelStore keeps panels, with the purchases of their seats.
type PanelStore struct{ base }

// AddPanel stores a panel with the purchases of its seats.
func (s PanelStore) AddPanel(ctx context.Context, p panel.Panel, seats []buyer.Purchase) error {
	return s.update(ctx, func(tx *transaction) error {
		_, err := tx.Exec(`INSERT INTO panels(panel_id, schema_id, job_hash, rule, max_msats, deadline_ms, added_ms)
			VALUES (?, ?, ?, ?, ?, ?, ?)`,
			p.ID, p.SchemaID, p.JobHash[:], string(p.Rule), p.MaxMsats, p.Deadline.UnixMilli(), p.AddedAt.UnixMilli())
		if err != nil {
			return fmt.Errorf("add panel: %w", err)
		}

		for i, seat := range seats {
			if err := tx.addPurchase(seat); err != nil {
				return err
			}
			_, err := tx.Exec("INSERT INTO panel_seats(request_id, panel_id, seat, provider) VALUES (?, ?, ?, ?)",
				seat.RequestID, p.ID, i+1, seat.Provider)
			if err != nil {
				return fmt.Errorf("add seat: %w", err)
			}
		}

		return nil
	})
}

// Panel returns a panel as it stands.
func (s PanelStore) Panel(ctx context.Context, id string) (p panel.Panel, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		p, err = tx.panel(id)
		return err
	})
	return p, err
}

// Panels lists panels, newest first; at most limit if limit > 0.
func (s PanelStore) Panels(ctx context.Context, limit int) (list []panel.Panel, err error) {
	if limit <= 0 {
		limit = -1
	}
	err = s.view(ctx, func(tx *transaction) error {
		ids, err := tx.Strings("SELECT panel_id FROM panels ORDER BY seq DESC LIMIT ?", limit)
		if err != nil {
			return fmt.Errorf("list panels: %w", err)
		}

		for _, id := range ids {
			p, err := tx.panel(id)
			if err != nil {
				return err
			}
			list = append(list, p)
		}
		return nil
	})
	return list, err
}

// OpenPanels lists the ids of panels that have not ended, oldest first.
func (s PanelStore) OpenPanels(ctx context.Context) (ids []string, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		ids, err = tx.Strings(`SELECT p.panel_id FROM panels p
			WHERE NOT EXISTS (SELECT 1 FROM panel_decisions d WHERE d.panel_id = p.panel_id)
				OR EXISTS (SELECT 1 FROM panel_seats s JOIN open_purchases o ON o.request_id = s.request_id WHERE s.panel_id = p.panel_id)
			ORDER BY p.seq`)
		return err
	})
	return ids, err
}

func (tx *transaction) panel(id string) (panel.Panel, error) {
	p := panel.Panel{ID: id}
	var added, deadline int64
	err := tx.QueryRow(`SELECT p.schema_id, p.job_hash, p.rule, p.max_msats, p.deadline_ms, p.added_ms, c.event
		FROM panels p LEFT JOIN panel_closings c ON c.panel_id = p.panel_id WHERE p.panel_id = ?`, id).
		Scan(&p.SchemaID, row.Into(&p.JobHash), &p.Rule, &p.MaxMsats, &deadline, &added, &p.Closing)
	if err != nil {
		return p, row.NotFound(err, "panel "+id)
	}
	p.Deadline, p.AddedAt = row.FromMs(deadline), row.FromMs(added)
	if p.Members, err = tx.seats(id); err != nil {
		return p, fmt.Errorf("read seats of panel %s: %w", id, err)
	}
	var d panel.Decision
	var agreement hashing.Digest
	var at int64
	err = tx.QueryRow(`SELECT d.outcome, d.agreement_hash, d.reason, d.at_ms, a.record, a.output
		FROM panel_decisions d LEFT JOIN panel_adjudications a USING (panel_id) WHERE d.panel_id = ?`, id).
		Scan(&d.Outcome, row.Into(&agreement), &d.Reason, &at, &d.Record, &d.Output)

	switch {
	case errors.Is(err, sql.ErrNoRows):
		return p, nil
	case err != nil:
		return p, fmt.Errorf("read decision of panel %s: %w", id, err)
	}

	d.At, d.Agreement, p.Decision = row.FromMs(at), orNil(agreement), &d
	return p, nil
}

func orNil(d hashing.Digest) *hashing.Digest {
	if d.IsZero() {
		return nil
	}
	return &d
}

func (tx *transaction) seats(panelID string) (list []panel.Member, err error) {
	rows, err := tx.Query(`SELECT s.request_id, s.provider, v.agreement_hash, r.taken, r.why
		FROM panel_seats s LEFT JOIN panel_reveals v ON v.request_id = s.request_id
			LEFT JOIN panel_rulings r ON r.request_id = s.request_id
		WHERE s.panel_id = ? ORDER BY s.seat`, panelID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()

	for rows.Next() {
		var s panel.Member
		var revealed hashing.Digest
		var taken sql.NullBool
		var why sql.NullString
		if err := rows.Scan(&s.RequestID, &s.Provider, row.Into(&revealed), &taken, &why); err != nil {
			return nil, err
		}
		s.Revealed = orNil(revealed)
		if taken.Valid {
			s.Ruling = &panel.Ruling{Taken: taken.Bool, Why: why.String}
		}
		list = append(list, s)
	}

	return list, rows.Err()
}

// membership is the panel that decides whether a purchase is paid; nil if none does.
func (tx *transaction) membership(requestID string) (*buyer.Membership, error) {
	var m buyer.Membership
	var revealed hashing.Digest
	err := tx.QueryRow(`SELECT s.panel_id, NOT EXISTS (SELECT 1 FROM panel_decisions d WHERE d.panel_id = s.panel_id), v.agreement_hash
		FROM panel_seats s LEFT JOIN panel_reveals v ON v.request_id = s.request_id WHERE s.request_id = ?`, requestID).
		Scan(&m.Panel, &m.Open, row.Into(&revealed))

	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}

	m.Revealed = orNil(revealed)
	return &m, nil
}

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
