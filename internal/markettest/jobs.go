package markettest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/provider"
)

// Await returns the job once it is in one of the states.
func (w *World) Await(t *testing.T, id string, states ...provider.State) provider.Job {
	t.Helper()

	for {
		change := w.Store.Changed()
		job, err := w.Store.Job(w.Ctx, id)
		if err != nil && !errors.Is(err, provider.ErrNotFound) {
			t.Fatal(err)
		}

		for _, s := range states {
			if err == nil && job.State == s {
				return job
			}
		}

		if err == nil && job.State.Terminal() {
			t.Fatalf("job is %s (%s), want %v", job.State, job.Reason, states)
		}

		select {
		case <-change:
		case <-w.Ctx.Done():
			t.Fatalf("job stays %s, want %v", job.State, states)
		}
	}
}

// Until returns the job once it is so.
func (w *World) Until(t *testing.T, id string, so func(provider.Job) bool) provider.Job {
	t.Helper()

	for {
		change := w.Store.Changed()
		job, err := w.Store.Job(w.Ctx, id)
		if err == nil && so(job) {
			return job
		}
		select {
		case <-change:
		case <-w.Ctx.Done():
			t.Fatalf("job %s stays %q (%v)", id, job.State, err)
		}
	}
}

// Passes waits until a job has come to a state, or further.
func (w *World) Passes(t *testing.T, id string, state provider.State) provider.Job {
	t.Helper()
	order := []provider.State{provider.StateQuoted, provider.StatePaid, provider.StateRunning, provider.StateDelivering}
	return w.Until(t, id, func(job provider.Job) bool {
		return job.State.Terminal() || slices.Index(order, job.State) >= slices.Index(order, state)
	})
}

// Ended waits for a job's end.
func (w *World) Ended(t *testing.T, id string) provider.Job {
	t.Helper()
	return w.Until(t, id, func(job provider.Job) bool { return job.State.Terminal() })
}

// Debt waits until the provider's refund of the job has ended, and returns it.
func (w *World) Debt(t *testing.T, id string) provider.Debt {
	t.Helper()

	for {
		change := w.Store.Changed()
		debts, err := w.Store.Debts(w.Ctx)
		Check(t, err)

		for _, d := range debts {
			if d.RequestID == id && (d.Refund == nil || d.Refund.End != nil) {
				return d
			}
		}

		select {
		case <-change:
		case <-w.Ctx.Done():
			t.Fatalf("no end of the refund: %+v", debts)
		}
	}
}

// Told joins the texts of the feedback of a request.
func (w *World) Told(t *testing.T, c *Customer, id string) (text string) {
	t.Helper()
	for _, ev := range w.SaidOf(t, c, id) {
		if status := ev.Tags.Find("status"); len(status) > 2 {
			text += status[2] + "\n"
		}
	}
	return text
}

// SaidOf is the feedback on a job: what was sent, and what is to be.
func (w *World) SaidOf(t *testing.T, c *Customer, id string) []nostr.Event {
	t.Helper()
	pending, err := w.Store.PendingEvents(w.Ctx, time.Hour, 100)
	Check(t, err)
	events, err := c.Market.Query(w.Ctx, nostr.Filter{Kinds: []int{7000}, Tags: nostr.TagMap{"e": {id}}})
	Check(t, err)

	for _, p := range pending {
		var ev nostr.Event
		if ev.UnmarshalJSON(p.Event) == nil && ev.Tags.ContainsAny("e", []string{id}) {
			events = append(events, ev)
		}
	}

	return events
}

// Job is the provider's job as it stands.
func (w *World) Job(t *testing.T, id string) provider.Job {
	t.Helper()
	job, err := w.Store.Job(w.Ctx, id)
	Check(t, err)
	return job
}
