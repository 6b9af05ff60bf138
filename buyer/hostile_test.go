package buyer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/schemas"
)

// postpaid answers with a result and then asks to be paid for it.
func postpaid(change func(*answer)) func(*cheat, nostr.Event) []nostr.Event {
	return func(c *cheat, req nostr.Event) []nostr.Event {
		bill := c.offer(req, func(d *deal) { d.quote.Mode = receipts.ModePostpay })
		result := c.result(req, func(a *answer) {
			a.set("amount", "20000")
			a.set("quote_hash", hashing.Bytes([]byte(bill.Content)).String())
			change(a)
		})
		return []nostr.Event{result, bill, c.end(req)}
	}
}

// TestPostpayHoldsTheResultAgainstWhatWasExpected: the buyer judges for itself, and
// does not pay for a result that is not what the request said it pays for.
func TestPostpayHoldsTheResultAgainstWhatWasExpected(t *testing.T) {
	requirements.Covers(t, "OA-3.6")
	for want, pays := range map[string]bool{"0": true, "1": false} {
		input := strings.TrimSuffix(request, "}") + `,"verification":{"expected":{"exit_codes":[` + want + `]}}}`
		c, p, err := buy(t, postpaid(func(*answer) {}), nil, nil, func(*buyer.Config) {}, buyer.Order{Input: []byte(input)})
		if !errors.Is(err, buyer.ErrFailed) || (len(c.sent) == 1) != pays || (p.Attempt != nil) != pays {
			t.Errorf("expected exit code %s: purchase %s (%s), %v, %d payments", want, p.State, p.Reason, err, len(c.sent))
		}
	}
}

// TestPostpayPaysForResultsOnly: what is no result, though it is signed and
// well formed, is not paid for; a command that failed is.
func TestPostpayPaysForResultsOnly(t *testing.T) {
	requirements.Covers(t, "K-47")
	for name, tt := range map[string]struct {
		change func(*answer)
		pays   bool
		want   string
	}{
		"a result": {func(*answer) {}, true, "the payment came back"},
		"a failed command": {func(a *answer) {
			a.result.Runs[0].ExitCode, a.result.Status = 1, schemas.StatusFailed
		}, true, "the payment came back"},
		"an error": {func(a *answer) {
			a.result.Status, a.result.Runs, a.result.Error = schemas.StatusError, []schemas.SandboxRunInfo{}, "crashed, pay anyway"
		}, false, "its status is error"},
		"an artifact that did not come": {func(a *answer) {
			a.result.Artifacts = []schemas.SandboxArtifact{{Path: "out", SHA256: hashing.Bytes([]byte("x")), SizeBytes: 1}}
		}, false, "canceled: enough"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, p, err := play(t, postpaid(tt.change), nil, buyer.Limits{})
			if !errors.Is(err, buyer.ErrFailed) || !strings.Contains(p.Reason, tt.want) {
				t.Errorf("purchase %s (%s), %v", p.State, p.Reason, err)
			}
			if (len(c.sent) == 1) != tt.pays || len(c.sent) > 1 {
				t.Errorf("sent %+v", c.sent)
			}
		})
	}
}

