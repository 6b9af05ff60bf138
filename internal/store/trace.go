package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/names"
	"github.com/lightwork-market/lightwork/internal/store/outbox"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// TraceLine is one thing that happened to a job.
type TraceLine struct {
	At time.Time
	// Kind is state, message, event, relay, invoice, payment, run, sealed,
	// result, receipt, attempt, budget or feedback.
	Kind string
	// Text says it in a line; parts that came from outside are not cleaned.
	Text string
}

// Trace is all that the database knows of one job: its names and, oldest first,
// what happened.
type Trace struct {
	journal.Names
	Lines []TraceLine
}

// traceQueries give (time in ms, text) of one request each.
var traceQueries = []struct{ kind, query string }{
	{"state", `SELECT at_ms, state || iif(code = '', '', ' (' || code || iif(detail = '', ')', ': ' || detail || ')')) FROM job_states WHERE request_id = ?1 ORDER BY seq`},
	{"state", `SELECT at_ms, state || iif(reason = '', '', ' (' || reason || ')') FROM purchase_states WHERE request_id = ?1 ORDER BY seq`},
	{"invoice", `SELECT i.at_ms, 'made for the quote ' || lower(hex(c.quote_hash)) || iif(i.purpose = 'engagement', ' of the engagement fee', '')
		FROM charge_invoices i JOIN charges c USING (request_id, purpose) WHERE i.request_id = ?1 ORDER BY i.at_ms, i.purpose`},
	{"payment", `SELECT recorded_ms, state || ' ' || paid_msats || ' msats' FROM charge_payments WHERE request_id = ?1 AND purpose = 'result' ORDER BY seq`},
	{"run", `SELECT at_ms, 'run ' || run FROM job_runs WHERE request_id = ?1 ORDER BY run`},
	{"message", `SELECT at_ms, direction || ' ' || handler || ' ' || payload_tag || ' sha256:' || lower(hex(payload_hash)) FROM journal WHERE request_id = ?1 ORDER BY seq`},
	{"result", `SELECT finished_ms, 'output sha256:' || lower(hex(output)) || ', replay sha256:' || lower(hex(replay)) FROM job_results WHERE request_id = ?1`},
	{"receipt", `SELECT r.issued_ms, r.receipt_id || ', number ' || r.sequence || ' of the chain' || iif(r.purpose = 'engagement', ', for the engagement fee of ' || p.paid_msats || ' msats', '')
		FROM receipts r LEFT JOIN charge_payments p ON p.request_id = r.request_id AND p.purpose = r.purpose AND p.state = 'settled'
		WHERE r.request_id = ?1 ORDER BY r.sequence`},
	{"event", `SELECT created_ms, 'kind ' || json_extract(CAST(event AS TEXT), '$.kind') || coalesce(' ' || (SELECT json_extract(value, '$[1]')
		FROM json_each(CAST(event AS TEXT), '$.tags') WHERE json_extract(value, '$[0]') = 'status' LIMIT 1), '') || ' ' || event_id FROM outbox o WHERE ` + outbox.OfJob + ` ORDER BY seq`},
	{"relay", `SELECT a.at_ms, a.relay || iif(a.ok, ' took ', ' refused ') || o.event_id || iif(a.message = '', '', ': ' || a.message)
		FROM outbox_answers a JOIN outbox o ON o.seq = a.event WHERE ` + outbox.OfJob + ` ORDER BY a.event, a.n`},
	{"attempt", `SELECT reserved_ms, purpose || ' ' || amount_msats || ' msats, fee at most ' || fee_limit_msats || ', by the rule ' || rule_id FROM attempts WHERE request_id = ?1`},
	{"budget", `SELECT at_ms, entry || ': reserved ' || reserved_msats || ', spent ' || spent_msats || ' msats' FROM ledger WHERE request_id = ?1 ORDER BY seq`},
	{"payment", `SELECT at_ms, iif(purpose = 'engagement', 'engagement fee ', '') || state || ' ' || amount_msats || ' msats, fee ' || fee_msats || iif(failure_reason = '', '', ' (' || failure_reason || ')') FROM purchase_payments WHERE request_id = ?1 ORDER BY purpose DESC`},
	{"feedback", `SELECT at_ms, 'kind 7000' || coalesce(' ' || (SELECT json_extract(value, '$[1]')
		FROM json_each(CAST(event AS TEXT), '$.tags') WHERE json_extract(value, '$[0]') = 'status' LIMIT 1), '') || ' ' || event_id FROM feedback WHERE request_id = ?1 ORDER BY seq`},
	{"sealed", `SELECT at_ms, 'kind ' || json_extract(CAST(event AS TEXT), '$.kind') || ' ' || json_extract(CAST(event AS TEXT), '$.id') FROM purchase_sealed WHERE request_id = ?1`},
	{"result", `SELECT at_ms, 'output sha256:' || lower(hex(output)) || iif(early, ', before it was paid', '') FROM purchase_results WHERE request_id = ?1`},
	{"receipt", `SELECT at_ms, receipt_id || iif(purpose = 'engagement', ' of the engagement fee', '') FROM purchase_receipts WHERE request_id = ?1 ORDER BY purpose DESC`},
}

