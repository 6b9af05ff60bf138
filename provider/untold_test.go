package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/schemas"
)

// overheard is a market that keeps all that leaves the provider.
type overheard struct {
	provider.Market
	buyer *relay.Key // reads what is encrypted

	mu    sync.Mutex
	more  chan struct{} // closed, and made anew, at every event
	said  []heardEvent
	blobs []heardBlob
}

type heardEvent struct {
	nostr.Event
	at time.Time
}

type heardBlob struct {
	data []byte
	mime string
}

func newOverheard() *overheard { return &overheard{more: make(chan struct{})} }

func (m *overheard) hear(ev nostr.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said = append(m.said, heardEvent{ev, time.Now()})
	close(m.more)
	m.more = make(chan struct{})
}

// next is closed once more is heard than until now.
func (m *overheard) next() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.more
}

func (m *overheard) Publish(ctx context.Context, ev nostr.Event) []provider.Ack {
	m.hear(ev)
	return m.Market.Publish(ctx, ev)
}

func (m *overheard) Forward(ctx context.Context, url string, ev nostr.Event) provider.Ack {
	m.hear(ev)
	return m.Market.Forward(ctx, url, ev)
}

func (m *overheard) Upload(ctx context.Context, data []byte, mime string) error {
	m.mu.Lock()
	m.blobs = append(m.blobs, heardBlob{data, mime})
	m.mu.Unlock()
	return m.Market.Upload(ctx, data, mime)
}

// of is what was said of a request that failed, without what is random or a date.
// Ticks are counted by nobody: how many there are is how long the job took.
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
		tags, content, outside := m.inside(t, ev.Event)
		status := tags.Find("status")
		if status == nil {
			t.Errorf("said of a job that nobody paid for: kind %d %q", ev.Kind, ev.Content)
			continue
		}
		if status[1] == "partial" {
			var tick struct{ Seq int }
			if json.Unmarshal([]byte(content), &tick) != nil || content != fmt.Sprintf(`{"seq":%d,"stage":"running"}`, tick.Seq) || len(status) > 2 {
				t.Errorf("a tick says %q %q", status, content)
			}
			continue
		}
		if _, err := receipts.ParseQuote([]byte(content)); err == nil {
			content = "a quote"
		}
		said = append(said, fmt.Sprint(ev.Kind, status, content, namesOf(tags), outside))
		if status[1] == "error" {
			ended = ev.at
		}
	}
	return said, ended
}

func namesOf(tags nostr.Tags) (names []string) {
	for _, tag := range tags {
		names = append(names, tag[0])
	}
	return names
}

// inside is an event as its buyer reads it. outside is what everybody sees of one
// that is encrypted.
func (m *overheard) inside(t *testing.T, ev nostr.Event) (tags nostr.Tags, content, outside string) {
	t.Helper()
	if !slices.ContainsFunc(ev.Tags, func(tag nostr.Tag) bool { return tag[0] == "encrypted" }) {
		return ev.Tags, ev.Content, ""
	}
	text, err := m.buyer.NIP44Decrypt(t.Context(), ev.PubKey, ev.Content)
	markettest.Check(t, err)
	markettest.Check(t, json.Unmarshal([]byte(text), &tags))
	if tag := tags.Find("content"); tag != nil {
		content = tag[1]
		tags = slices.DeleteFunc(tags, func(tag nostr.Tag) bool { return tag[0] == "content" })
	}
	return tags, content, fmt.Sprint(namesOf(ev.Tags), len(ev.Content))
}

// secretly is a request whose tags only the provider reads, if it is to be hidden.
func secretly(t *testing.T, w *markettest.World, c *markettest.Customer, hidden bool, input []byte, more ...nostr.Tag) nostr.Event {
	t.Helper()
	ev := w.Request(t, c.Key, input, more...)
	if !hidden {
		return ev
	}
	seller := w.Seller.Key.PublicKey()
	inside, err := json.Marshal(slices.DeleteFunc(ev.Tags, func(tag nostr.Tag) bool { return tag[0] == "p" }))
	markettest.Check(t, err)
	text, err := c.Key.NIP44Encrypt(w.Ctx, seller, string(inside))
	markettest.Check(t, err)
	return markettest.SignedEvent(t, c.Key, 5050, text, nostr.Tag{"p", seller}, nostr.Tag{"encrypted"})
}