// TestPostpayPaysWhatCanBeProved: a result in the clear that no receipt could name is
// not paid for, though all that the buyer reads of it is right.
func TestPostpayPaysWhatCanBeProved(t *testing.T) {
	other := hashing.Bytes([]byte("other")).String()
	for name, change := range map[string]func(*answer){
		"of another quote":  func(a *answer) { a.set("quote_hash", other) },
		"of another policy": func(a *answer) { a.set("policy_bundle_id", other) },
		"of another schema": func(a *answer) { a.set("schema", "oa.embedding.v1") },
		"of two jobs":       func(a *answer) { a.tags = append(a.tags, nostr.Tag{"job_hash", other}) },
		"of two outputs":    func(a *answer) { a.tags = append(a.tags, nostr.Tag{"output_hash", other}) },
		"of two requests":   func(a *answer) { a.tags = append(a.tags, nostr.Tag{"e", strings.Repeat("7", 64)}) },
		"for another buyer": func(a *answer) { a.set("p", strings.Repeat("7", 64)) },
		"without a record": func(a *answer) {
			a.tags = slices.DeleteFunc(a.tags, func(t nostr.Tag) bool { return t[0] == "replay_hash" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, p, err := play(t, postpaid(change), nil, buyer.Limits{})
			if !errors.Is(err, buyer.ErrFailed) || !strings.Contains(p.Reason, "no receipt could name it") || len(c.sent) != 0 {
				t.Errorf("purchase %s (%s), %v, sent %+v", p.State, p.Reason, err, c.sent)
			}
		})
	}
}

// TestUnmetExpectationIsNotPaid: the request says what it wants to pay for.
func TestUnmetExpectationIsNotPaid(t *testing.T) {
	requirements.Covers(t, "K-47")
	input := strings.Replace(request, `"commands"`, `"verification":{"expected":{"exit_codes":[0]}},"commands"`, 1)
	c, p, err := order(t, postpaid(func(a *answer) {
		a.result.Runs[0].ExitCode, a.result.Status = 1, schemas.StatusFailed
	}), buyer.Order{Input: []byte(input)})
	if !errors.Is(err, buyer.ErrFailed) || !strings.HasPrefix(p.Reason, "expectation_not_met: not paid: ") || len(c.sent) != 0 {
		t.Errorf("purchase %s (%s), %v, sent %+v", p.State, p.Reason, err, c.sent)
	}
}

// TestQuoteInAnotherMode: who asked to pay in one way pays in no other, though
// it pays so elsewhere.
func TestQuoteInAnotherMode(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePostpay, receipts.ModeFree} {
		c, p, err := buy(t, func(c *cheat, req nostr.Event) []nostr.Event {
			return []nostr.Event{c.offer(req, func(d *deal) { d.quote.Mode = receipts.ModePrepay }), c.end(req)}
		}, nil, nil, func(cfg *buyer.Config) {
			cfg.Modes = []receipts.Mode{receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay, receipts.ModeFree}
		}, buyer.Order{Mode: mode})
		if !errors.Is(err, buyer.ErrFailed) || !strings.Contains(p.Reason, `mode is "prepay"`) || len(c.sent) != 0 {
			t.Errorf("%s: purchase %s (%s), %v, sent %+v", mode, p.State, p.Reason, err, c.sent)
		}
	}
}

// TestQuoteAboveTheAnnouncedPrice: the bid is the price that was announced, not
// all that the buyer would pay, and no more is paid.
func TestQuoteAboveTheAnnouncedPrice(t *testing.T) {
	c, p, err := order(t, func(c *cheat, req nostr.Event) []nostr.Event {
		if bid := req.Tags.Find("bid"); bid == nil || bid[1] != "19999" {
			t.Errorf("bid %v", bid)
		}
		return []nostr.Event{c.offer(req, func(*deal) {})}
	}, buyer.Order{Announced: &buyer.Listing{PerMinuteMsats: price - 2, BaseMsats: map[string]int64{"oa.sandbox_run.v1": 1}}})
	if !errors.Is(err, buyer.ErrFailed) || !strings.Contains(p.Reason, "price_msats") || len(c.sent) != 0 {
		t.Errorf("purchase %s (%s), %v, sent %+v", p.State, p.Reason, err, c.sent)
	}
}

// TestChattyProviderIsNotKept: what a provider can make the buyer store is bounded.
func TestChattyProviderIsNotKept(t *testing.T) {
	var store buyer.Store
	var id string
	_, _, err := playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
		id = req.ID
		all := []nostr.Event{c.word(req, "processing", strings.Repeat("x", 20<<10))}
		for i := range 200 {
			all = append(all, c.word(req, "processing", fmt.Sprint(i)))
		}
		go func() {
			for _, ev := range append(all, c.end(req)) {
				c.out <- ev
			}
		}()
		return nil
	}, nil, nil, func(cfg *buyer.Config) { store = cfg.Store })
	if !errors.Is(err, buyer.ErrFailed) {
		t.Fatal(err)
	}
	kept, err := store.Feedback(t.Context(), id)
	if err != nil || len(kept) == 0 || len(kept) > 64 {
		t.Errorf("%d events are kept, %v", len(kept), err)
	}
	for _, raw := range kept {
		if len(raw) > 16<<10 {
			t.Errorf("one of %d bytes is kept", len(raw))
		}
	}
}

// crowd is a market full of announcements.
type crowd struct {
	*cheat
	events []nostr.Event // newest first
}

