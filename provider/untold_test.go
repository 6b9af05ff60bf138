package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// overheard is a market that keeps all that leaves the provider.
type overheard struct {
	provider.Market
	mu    sync.Mutex
	said  []heardEvent
	blobs [][]byte
}

type heardEvent struct {
	nostr.Event
	at time.Time
}

func (m *overheard) hear(ev nostr.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said = append(m.said, heardEvent{ev, time.Now()})
}

func (m *overheard) Publish(ctx context.Context, ev nostr.Event) []provider.Ack {
	m.hear(ev)
	return m.Market.Publish(ctx, ev)
}

func (m *overheard) Bring(ctx context.Context, url string, ev nostr.Event) provider.Ack {
	m.hear(ev)
	return m.Market.Bring(ctx, url, ev)
}

func (m *overheard) Upload(ctx context.Context, data []byte, mime string) error {
	m.mu.Lock()
	m.blobs = append(m.blobs, data)
	m.mu.Unlock()
	return m.Market.Upload(ctx, data, mime)
}

// of is what was said of a request, without what is random or a date. Ticks are
// counted by nobody: how many there are is how long the job took.
func (m *overheard) of(t *testing.T, id string) (said []string, ended time.Time) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := map[string]bool{}
	for _, ev := range m.said {
		if !ev.Tags.ContainsAny("e", []string{id}) || seen[ev.ID] { // an event may be offered again
			continue
		}
		seen[ev.ID] = true
		status := ev.Tags.Find("status")
		if status == nil {
			t.Errorf("said of a job that nobody paid for: kind %d %q", ev.Kind, ev.Content)
			continue
		}
		if status[1] == "partial" {
			var tick struct{ Seq int }
			if json.Unmarshal([]byte(ev.Content), &tick) != nil || ev.Content != fmt.Sprintf(`{"seq":%d,"stage":"running"}`, tick.Seq) || len(status) > 2 {
				t.Errorf("a tick says %q %q", status, ev.Content)
			}
			continue
		}
		content := ev.Content
		if _, err := receipts.ParseQuote([]byte(content)); err == nil {
			content = "a quote"
		}
		var names []string
		for _, tag := range ev.Tags[1:] {
			names = append(names, tag[0])
		}
		said = append(said, fmt.Sprint(ev.Kind, status, content, names))
		if status[1] == "error" {
			ended = ev.at
		}
	}
	return said, ended
}

// secretJob is what a job does that its buyer wants to learn a secret from, for
// nothing. It prints in chunks whose sizes tell it, takes a time that tells it, and
// then does not succeed.
type secretJob func(w *world, ctx context.Context, secret string) (provider.Outcome, error)

var secretJobs = map[string]secretJob{
	"agent fails": func(_ *world, _ context.Context, s string) (provider.Outcome, error) {
		return provider.Outcome{}, &provider.RunError{Reason: provider.Reason{Code: provider.CodeAgentFailed, Detail: s}}
	},
	"agent refuses": func(_ *world, _ context.Context, s string) (provider.Outcome, error) {
		return provider.Outcome{}, &provider.RunError{Reason: provider.Reason{Code: provider.CodeInvalidInput, Detail: "prompt: " + s}}
	},
	"unknown code": func(_ *world, _ context.Context, s string) (provider.Outcome, error) {
		return provider.Outcome{}, &provider.RunError{Reason: provider.Reason{Code: provider.Code(s), Detail: s}}
	},
	"node fails": func(_ *world, _ context.Context, s string) (provider.Outcome, error) {
		return provider.Outcome{}, errors.New(s)
	},
	"too slow": func(_ *world, _ context.Context, s string) (provider.Outcome, error) {
		return provider.Outcome{}, fmt.Errorf("%s: %w", s, context.DeadlineExceeded)
	},
	"no result": func(_ *world, _ context.Context, s string) (provider.Outcome, error) {
		return provider.Outcome{Output: []byte(s)}, nil
	},
	"sandbox stops it": func(w *world, _ context.Context, s string) (provider.Outcome, error) {
		return w.runner.good(func(r *schemas.SandboxRunResult) { r.Status, r.Error = schemas.StatusError, "readdir "+s })
	},
	"another outcome": func(w *world, _ context.Context, s string) (provider.Outcome, error) {
		return w.runner.good(func(r *schemas.SandboxRunResult) {
			r.Status, r.Runs[0].ExitCode = schemas.StatusFailed, int32(3+len(s))
		})
	},
	"artifact missing": func(w *world, _ context.Context, s string) (provider.Outcome, error) {
		out, err := w.runner.good(func(r *schemas.SandboxRunResult) {
			r.Artifacts = append(r.Artifacts, schemas.SandboxArtifact{Path: s, SHA256: hashing.Bytes([]byte(s)), SizeBytes: int64(len(s))})
		})
		return out, err
	},
	"canceled": func(_ *world, ctx context.Context, _ string) (provider.Outcome, error) {
		<-ctx.Done()
		return provider.Outcome{}, ctx.Err()
	},
}