// secretJob is what a job does that its buyer wants to learn a secret from, for
// nothing. It prints in chunks whose sizes tell it, takes a time that tells it, and
// then does not succeed.
type secretJob func(w *markettest.World, ctx context.Context, secret string) (provider.Outcome, error)

var secretJobs = map[string]secretJob{
	"agent fails": func(_ *markettest.World, _ context.Context, s string) (provider.Outcome, error) {
		return provider.Outcome{}, &provider.RunError{Reason: provider.Reason{Code: provider.CodeAgentFailed, Detail: s}}
	},
	"agent refuses": func(_ *markettest.World, _ context.Context, s string) (provider.Outcome, error) {
		return provider.Outcome{}, &provider.RunError{Reason: provider.Reason{Code: provider.CodeInvalidInput, Detail: "prompt: " + s}}
	},
	"unknown code": func(_ *markettest.World, _ context.Context, s string) (provider.Outcome, error) {
		return provider.Outcome{}, &provider.RunError{Reason: provider.Reason{Code: provider.Code(s), Detail: s}}
	},
	"node fails": func(_ *markettest.World, _ context.Context, s string) (provider.Outcome, error) {
		return provider.Outcome{}, errors.New(s)
	},
	"too slow": func(_ *markettest.World, _ context.Context, s string) (provider.Outcome, error) {
		return provider.Outcome{}, fmt.Errorf("%s: %w", s, context.DeadlineExceeded)
	},
	"no result": func(_ *markettest.World, _ context.Context, s string) (provider.Outcome, error) {
		return provider.Outcome{Output: []byte(s)}, nil
	},
	"sandbox stops it": func(w *markettest.World, _ context.Context, s string) (provider.Outcome, error) {
		return w.Runner.Good(func(r *schemas.SandboxRunResult) { r.Status, r.Error = schemas.StatusError, "readdir "+s })
	},
	"another outcome": func(w *markettest.World, _ context.Context, s string) (provider.Outcome, error) {
		return w.Runner.Good(func(r *schemas.SandboxRunResult) {
			r.Status, r.Runs[0].ExitCode = schemas.StatusFailed, int32(3+len(s))
		})
	},
	"artifact missing": func(w *markettest.World, _ context.Context, s string) (provider.Outcome, error) {
		out, err := w.Runner.Good(func(r *schemas.SandboxRunResult) {
			r.Artifacts = append(r.Artifacts, schemas.SandboxArtifact{Path: s, SHA256: hashing.Bytes([]byte(s)), SizeBytes: int64(len(s))})
		})
		return out, err
	},
	"canceled": func(_ *markettest.World, ctx context.Context, _ string) (provider.Outcome, error) {
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
		hidden   bool // the request and all that is said of it
	}{
		{receipts.ModeHold, receipts.DeliveryPlain, false},
		{receipts.ModeHold, receipts.DeliverySealed, false},
		{receipts.ModeHold, receipts.DeliverySealed, true},
		{receipts.ModePrepay, receipts.DeliveryPlain, false},
		{receipts.ModePrepay, receipts.DeliveryPlain, true},
		{receipts.ModePostpay, receipts.DeliveryPlain, false},
		{receipts.ModePostpay, receipts.DeliverySealed, false},
		{receipts.ModePostpay, receipts.DeliverySealed, true},
	} {
		t.Run(fmt.Sprintf("%s %s hidden %v", tt.mode, tt.delivery, tt.hidden), func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			own, _ := further(t, w)
			began := map[string]time.Time{}
			var mu sync.Mutex
			running := make(chan string, 100)
			w.Runner.Do = func(ctx context.Context, run provider.Run) (provider.Outcome, error) {
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
			m := newOverheard()
			w.Serve(t, func(cfg *provider.Config) {
				w.ReadsHidden(cfg)
				m.Market = cfg.Market
				cfg.Market = m
				l := &cfg.Limits
				l.Concurrent, l.Queue, l.QueuePerBuyer, l.UnpaidPerBuyer, l.HeldPerBuyer = 100, 100, 100, 100, 100
			})
			c := w.NewCustomer(t, nil)
			m.buyer = c.Key
			ids := map[string][]string{} // by case, one for each secret
			for name := range secretJobs {
				for _, secret := range secrets {
					more := ""
					if name == "another outcome" {
						more = `,"verification":{"expected":{"exit_codes":[0]}}`
					}
					ev := secretly(t, w, c, tt.hidden, markettest.SandboxInput(fmt.Sprintf(`,"env":{"CASE":%q,"SECRET":%q}`, name, secret)+more),
						nostr.Tag{"param", "payment_mode", string(tt.mode)}, nostr.Tag{"param", "delivery", string(tt.delivery)}, nostr.Tag{"relays", own})
					markettest.Check(t, c.Market.Send(w.Ctx, ev))
					pays(t, w, c, ev.ID, tt.mode)
					ids[name] = append(ids[name], ev.ID)
				}
			}
			for range secrets {
				id := <-running
				markettest.Check(t, c.Market.Send(w.Ctx, markettest.SignedEvent(t, c.Key, 5, "", nostr.Tag{"e", id}, nostr.Tag{"k", "5050"})))
			}
			words := map[string]bool{}
			for name, pair := range ids {
				var said [2][]string
				for i, id := range pair {
					if job := w.Ended(t, id); job.State == provider.StateSucceeded {
						t.Fatalf("%s: succeeded", name)
					}
					var ended time.Time
					for { // it is queued with the job's end
						next := m.next()
						if said[i], ended = m.of(t, id); !ended.IsZero() {
							break
						}
						select {
						case <-next:
						case <-w.Ctx.Done():
							t.Fatalf("%s: its end is not told: %q", name, said[i])
						}
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
				t.Errorf("uploaded of jobs that gave no result: %.200s", b.data)
			}
		})
	}
}

// TestSealedResultsTellNothing: results that nobody has paid for look the same to who
// reads everything that the buyer can, however long they are and however many artifacts
// they have, within the size class of their boxes: what is random has the form of the
// other's, and the rest is the same. No blob has more than its box shows.
func TestSealedResultsTellNothing(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		t.Run(fmt.Sprintf("hidden %v", hidden), func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			w.Runner.Do = func(_ context.Context, run provider.Run) (provider.Outcome, error) {
				var req struct{ Env struct{ SECRET string } }
				if err := json.Unmarshal(run.Input, &req); err != nil {
					return provider.Outcome{}, err
				}
				secret := req.Env.SECRET
				run.OnStream(secret, secret)
				file := []byte(secret)
				var out provider.Outcome
				result, err := w.Runner.Good(func(r *schemas.SandboxRunResult) {
					r.Runs[0].StdoutPreview, r.Runs[0].StdoutSHA256 = secret, hashing.Bytes(file)
					r.Artifacts = nil
					for i := range len(secret) % 5 {
						file := append(file, make([]byte, 20*len(secret)*i)...)
						r.Artifacts = append(r.Artifacts, schemas.SandboxArtifact{Path: fmt.Sprint(secret, i), SHA256: hashing.Bytes(file), SizeBytes: int64(len(file))})
						out.Artifacts = append(out.Artifacts, file)
					}
				})
				result.Artifacts = out.Artifacts
				return result, err
			}
			m := newOverheard()
			w.Serve(t, func(cfg *provider.Config) {
				w.ReadsHidden(cfg)
				m.Market = cfg.Market
				cfg.Market = m
			})
			c := w.NewCustomer(t, nil)
			m.buyer = c.Key
			secrets := []string{"the-answer-is-forty-two", "the-answer-is-something-", "nothing-at-all-is-here"}
			stories := make([][]string, len(secrets))
			named := map[string]string{}
			for i, secret := range secrets {
				ev := secretly(t, w, c, hidden, markettest.SandboxInput(fmt.Sprintf(`,"env":{"SECRET":%q}`, secret)),
					nostr.Tag{"param", "payment_mode", "postpay"}, nostr.Tag{"param", "delivery", "sealed"})
				markettest.Check(t, c.Market.Send(w.Ctx, ev))
				w.Passes(t, ev.ID, provider.StateDelivering)
				for len(stories[i]) < 3 { // it begins, its result, and what that costs
					next := m.next()
					if stories[i] = m.story(t, ev.ID, named); len(stories[i]) >= 3 {
						break
					}
					select {
					case <-next:
					case <-w.Ctx.Done():
						t.Fatalf("told %q", stories[i])
					}
				}
				if job := w.Job(t, ev.ID); job.State != provider.StateDelivering {
					t.Fatalf("job %s (%s)", job.State, job.Reason)
				}
			}
			for _, story := range stories[1:] {
				if !slices.Equal(stories[0], story) {
					t.Errorf("two secrets, and two stories:\n%s\n\n%s", strings.Join(stories[0], "\n"), strings.Join(story, "\n"))
				}
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, b := range m.blobs {
				if mime := named[hashing.Bytes(b.data).String()]; mime != b.mime {
					t.Errorf("uploaded as %q, and named as %q: %.200q", b.mime, mime, b.data)
				}
				for _, secret := range secrets {
					if strings.Contains(string(b.data), secret) {
						t.Errorf("the secret is on a blob server: %.200q", b.data)
					}
				}
			}
		})
	}
}

// randomText is what differs by chance: digests, ids, keys, invoices and dates, each in
// its own form.
var randomText = regexp.MustCompile(`[0-9a-f]{16,}|lnplay[0-9a-z]+|"created_at":[0-9]+|[0-9-]{10}T[0-9:]{8}Z`)

// story is all that was said of a request, with what is random taken out.
// It notes the blobs that are named, with their types.
func (m *overheard) story(t *testing.T, id string, named map[string]string) (told []string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := map[string]bool{}
	for _, ev := range m.said {
		if !ev.Tags.ContainsAny("e", []string{id}) || seen[ev.ID] {
			continue
		}
		seen[ev.ID] = true
		var tags nostr.Tags
		var content, outside string
		terms := ev.Tags.Find("lightwork")
		if terms == nil {
			tags, content, outside = m.inside(t, ev.Event)
		} else {
			text, err := m.buyer.NIP44Decrypt(t.Context(), ev.PubKey, terms[1])
			markettest.Check(t, err)
			var inner nostr.Event
			markettest.Check(t, inner.UnmarshalJSON([]byte(text)))
			tags, outside = inner.Tags, fmt.Sprint(namesOf(ev.Tags), len(terms[1]), ev.Content, inner.Content)
		}
		if status := tags.Find("status"); status != nil && status[1] == "partial" {
			continue
		}
		var rest []string
		for _, tag := range tags {
			tag = slices.Clone(tag)
			switch {
			case tag[0] == "request", tag[0] == "i": // the buyer's own words
				tag = tag[:1]
			case tag[0] == "blob":
				named[tag[2]] = tag[4]
			}
			rest = append(rest, strings.Join(tag, " "))
		}
		if _, err := receipts.ParseQuote([]byte(content)); err == nil {
			content = "a quote" // of before the run
		}
		text := fmt.Sprintf("%d %s\n%s\n%s", ev.Kind, outside, strings.Join(rest, "\n"), content)
		told = append(told, randomText.ReplaceAllStringFunc(text, func(s string) string { return fmt.Sprintf("<%d>", len(s)) }))
	}
	slices.Sort(told) // what is queued at once goes out in any order
	return told
}
