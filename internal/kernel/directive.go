package kernel

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// Directive is a recorded, approved intent behind a side effect (K-10). A call
// names it as its cause.
type Directive struct {
	ID         string
	Key        string // idempotency key: one directive each
	ApprovedBy string // what approved it: a payment, a policy, a person
	RequestID  string // the job, or ""
	At         time.Time
}

// RecordDirective records d. ErrDuplicate if its id or its key is known: the
// intent was acted upon before.
func (tx *Tx) RecordDirective(d Directive) error {
	_, err := tx.Exec("INSERT INTO directives(id, idempotency_key, approved_by, request_id, created_ms) VALUES (?, ?, ?, ?, ?)",
		d.ID, d.Key, d.ApprovedBy, text(d.RequestID), tx.now.UnixMilli())
	if sqlite.IsUnique(err) {
		return fmt.Errorf("directive %q: %w", d.ID, ErrDuplicate)
	}
	if err != nil {
		return fmt.Errorf("record directive: %w", err)
	}
	return nil
}

// Directive returns the directive with this id.
func (tx *Tx) Directive(id string) (Directive, error) {
	d := Directive{ID: id}
	var request sql.NullString
	var ms int64
	err := tx.QueryRow("SELECT idempotency_key, approved_by, request_id, created_ms FROM directives WHERE id = ?", id).
		Scan(&d.Key, &d.ApprovedBy, &request, &ms)
	if err != nil {
		return d, notFound(err, "directive "+id)
	}
	d.RequestID, d.At = request.String, fromMs(ms)
	return d, nil
}

// DirectiveLive reports whether a directive exists and still stands: one that was
// recorded for a job stands until the job ends.
func (tx *Tx) DirectiveLive(id string) (bool, error) {
	var n int
	err := tx.QueryRow(`SELECT count(*) FROM directives d WHERE d.id = ?
		AND (d.request_id IS NULL OR EXISTS (SELECT 1 FROM open_jobs o WHERE o.request_id = d.request_id))`, id).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("look for directive: %w", err)
	}
	return n > 0, nil
}

// notFound turns "no rows" into ErrNotFound and names what was looked for.
func notFound(err error, what string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return fmt.Errorf("read %s: %w", what, err)
}
