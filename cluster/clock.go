package cluster

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/lightwork-market/lightwork/cluster/event"
	"github.com/lightwork-market/lightwork/cluster/store"
)

// clock does what is due: events that nobody accepted are sent again, what is late is
// reviewed or ended, and what is old is forgotten.
type clock struct {
	*books
	publisher *publisher
}

// Bounds of one round of the clock.
const (
	dueBatch  = 100
	tick      = time.Second
	sweepTick = 30 * time.Second
)

// run looks once a second until ctx ends.
func (c *clock) run(ctx context.Context) {
	swept := c.Now()
	for ctx.Err() == nil {
		if err := c.round(ctx); err != nil && ctx.Err() == nil {
			c.Logger.Warn("what is due could not be done", "error", err)
		}
		if c.Now().Sub(swept) >= sweepTick {
			swept = c.Now()
			if err := c.sweep(ctx); err != nil && ctx.Err() == nil {
				c.Logger.Warn("old events could not be dropped", "error", err)
			}
		}
		wait(ctx, tick, nil)
	}
}

// round does what is due now. It writes only if something is.
func (c *clock) round(ctx context.Context) error {
	due := false
	err := c.db.View(ctx, func(tx *store.Tx) error {
		rows, err := store.Outbox{Tx: tx}.Due(1)
		if err != nil {
			return err
		}
		late, err := store.Tasks{Tx: tx}.Late(tx.Now.Add(-slaGrace), 1)
		if err != nil {
			return err
		}
		over, err := c.passed(tx, 1)
		if err != nil {
			return err
		}
		queued, err := store.Inbox{Tx: tx}.Overdue(tx.Now, 1)
		due = len(rows)+len(late)+len(over)+len(queued) > 0
		return err
	})
	if err != nil || !due {
		return err
	}

	return c.update(ctx, func(tx *store.Tx) error {
		for _, do := range []func(*store.Tx) error{c.resend, c.late, c.overdue, c.expire} {
			if err := do(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// retryPause is how long after an attempt the next is due: it doubles, up to a cap, and is
// spread by a fifth either way, so that many do not come at once.
func retryPause(eventID string, attempt int) time.Duration {
	d := retryCap
	if attempt < 9 {
		d = min(retryBase<<(attempt-1), retryCap)
	}
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s:%d", eventID, attempt)
	return d + d*time.Duration(int(h.Sum32()%401)-200)/1000
}

// resend sends again what nobody accepted, with a new sequence and the next attempt.
func (c *clock) resend(tx *store.Tx) error {
	out := store.Outbox{Tx: tx}
	rows, err := out.Due(dueBatch)
	if err != nil {
		return err
	}

	for _, row := range rows {
		e, err := event.Parse(row.Body)
		if err != nil {
			return err
		}
		if row.Attempt >= maxAttempts || !e.ExpiresAt.After(tx.Now) {
			if err := c.giveUp(tx, e, row.Attempt); err != nil {
				return err
			}
			continue
		}
		if row.Attempt == 1 {
			if err := (store.Inbox{Tx: tx}).Report(c.Node, "unaccepted", fmt.Sprintf("%s %s after %s", e.Kind, e.EventID, acceptTimeout)); err != nil {
				return err
			}
		}
		e.Trace.Attempt = row.Attempt + 1
		if err := out.Append(e); err != nil {
			return err
		}
		if err := out.Again(e.EventID, e.Trace.Attempt, tx.Now.Add(retryPause(e.EventID, e.Trace.Attempt))); err != nil {
			return err
		}
	}
	return nil
}

// late has tasks reviewed whose eta and grace have passed. They go on.
func (c *clock) late(tx *store.Tx) error {
	late, err := store.Tasks{Tx: tx}.Late(tx.Now.Add(-slaGrace), dueBatch)
	if err != nil {
		return err
	}
	for _, k := range late {
		if err := c.review(tx, fmt.Sprintf("eta:%s:%s:%d", k.TaskID, k.AgentID, k.EtaAt.UnixMilli()), k, "sla_breach"); err != nil {
			return err
		}
		k.EtaAt = time.Time{}
		if _, err := (store.Tasks{Tx: tx}).Set(k); err != nil {
			return err
		}
	}
	return nil
}

// passed are tasks whose deadline has passed. That of a requester passes a little later,
// so that the word of the executor can come.
func (c *clock) passed(tx *store.Tx, count int) ([]store.Task, error) {
	own, err := store.Tasks{Tx: tx}.Overdue(store.Executor, tx.Now, count)
	if err != nil {
		return nil, err
	}
	asked, err := store.Tasks{Tx: tx}.Overdue(store.Requester, tx.Now.Add(-slaGrace), count)
	return append(own, asked...), err
}

// overdue ends tasks whose deadline has passed.
func (c *clock) overdue(tx *store.Tx) error {
	over, err := c.passed(tx, dueBatch)
	if err != nil {
		return err
	}
	for _, k := range over {
		const class, summary = "timeout", "the deadline passed"
		if k.Role == store.Requester {
			err = c.fail(tx, k, class, summary)
		} else {
			k.State, k.FailureClass, k.Summary = store.Failed, class, summary
			a := &Agent{books: c.books, id: k.AgentID}
			err = a.tell(tx, k, event.KindTaskFailed, event.TaskFailed{
				TaskID: k.TaskID, FailedByAgent: k.AgentID, FailureClass: class, ErrorSummary: summary, FailedAt: event.At(tx.Now),
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// expire takes messages out of the queues that expired before an agent took them.
func (c *clock) expire(tx *store.Tx) error {
	queued, err := store.Inbox{Tx: tx}.Overdue(tx.Now, dueBatch)
	if err != nil {
		return err
	}
	for _, p := range queued {
		if _, err := (store.Inbox{Tx: tx}).Finish(p.EventID, p.Agent); err != nil {
			return err
		}
	}
	return nil
}

// sweep forgets what is old, and drops from the stream what everybody has read.
func (c *clock) sweep(ctx context.Context) error {
	err := c.db.Update(ctx, func(tx *store.Tx) error {
		expired := tx.Now.Add(-maxSkew)
		if err := (store.Inbox{Tx: tx}).Forget(expired, 1000); err != nil {
			return err
		}
		if err := (store.Outbox{Tx: tx}).Forget(expired, 1000); err != nil {
			return err
		}
		return store.Tasks{Tx: tx}.Forget(tx.Now.Add(-keepTasks), 1000)
	})
	if err != nil {
		return err
	}
	return c.publisher.compact(ctx)
}