// eventID is of the event in a row, as its index has it.
const eventID = `iif(json_valid(CAST(event AS TEXT)), json_extract(CAST(event AS TEXT), '$.id'), NULL)`

// namedBy finds the requests that a name or its beginning means: request ids,
// all other names, and ids of events sent or received. People are shown the digits
// of a hash alone.
const namedBy = `
SELECT request_id FROM job_names WHERE value >= ?1 AND value < ?2
UNION SELECT request_id FROM job_names WHERE value >= 'sha256:' || ?1 AND value < 'sha256:' || ?2
UNION SELECT request_id FROM correlation WHERE request_id >= ?1 AND request_id < ?2
UNION SELECT request_id FROM requests WHERE request_id >= ?1 AND request_id < ?2
UNION SELECT request_id FROM purchases WHERE request_id >= ?1 AND request_id < ?2
UNION SELECT request_id FROM outbox_current WHERE event_id >= ?1 AND event_id < ?2 AND request_id IS NOT NULL
UNION SELECT request_id FROM feedback WHERE event_id >= ?1 AND event_id < ?2
UNION SELECT request_id FROM purchase_results WHERE ` + eventID + ` >= ?1 AND ` + eventID + ` < ?2
UNION SELECT request_id FROM purchase_receipts WHERE ` + eventID + ` >= ?1 AND ` + eventID + ` < ?2
ORDER BY 1 LIMIT ?3`

// Trace finds the jobs that any name, or the beginning of one, means. It returns
// no error for none; a name shorter than names.MinPrefix is ErrInvalid.
func (s *Store) Trace(ctx context.Context, name string) (found []Trace, err error) {
	if len(name) < names.MinPrefix {
		return nil, fmt.Errorf("a name of %d bytes: %w", len(name), row.ErrInvalid)
	}
	err = s.View(ctx, func(tx *Tx) error {
		ids, err := tx.Strings(namedBy, name, name+"\U0010ffff", journal.MaxJobs)
		if err != nil {
			return err
		}

		for _, id := range ids {
			t, err := tx.trace(id)
			if err != nil {
				return err
			}
			found = append(found, t)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	return found, nil
}

func (tx *Tx) trace(id string) (t Trace, err error) {
	if t.Names, err = tx.NamesOf(id); err != nil {
		return t, err
	}

	// One correlation and conversation id: the request's own.
	t.Names.Names[journal.NameCorrelation] = append(t.Names.Names[journal.NameCorrelation], id)
	for _, q := range traceQueries {
		if err := tx.traceLines(&t, q.kind, q.query); err != nil {
			return t, err
		}
	}

	slices.SortStableFunc(t.Lines, func(a, b TraceLine) int { return a.At.Compare(b.At) })
	return t, nil
}

func (tx *Tx) traceLines(t *Trace, kind, query string) error {
	rows, err := tx.Query(query, t.RequestID)
	if err != nil {
		return err
	}
	defer rows.Close()

	for rows.Next() {
		var at int64
		var text string
		if err := rows.Scan(&at, &text); err != nil {
			return err
		}
		t.Lines = append(t.Lines, TraceLine{At: row.FromMs(at), Kind: kind, Text: strings.TrimSpace(text)})
	}

	return rows.Err()
}
