package provider_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// asks is an untyped request for the world's provider, not sent yet.
func asks(t *testing.T, w *markettest.World, c *markettest.Customer, inputs ...nostr.Tag) nostr.Event {
	t.Helper()
	return markettest.SignedEvent(t, c.Key, 5050, "", append(inputs, nostr.Tag{"p", w.Seller.Key.PublicKey()}, nostr.Tag{"param", "payment_mode", "free"})...)
}

// prompted is the prompt that a job ran with.
func prompted(t *testing.T, job provider.Job) string {
	t.Helper()
	var asked schemas.TextRequest
	markettest.Check(t, json.Unmarshal(job.Input, &asked))
	return asked.Prompt
}

// TestChain: a job that names another's result waits for it, and job_hash is of
// what it ran with. The results of others count for nothing.
func TestChain(t *testing.T) {
	w := markettest.New(t)
	w.Echoes(t, nil)
	c := w.NewCustomer(t, nil)
	first := asks(t, w, c, nostr.Tag{"i", "a", "text"})
	second := asks(t, w, c, nostr.Tag{"i", "b", "text"}, nostr.Tag{"i", first.ID, "job", w.Relays[0]})
	third := asks(t, w, c, nostr.Tag{"i", second.ID, "job", "", w.Seller.Key.PublicKey()})
	for _, ev := range []nostr.Event{
		third, second, // before there is anything to wait for
		markettest.SignedEvent(t, markettest.NewKey(t), 6050, "forged", nostr.Tag{"e", first.ID}, nostr.Tag{"p", c.Key.PublicKey()}),
		markettest.SignedEvent(t, w.Seller.Key, 7000, "no result", nostr.Tag{"e", first.ID}),
		first,
	} {
		markettest.Check(t, c.Market.Send(w.Ctx, ev))
	}
	if got := prompted(t, w.Await(t, third.ID, provider.StateSucceeded)); got != "<b\n\n<a>>" {
		t.Errorf("the last ran with %q", got)
	}
	s, _ := schemas.Lookup(string(schemas.TextGeneration))
	req, err := s.ParseRequest([]byte(`{"prompt":"b\n\n<a>"}`))
	markettest.Check(t, err)
	if job := w.Await(t, second.ID, provider.StateSucceeded); job.JobHash != req.JobHash {
		t.Errorf("job_hash is of something else than %s", req.Canonical)
	}
}

// TestInputsThatAreNotTaken: each is told why, and nothing is quoted.
func TestInputsThatAreNotTaken(t *testing.T) {
	w := markettest.New(t)
	w.Echoes(t, func(c *provider.Config) { c.Limits.QuoteTTL = time.Second })
	c := w.NewCustomer(t, nil)
	other := markettest.NewKey(t)
	posts := map[string]nostr.Event{
		"private": markettest.SignedEvent(t, other, 14, "between two"), "protected": markettest.SignedEvent(t, w.Seller.Key, 1, "mine", nostr.Tag{"-"}), "empty": markettest.SignedEvent(t, other, 1, ""),
		"sealed": markettest.SignedEvent(t, w.Seller.Key, 6050, "x", nostr.Tag{"e", strings.Repeat("d", 64)}, nostr.Tag{"commitment", "sha256:x"}),
	}
	for name, ev := range posts {
		if name != "protected" { // a relay takes those from their author alone
			markettest.Check(t, c.Market.Send(w.Ctx, ev))
		}
	}
	many := nostr.Tags{}
	for range receipts.MaxReferences + 1 {
		many = append(many, nostr.Tag{"i", strings.Repeat("a", 64), "event"})
	}
	for name, l := range map[string]struct {
		inputs nostr.Tags
		code   provider.Code
	}{
		"missing":    {nostr.Tags{{"i", strings.Repeat("a", 64), "job"}}, provider.CodeMissingInput},
		"an address": {nostr.Tags{{"i", "https://example.com", "url"}}, provider.CodeUnsupportedInput},
		"no id":      {nostr.Tags{{"i", "aa", "event"}}, provider.CodeInvalidInput},
		"no key":     {nostr.Tags{{"i", strings.Repeat("a", 64), "job", "", "npub1"}}, provider.CodeInvalidInput},
		"too many":   {many, provider.CodeInvalidInput},
		"private":    {nostr.Tags{{"i", posts["private"].ID, "event"}}, provider.CodeUnusableInput},
		"empty":      {nostr.Tags{{"i", posts["empty"].ID, "event"}}, provider.CodeUnusableInput},
		"sealed":     {nostr.Tags{{"i", strings.Repeat("d", 64), "job"}}, provider.CodeUnusableInput},
	} {
		ev := asks(t, w, c, l.inputs...)
		markettest.Check(t, c.Market.Send(w.Ctx, ev))
		if job := w.Await(t, ev.ID, provider.StateRefused); job.Reason.Code != l.code || job.Reason.Detail == "" {
			t.Errorf("%s: %s", name, job.Reason)
		}
	}
	ok := asks(t, w, c, nostr.Tag{"i", markettest.SignedEvent(t, other, 1, "hello").ID, "event"})
	markettest.Check(t, c.Market.Send(w.Ctx, markettest.SignedEvent(t, other, 1, "hello")))
	markettest.Check(t, c.Market.Send(w.Ctx, ok))
	if got := prompted(t, w.Await(t, ok.ID, provider.StateSucceeded)); got != "hello" {
		t.Errorf("an event's content as input: %q", got)
	}
}

// TestWaitingIsBounded: a key has two places, and who cancels gives one back.
func TestWaitingIsBounded(t *testing.T) {
	w := markettest.New(t)
	w.Echoes(t, nil)
	c := w.NewCustomer(t, nil)
	never := func(mark string) nostr.Event {
		ev := asks(t, w, c, nostr.Tag{"i", strings.Repeat("e", 64), "job"}, nostr.Tag{"i", mark, "text"})
		markettest.Check(t, c.Market.Send(w.Ctx, ev))
		return ev
	}
	// Requests are admitted side by side: any of the three may be the refused one.
	waiting := map[string]nostr.Event{}
	for _, mark := range []string{"1", "2", "3"} {
		ev := never(mark)
		waiting[ev.ID] = ev
	}
	refusal := w.Find(t, c.Market, nostr.Filter{Kinds: []int{7000}, Tags: nostr.TagMap{"p": {c.Key.PublicKey()}}})
	if said := strings.Join(refusal.Tags.Find("status"), " "); !strings.Contains(said, "over_capacity") {
		t.Errorf("the third: %s", said)
	}
	delete(waiting, refusal.Tags.Find("e")[1])
	here := markettest.SignedEvent(t, markettest.NewKey(t), 1, "hello")
	markettest.Check(t, c.Market.Send(w.Ctx, here))
	full := asks(t, w, c, nostr.Tag{"i", here.ID, "event"})
	markettest.Check(t, c.Market.Send(w.Ctx, full))
	w.Await(t, full.ID, provider.StateRefused)
	for _, ev := range waiting {
		markettest.Check(t, c.Market.Send(w.Ctx, markettest.SignedEvent(t, c.Key, 5, "", nostr.Tag{"e", ev.ID}, nostr.Tag{"k", "5050"})))
		break
	}
	for try := 0; ; try++ { // the cancellation and the next request are read side by side
		ev := asks(t, w, c, nostr.Tag{"i", here.ID, "event"}, nostr.Tag{"t", strconv.Itoa(try)})
		markettest.Check(t, c.Market.Send(w.Ctx, ev))
		if w.Await(t, ev.ID, provider.StateRefused, provider.StateSucceeded).State == provider.StateSucceeded {
			return
		}
	}
}
