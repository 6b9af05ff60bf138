package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/market/job"
)

// Queue is the outbox as a provider uses it.
type Queue struct{ db *row.DB }

// NewQueue is the outbox of a database.
func NewQueue(db *row.DB) Queue { return Queue{db} }

// Enqueue queues events of no job.
func (q Queue) Enqueue(ctx context.Context, out ...job.OutEvent) error {
	return q.db.Update(ctx, func(rows *row.Tx) error { return Outbox{rows}.EnqueueAll(out) })
}

// PendingEvents lists queued events that some relay has yet to confirm.
func (q Queue) PendingEvents(ctx context.Context, maxAge time.Duration, limit int) (list []job.Pending, err error) {
	err = q.db.View(ctx, func(rows *row.Tx) error {
		tx := Outbox{rows}
		pending, err := tx.Pending(tx.Now().Add(-maxAge), limit)
		list = pendingOf(pending)
		return err
	})
	return list, err
}

// PendingCount counts the queued events that some relay has yet to confirm.
func (q Queue) PendingCount(ctx context.Context) (n int, err error) {
	err = q.db.View(ctx, func(rows *row.Tx) error {
		tx := Outbox{rows}
		if err := tx.QueryRow("SELECT count(*) FROM outbox_open").Scan(&n); err != nil {
			return fmt.Errorf("count queued events: %w", err)
		}
		return nil
	})
	return n, err
}

// Unsent counts the queued events that fewer relays confirmed than must.
func (q Queue) Unsent(ctx context.Context, maxAge time.Duration) (n int, err error) {
	err = q.db.View(ctx, func(rows *row.Tx) error {
		tx := Outbox{rows}
		err := tx.QueryRow(`SELECT count(*) FROM outbox_open p JOIN outbox_current c ON c.seq = p.seq
			WHERE p.created_ms > ? AND c.oks < c.required_oks`, tx.Now().Add(-maxAge).UnixMilli()).Scan(&n)
		if err != nil {
			return fmt.Errorf("count unsent events: %w", err)
		}
		return nil
	})
	return n, err
}

// DueEvents lists the pending events that are to be offered again now.
func (q Queue) DueEvents(ctx context.Context, maxAge time.Duration, limit int) (list []job.Pending, err error) {
	err = q.db.View(ctx, func(rows *row.Tx) error {
		tx := Outbox{rows}
		due, err := tx.Due(tx.Now().Add(-maxAge), limit)
		list = pendingOf(due)
		return err
	})
	return list, err
}

func pendingOf(events []Pending) (list []job.Pending) {
	for _, p := range events {
		list = append(list, job.Pending{
			OutEvent: job.OutEvent{
				EventID: p.EventID, Event: p.Event, RequestID: p.RequestID, Domain: p.Domain, Relays: p.Relays, Required: p.Required, Sig: p.Sig,
			},
			Confirmed: p.Confirmed, Attempts: p.Attempts, QueuedAt: p.QueuedAt,
		})
	}
	return list
}

// AddAcks records what relays said.
func (q Queue) AddAcks(ctx context.Context, acks ...job.Ack) error {
	return q.db.Update(ctx, func(rows *row.Tx) error {
		tx := Outbox{rows}
		for _, a := range acks {
			if err := tx.AddAck(Ack(a)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Acks lists what relays said of the events of one job.
func (q Queue) Acks(ctx context.Context, requestID string) (list []job.Ack, err error) {
	err = q.db.View(ctx, func(rows *row.Tx) error {
		tx := Outbox{rows}
		acks, err := tx.Acks(requestID)
		for _, a := range acks {
			list = append(list, job.Ack(a))
		}
		return err
	})
	return list, err
}

// Confirmed counts the relays that said OK to an event.
func (q Queue) Confirmed(ctx context.Context, eventID string) (n int, err error) {
	err = q.db.View(ctx, func(rows *row.Tx) error {
		tx := Outbox{rows}
		n, err = tx.Confirmed(eventID)
		return err
	})
	return n, err
}

// SetSignature records the signature of an event that was queued without one;
// the first stays. ErrNotFound if it was never queued.
func (q Queue) SetSignature(ctx context.Context, eventID, sig string) error {
	return q.db.Update(ctx, func(rows *row.Tx) error {
		tx := Outbox{rows}
		var known int
		if err := tx.QueryRow("SELECT 1 FROM outbox WHERE event_id = ?", eventID).Scan(&known); err != nil {
			return row.NotFound(err, "queued event "+eventID)
		}
		_, err := tx.Exec("INSERT INTO event_signatures(event_id, sig, signed_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
			eventID, sig, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("record signature: %w", err)
		}
		return nil
	})
}

// EnqueueAll queues the events of a step of a job.
func (tx Outbox) EnqueueAll(out []job.OutEvent) error {
	for _, e := range out {
		err := tx.Enqueue(OutEvent{
			EventID: e.EventID, Event: e.Event, RequestID: e.RequestID, Domain: e.Domain, Relays: e.Relays, Required: e.Required,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
