package provider_test

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// later is a store as it looks some time afterwards: all that it has happened by
// that much longer ago.
type later struct {
	provider.Store
	by time.Duration
}

func (s later) Job(ctx context.Context, id string) (provider.Job, error) {
	job, err := s.Store.Job(ctx, id)
	job.AddedAt, job.StateAt, job.ExpiresAt = job.AddedAt.Add(-s.by), job.StateAt.Add(-s.by), job.ExpiresAt.Add(-s.by)
	if !job.Deadline.IsZero() {
		job.Deadline = job.Deadline.Add(-s.by)
	}
	return job, err
}

// TestOutagePastTheDeadline: a provider that comes back hours later runs nothing,
// charges nothing and says so.
func TestOutagePastTheDeadline(t *testing.T) {
	requirements.Covers(t, "K-47")
	for _, mode := range markettest.AllModes {
		for _, state := range []provider.State{provider.StatePaid, provider.StateRunning} {
			if state == provider.StatePaid && (mode == receipts.ModePostpay || mode == receipts.ModeFree) {
				continue // there is no such state
			}
			t.Run(string(mode)+"/"+string(state), func(t *testing.T) {
				t.Parallel()
				w := markettest.New(t)
				w.Runner.Do = markettest.Hang
				w.Store.StopWhen(state)
				w.Serve(t, nil)
				c := w.NewCustomer(t, nil)
				f := w.Follow(t, c, w.Place(t, c, mode, markettest.SandboxInput("")).RequestID, nil)
				<-w.Store.LifeOver()
				runs := w.Runner.Count()
				w.Serve(t, func(cfg *provider.Config) { cfg.Store = later{cfg.Store, 3 * time.Hour} })
				p := f.Failed(t, provider.CodeDeadline)
				w.Unsold(t, c, p, provider.CodeDeadline)
				if got := w.Runner.Count(); got != runs {
					t.Errorf("%d runs were begun after the deadline", got-runs)
				}
				if mode == receipts.ModePrepay {
					w.Moved(t, c.Party, markettest.RateMsats, markettest.RateMsats+markettest.FeeMsats)
					if !strings.Contains(p.Reason, "21000 msats are owed") {
						t.Errorf("the buyer was told %q", p.Reason)
					}
				} else {
					w.Moved(t, c.Party, 0, 0)
				}
			})
		}
	}
}

// TestRunsShareOneDeadline: what the first run decided bounds the second, which
// is told what remains.
func TestRunsShareOneDeadline(t *testing.T) {
	requirements.Covers(t, "K-24")
	w := markettest.New(t)
	ends := make(chan time.Time, 2)
	w.Runner.Do = func(ctx context.Context, run provider.Run) (provider.Outcome, error) {
		if ctx.Err() != nil {
			return provider.Outcome{}, ctx.Err()
		}
		end, _ := ctx.Deadline()
		if most := 315 * time.Second; run.Timeout > most || run.Number == 2 && run.Timeout > 210*time.Second {
			t.Errorf("run %d may take %s", run.Number, run.Timeout)
		}
		ends <- end
		return w.Runner.Good(nil)
	}
	w.Store.StopWhen(provider.StateRunning)
	w.Serve(t, nil)
	c := w.NewCustomer(t, nil)
	p := w.Place(t, c, receipts.ModeFree, bytes.Replace(markettest.SandboxInput(""), []byte(`:30}`), []byte(`:300}`), 1))
	f := w.Follow(t, c, p.RequestID, nil)
	<-w.Store.LifeOver()
	first, err := w.Store.Job(w.Ctx, p.RequestID)
	markettest.Check(t, err)
	// 10 minutes to begin in, the request's own 5, and 30 s for the agent to start and stop.
	if want := first.AddedAt.Add(15*time.Minute + 30*time.Second); first.Deadline.IsZero() || !first.Deadline.Equal(want) {
		t.Errorf("deadline %v, want %v", first.Deadline, want)
	}
	gone := 12 * time.Minute
	w.Serve(t, func(cfg *provider.Config) { cfg.Store = later{cfg.Store, gone} })
	w.Sold(t, c, f, receipts.ModeFree)
	if end := <-ends; !end.Equal(first.Deadline.Add(-gone)) {
		t.Errorf("the second run ends %s after the first's deadline", end.Sub(first.Deadline.Add(-gone)))
	}
	job, err := w.Store.Job(w.Ctx, p.RequestID)
	markettest.Check(t, err)
	if job.Run != 2 || !job.Deadline.Equal(first.Deadline) {
		t.Errorf("run %d, deadline %v", job.Run, job.Deadline)
	}
}

// TestQuoteEndsWithItsRequest: a request that expires is quoted for no longer.
func TestQuoteEndsWithItsRequest(t *testing.T) {
	w := markettest.New(t)
	w.Serve(t, nil)
	c := w.NewCustomer(t, nil)
	end := time.Now().Add(3 * time.Minute).Truncate(time.Second)
	ev := w.Request(t, c.Key, markettest.SandboxInput(""), nostr.Tag{"expiration", strconv.FormatInt(end.Unix(), 10)})
	markettest.Check(t, c.Market.Send(w.Ctx, ev))
	if job := w.Await(t, ev.ID, provider.StateQuoted); !job.ExpiresAt.Equal(end) {
		t.Errorf("the quote ends at %v, its request at %v", job.ExpiresAt, end)
	}
}
