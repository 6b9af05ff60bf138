package provider_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestUntyped: what an ordinary NIP-90 client sends is a text generation, and
// its result is words. A receipt for it proves as much as any.
func TestUntyped(t *testing.T) {
	w := markettest.New(t)
	w.Writes(t)
	c := w.NewCustomer(t, nil)
	for _, mode := range []receipts.Mode{receipts.ModePrepay, receipts.ModeFree} {
		p, err := c.Client.Place(w.Ctx, buyer.Order{
			Provider: w.Seller.Key.PublicKey(), SchemaID: string(schemas.TextGeneration), Mode: mode, MaxMsats: markettest.MaxMsats,
			Input: []byte(`{"prompt":"Which fruit is yellow?","system":"Which fruit, always.","max_tokens":5,"temperature":0.5}`), Plain: true,
		})
		markettest.Check(t, err)
		if strings.Contains(string(p.Request), "oa.text_generation") {
			t.Errorf("the request is typed: %s", p.Request)
		}
		p, err = w.Follow(t, c, p.RequestID, nil).Wait()
		if err != nil || p.State != buyer.StateDone || !strings.Contains(string(p.Output), `"text":"The banana`) || !p.Bound() {
			t.Fatalf("purchase %s (%s), %v: %s", p.State, p.Reason, err, p.Output)
		}
		var result nostr.Event
		markettest.Check(t, json.Unmarshal(p.ResultEvent, &result))
		if result.Content != markettest.Answer {
			t.Errorf("the result event says %q", result.Content)
		}
		if mode == receipts.ModeFree {
			continue
		}
		b, err := c.Client.Bundle(w.Ctx, p.RequestID)
		markettest.Check(t, err)
		report := receipts.Verify(b, receipts.Pins{Network: payments.Play})
		if report.ExitCode() != receipts.ExitProved {
			t.Errorf("%+v", report.Claims)
		}
		b.ResultEvent = []byte(strings.Replace(string(b.ResultEvent), "banana", "cherry", 1))
		if report := receipts.Verify(b, receipts.Pins{}); report.ExitCode() == receipts.ExitProved {
			t.Error("other words are proved")
		}
	}
}

// TestUntypedRefusals: inputs that are not text, and sampling that is no number.
func TestUntypedRefusals(t *testing.T) {
	w := markettest.New(t)
	w.Writes(t)
	c := w.NewCustomer(t, nil)
	for name, tags := range map[string]nostr.Tags{
		"no input":            {{"param", "max_tokens", "3"}},
		"an input of nothing": {{"i", "Which fruit?", "text"}, {"i"}},
		"a number twice":      {{"i", "Which fruit?", "text"}, {"param", "max_tokens", "3"}, {"param", "max_tokens", "4"}},
		"no number":           {{"i", "Which fruit?", "text"}, {"param", "temperature", "NaN"}},
		"out of range":        {{"i", "Which fruit?", "text"}, {"param", "temperature", "9"}},
	} {
		ev := markettest.SignedEvent(t, c.Key, 5050, "", append(tags, nostr.Tag{"p", w.Seller.Key.PublicKey()})...)
		markettest.Check(t, c.Market.Send(w.Ctx, ev))
		if job := w.Await(t, ev.ID, provider.StateRefused); job.Reason.Code != provider.CodeInvalidInput {
			t.Errorf("%s: %s", name, job.Reason)
		}
	}
	ok := markettest.SignedEvent(t, c.Key, 5050, "", nostr.Tag{"i", "Which fruit?"}, nostr.Tag{"i", "Say it.", "prompt"}, nostr.Tag{"p", w.Seller.Key.PublicKey()}, nostr.Tag{"param", "payment_mode", "free"})
	markettest.Check(t, c.Market.Send(w.Ctx, ok))
	w.Await(t, ok.ID, provider.StateSucceeded)
}