func (c crowd) Query(_ context.Context, f nostr.Filter) ([]nostr.Event, error) {
	var page []nostr.Event
	for _, ev := range c.events {
		if len(page) < f.Limit && (f.Until == nil || ev.CreatedAt <= *f.Until) {
			page = append(page, ev)
		}
	}
	return page, nil
}

// TestCrowdHidesNobody: a thousand newer announcements of many keys do not hide an
// honest one, nor do thousands of one key, of which the newest 16 are listed; those
// from the future, or with a price below zero, are none.
func TestCrowdHidesNobody(t *testing.T) {
	key, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	c := &cheat{t: t, key: key}
	announce := func(key *relay.Key, d string, at time.Time, price int64) nostr.Event {
		content, err := json.Marshal(map[string]any{
			"capabilities": map[string]any{"supported_jobs": []string{"oa.sandbox_run.v1"}},
			"pricing":      map[string]any{"sandbox_per_minute_msats": price},
			"lightwork":    map[string]any{"base_msats": map[string]int64{"oa.sandbox_run.v1": 5}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ev := nostr.Event{Kind: 31990, CreatedAt: nostr.Timestamp(at.Unix()), Content: string(content), Tags: nostr.Tags{{"d", d}, {"k", "5050"}, domain.Announcement.Tag()}}
		if err := key.Sign(t.Context(), &ev); err != nil {
			t.Fatal(err)
		}
		return ev
	}
	now := time.Now()
	m := crowd{cheat: c}
	m.events = append(m.events, announce(newKey(t), "future", now.Add(time.Hour), 1), announce(newKey(t), "negative", now, -1))
	one := announce(newKey(t), "", now, 50)
	for i := range 5500 { // a market has checked who signed them
		at := now.Add(-time.Duration(i/40) * time.Second)
		one.CreatedAt, one.Tags = nostr.Timestamp(at.Unix()), nostr.Tags{{"d", fmt.Sprint(i)}, {"k", "5050"}, domain.Announcement.Tag()}
		m.events = append(m.events, one)
	}
	var crowdKey *relay.Key
	for i := range 1200 {
		if i%16 == 0 {
			crowdKey = newKey(t)
		}
		m.events = append(m.events, announce(crowdKey, fmt.Sprint("crowd-", i), now.Add(-time.Duration(600+i/3)*time.Second), 100))
	}
	m.events = append(m.events, announce(key, "honest", now.Add(-time.Hour), 7))
	client, err := buyer.New(buyer.Config{Signer: key, Store: noStore{}, Market: m})
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.Discover(t.Context(), "oa.sandbox_run.v1", "")
	if err != nil || len(list) != 1201+16 || list[0].PerMinuteMsats != 7 {
		t.Fatalf("%d listings, %v", len(list), err)
	}
	for _, l := range list {
		if n, err := strconv.Atoi(l.D); err == nil && n >= 16 {
			t.Errorf("of one key the announcement %s is listed, %d are newer", l.D, n)
		}
	}
	if got, ok := list[0].PriceMsats(schemas.SandboxRun, 61*time.Second); got != 19 || !ok {
		t.Errorf("two minutes cost %d", got)
	}
	if _, ok := list[0].PriceMsats(schemas.Embedding, time.Minute); ok {
		t.Error("a price was read that nobody announced")
	}
}

// TestAnnouncementsAreBounded: one that lists thousands of names, or names that are
// none, is shown to nobody.
func TestAnnouncementsAreBounded(t *testing.T) {
	key, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	const job = "oa.sandbox_run.v1"
	jobs := func(n int) []string { return slices.Repeat([]string{job}, n) }
	for name, tt := range map[string]struct {
		jobs   []string
		modes  []string
		net    string
		listed bool
	}{
		"usual":              {jobs(1), []string{"hold", "prepay"}, "play", true},
		"many jobs":          {jobs(64), []string{"hold"}, "play", true},
		"more jobs":          {jobs(65), []string{"hold"}, "play", false},
		"more modes":         {jobs(1), slices.Repeat([]string{"hold"}, 9), "play", false},
		"a long job":         {append(jobs(1), strings.Repeat("x", 101)), []string{"hold"}, "play", false},
		"a long mode":        {jobs(1), []string{strings.Repeat("x", 101)}, "play", false},
		"a mode of lines":    {jobs(1), []string{"hold\n1.  npub1"}, "play", false},
		"a network of lines": {jobs(1), []string{"hold"}, "play\n1.  npub1", false},
		"a job that steers":  {append(jobs(1), "x\u009b2J"), []string{"hold"}, "play", false},
	} {
		content, err := json.Marshal(map[string]any{
			"capabilities": map[string]any{"supported_jobs": tt.jobs},
			"lightwork":    map[string]any{"modes": map[string]any{job: tt.modes}, "network": tt.net},
		})
		if err != nil {
			t.Fatal(err)
		}
		ev := nostr.Event{Kind: 31990, CreatedAt: nostr.Now(), Content: string(content), Tags: nostr.Tags{{"d", "x"}, {"k", "5050"}, domain.Announcement.Tag()}}
		if err := key.Sign(t.Context(), &ev); err != nil {
			t.Fatal(err)
		}
		client, err := buyer.New(buyer.Config{Signer: key, Store: noStore{}, Market: crowd{&cheat{t: t, key: key}, []nostr.Event{ev}}})
		if err != nil {
			t.Fatal(err)
		}
		if list, err := client.Discover(t.Context(), "", ""); err != nil || (len(list) == 1) != tt.listed {
			t.Errorf("%s: %d listings, %v", name, len(list), err)
		}
	}
}

type noStore struct{ buyer.Store }

// TestNoRelay: a buyer that reaches no relay says so, and its purchase stays open.
func TestNoRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, err := relay.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		client, err := buyer.New(buyer.Config{Signer: key, Store: one{}, Market: unreachable{}})
		if err != nil {
			t.Fatal(err)
		}
		p, err := client.Follow(t.Context(), "id", nil)
		if !errors.Is(err, buyer.ErrNoRelay) || p.State != buyer.StateRequested {
			t.Errorf("purchase %s, %v", p.State, err)
		}
	})
}

