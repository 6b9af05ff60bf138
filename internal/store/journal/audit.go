package journal

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/store/row"
)

// MaxAuditBytes bounds the metadata of one audit line, as JSON.
const MaxAuditBytes = 8 << 10

// AuditLine says that something happened, and never holds a payload (K-3).
type AuditLine struct {
	Seq       int64
	At        time.Time
	EventType string // for example "route_not_found"
	Subject   string // what it happened to: a thread, an agent, a request
	Metadata  json.RawMessage
}

// Audit appends a line. metadata must be small and free of payload; nil is {}.
func (tx Journal) Audit(eventType, subject string, metadata any) error {
	if metadata == nil {
		metadata = struct{}{}
	}
	doc, err := json.Marshal(metadata)
	if err != nil {
		return fmt.Errorf("audit metadata: %w", err)
	}
	if len(doc) > MaxAuditBytes {
		return fmt.Errorf("audit metadata of %d bytes: %w", len(doc), row.ErrTooLarge)
	}

	_, err = tx.Exec("INSERT INTO audit(at_ms, event_type, subject, metadata) VALUES (?, ?, ?, ?)",
		tx.Now().UnixMilli(), eventType, subject, string(doc))
	if err != nil {
		return fmt.Errorf("append audit line: %w", err)
	}
	return nil
}

// LastAuditLines returns the end of the trail, oldest first, of one subject or,
// if that is "", of all.
func (tx Journal) LastAuditLines(subject string, limit int) ([]AuditLine, error) {
	return tx.auditLines(`SELECT * FROM (SELECT seq, at_ms, event_type, subject, metadata FROM audit
		WHERE ? = '' OR subject = ? ORDER BY seq DESC LIMIT ?) ORDER BY seq`, subject, subject, limit)
}

func (tx Journal) auditLines(query string, args ...any) ([]AuditLine, error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, fmt.Errorf("read audit: %w", err)
	}
	defer rows.Close()

	var lines []AuditLine
	for rows.Next() {
		var l AuditLine
		var ms int64
		var doc string
		if err := rows.Scan(&l.Seq, &ms, &l.EventType, &l.Subject, &doc); err != nil {
			return nil, fmt.Errorf("read audit: %w", err)
		}
		l.At, l.Metadata = row.FromMs(ms), json.RawMessage(doc)
		lines = append(lines, l)
	}

	return lines, rows.Err()
}
