package journal

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store/row"
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
func (tx Journal) RecordDirective(d Directive) error {
	_, err := tx.Exec("INSERT INTO directives(id, idempotency_key, approved_by, request_id, created_ms) VALUES (?, ?, ?, ?, ?)",
		d.ID, d.Key, d.ApprovedBy, row.Text(d.RequestID), tx.Now().UnixMilli())
	if sqlite.IsUnique(err) {
		return fmt.Errorf("directive %q: %w", d.ID, row.ErrDuplicate)
	}
	if err != nil {
		return fmt.Errorf("record directive: %w", err)
	}
	return nil
}

// Directive returns the directive with this id.
func (tx Journal) Directive(id string) (Directive, error) {
	d := Directive{ID: id}
	var request sql.NullString
	var ms int64
	err := tx.QueryRow("SELECT idempotency_key, approved_by, request_id, created_ms FROM directives WHERE id = ?", id).
		Scan(&d.Key, &d.ApprovedBy, &request, &ms)
	if err != nil {
		return d, row.NotFound(err, "directive "+id)
	}
	d.RequestID, d.At = request.String, row.FromMs(ms)
	return d, nil
}

// DirectiveLive reports whether a directive exists and still stands: one that was
// recorded for a job stands until the job ends.
func (tx Journal) DirectiveLive(id string) (bool, error) {
	var n int
	err := tx.QueryRow(`SELECT count(*) FROM directives d WHERE d.id = ?
		AND (d.request_id IS NULL OR EXISTS (SELECT 1 FROM open_jobs o WHERE o.request_id = d.request_id))`, id).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("look for directive: %w", err)
	}
	return n > 0, nil
}