type one struct{ buyer.Store }

func (one) Purchase(context.Context, string) (buyer.Purchase, error) {
	return buyer.Purchase{RequestID: "id", State: buyer.StateRequested}, nil
}

type unreachable struct{ buyer.Market }

func (unreachable) Listen(ctx context.Context, _ nostr.Filters, _ func(), _ func(nostr.Event)) error {
	<-ctx.Done()
	return ctx.Err()
}

func (noStore) History(context.Context) (map[string]buyer.History, error) { return nil, nil }

// TestPostpayPaysForAPolicyThatCanBeRead: a result with a manifest that no verifier
// takes is not paid for, whether it is sealed or not.
func TestPostpayPaysForAPolicyThatCanBeRead(t *testing.T) {
	manifest, err := receipts.Policy{Version: 1, Producer: "test"}.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	for _, sealed := range []bool{false, true} {
		for doc, paid := range map[string]bool{string(manifest): true, `{"producer":"test","version":1}`: false, "": false} {
			t.Run(fmt.Sprintf("sealed %v %q", sealed, doc), func(t *testing.T) {
				t.Parallel()
				id := hashing.Bytes([]byte(doc))
				blob := nostr.Tag{"blob", "policy", id.String(), fmt.Sprint(len(doc)), "application/json"}
				c, p, err := playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
					bill := c.offer(req, func(d *deal) {
						d.quote.Mode, d.quote.PolicyBundleID = receipts.ModePostpay, id
						if sealed {
							d.quote.Delivery = receipts.DeliverySealed
						}
					})
					var result nostr.Event
					if sealed {
						result = c.sealed(req, bill, func(*answer) {}, nil, func(b *boxed) { b.tags = append(b.tags, blob) })
					} else {
						result = c.result(req, func(a *answer) {
							a.set("amount", "20000")
							a.set("quote_hash", hashing.Bytes([]byte(bill.Content)).String())
							a.set("policy_bundle_id", id.String())
							a.tags = append(a.tags, blob)
						})
						c.blobs = map[hashing.Digest][]byte{}
					}
					c.blobs[id] = []byte(doc)
					return []nostr.Event{result, bill, c.end(req)}
				}, nil, nil, func(*buyer.Config) {})
				if (len(c.sent) == 1) != paid || !paid && !strings.Contains(p.Reason, "no receipt could be proved: ") {
					t.Errorf("purchase %s (%s), %v, sent %+v", p.State, p.Reason, err, c.sent)
				}
			})
		}
	}
}