// TestUnpaidJobsTellNothing: two jobs that differ in all that they do, and that
// nobody pays for in the end, look the same from outside: what is said of them, in
// which words, and on which tick.
func TestUnpaidJobsTellNothing(t *testing.T) {
	secrets := []string{"the-answer-is-forty-two", "no"}
	for _, tt := range []struct {
		mode     receipts.Mode
		delivery receipts.Delivery
	}{
		{receipts.ModeHold, receipts.DeliveryPlain},
		{receipts.ModeHold, receipts.DeliverySealed},
		{receipts.ModePrepay, receipts.DeliveryPlain},
		{receipts.ModePostpay, receipts.DeliveryPlain},
		{receipts.ModePostpay, receipts.DeliverySealed},
	} {
		t.Run(string(tt.mode)+" "+string(tt.delivery), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			own, _ := w.further(t)
			began := map[string]time.Time{}
			var mu sync.Mutex
			running := make(chan string, 100)
			w.runner.do = func(ctx context.Context, run provider.Run) (provider.Outcome, error) {
				var req struct {
					Env struct{ CASE, SECRET string }
				}
				if err := json.Unmarshal(run.Input, &req); err != nil {
					return provider.Outcome{}, err
				}
				mu.Lock()
				began[run.RequestID] = time.Now()
				mu.Unlock()
				for range len(req.Env.SECRET) {
					run.OnStream(req.Env.SECRET, req.Env.SECRET)
					time.Sleep(10 * time.Millisecond)
				}
				if req.Env.CASE == "canceled" {
					running <- run.RequestID
				}
				return secretJobs[req.Env.CASE](w, ctx, req.Env.SECRET)
			}
			m := &overheard{}
			w.serve(t, func(cfg *provider.Config) {
				m.Market = cfg.Market
				cfg.Market = m
				l := &cfg.Limits
				l.Concurrent, l.Queue, l.QueuePerBuyer, l.UnpaidPerBuyer, l.HeldPerBuyer = 100, 100, 100, 100, 100
			})
			c := w.customer(t, nil)
			ids := map[string][]string{} // by case, one for each secret
			for name := range secretJobs {
				for _, secret := range secrets {
					more := ""
					if name == "another outcome" {
						more = `,"verification":{"expected":{"exit_codes":[0]}}`
					}
					ev := w.request(t, c.key, order(fmt.Sprintf(`,"env":{"CASE":%q,"SECRET":%q}`, name, secret)+more),
						nostr.Tag{"param", "payment_mode", string(tt.mode)}, nostr.Tag{"param", "delivery", string(tt.delivery)}, nostr.Tag{"relays", own})
					check(t, c.market.Send(w.ctx, ev))
					w.pays(t, c, ev.ID, tt.mode)
					ids[name] = append(ids[name], ev.ID)
				}
			}
			for range secrets {
				id := <-running
				check(t, c.market.Send(w.ctx, raw(t, c.key, 5, "", nostr.Tag{"e", id}, nostr.Tag{"k", "5050"})))
			}
			words := map[string]bool{}
			for name, pair := range ids {
				var said [2][]string
				for i, id := range pair {
					if job := w.ended(t, id); job.State == provider.StateSucceeded {
						t.Fatalf("%s: succeeded", name)
					}
					var ended time.Time
					for ended.IsZero() { // it is queued with the job's end
						check(t, w.ctx.Err())
						time.Sleep(time.Millisecond)
						said[i], ended = m.of(t, id)
					}
					mu.Lock()
					took := ended.Sub(began[id])
					mu.Unlock()
					if took < 4900*time.Millisecond {
						t.Errorf("%s: told %v after the run began, before its first tick", name, took)
					}
				}
				if !slices.Equal(said[0], said[1]) {
					t.Errorf("%s: two secrets, and two stories:\n%s\n%s", name, strings.Join(said[0], "\n"), strings.Join(said[1], "\n"))
				}
				words[said[0][len(said[0])-1]] = true
			}
			if len(words) > 6 {
				t.Errorf("%d ways to say that a job failed: %v", len(words), words)
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, ev := range m.said {
				if doc, _ := json.Marshal(ev.Event); strings.Contains(string(doc), secrets[0]) {
					t.Errorf("the secret is out: %s", doc)
				}
			}
			for _, b := range m.blobs {
				if strings.Contains(string(b), secrets[0]) {
					t.Errorf("the secret is on a blob server: %.200s", b)
				}
			}
		})
	}
}
