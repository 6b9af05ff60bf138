package provider_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

const answer = "The banana, \"of course\"."

// writes makes the world's provider one that writes texts.
func (w *world) writes(t *testing.T) {
	w.runner.do = func(_ context.Context, run provider.Run) (provider.Outcome, error) {
		var asked schemas.TextRequest
		if err := json.Unmarshal(run.Input, &asked); err != nil || !strings.HasPrefix(asked.Prompt, "Which fruit") {
			t.Errorf("asked %s, %v", run.Input, err)
		}
		return w.words()
	}
	w.serve(t, func(c *provider.Config) { c.Offers = []provider.Offer{textOffer()} })
}

// words is what a writer's run comes to.
func (w *world) words() (provider.Outcome, error) {
	doc, err := json.Marshal(schemas.TextResult{Text: answer, Provenance: schemas.Provenance{ModelID: "m", ProviderPubkey: w.runner.key}})
	return provider.Outcome{Output: doc}, err
}

func textOffer() provider.Offer {
	return provider.Offer{SchemaID: string(schemas.TextGeneration), Modes: allModes, BaseMsats: rateMsats}
}

// TestUntyped: what an ordinary NIP-90 client sends is a text generation, and
// its result is words. A receipt for it proves as much as any.
func TestUntyped(t *testing.T) {
	w := newWorld(t)
	w.writes(t)
	c := w.customer(t, nil)
	for _, mode := range []receipts.Mode{receipts.ModePrepay, receipts.ModeFree} {
		p, err := c.client.Place(w.ctx, buyer.Order{
			Provider: w.seller.key.PublicKey(), SchemaID: string(schemas.TextGeneration), Mode: mode, MaxMsats: maxMsats,
			Input: []byte(`{"prompt":"Which fruit is yellow?","system":"Which fruit, always.","max_tokens":5,"temperature":0.5}`), Outside: true,
		})
		check(t, err)
		if strings.Contains(string(p.Request), "oa.text_generation") {
			t.Errorf("the request is typed: %s", p.Request)
		}
		p, err = w.follow(t, c, p.RequestID, nil).wait()
		if err != nil || p.State != buyer.StateDone || !strings.Contains(string(p.Output), `"text":"The banana`) || !p.Bound() {
			t.Fatalf("purchase %s (%s), %v: %s", p.State, p.Reason, err, p.Output)
		}
		var result nostr.Event
		check(t, json.Unmarshal(p.ResultEvent, &result))
		if result.Content != answer {
			t.Errorf("the result event says %q", result.Content)
		}
		if mode == receipts.ModeFree {
			continue
		}
		b, err := c.client.Bundle(w.ctx, p.RequestID)
		check(t, err)
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
	w := newWorld(t)
	w.writes(t)
	c := w.customer(t, nil)
	for name, tags := range map[string]nostr.Tags{
		"no input":            {{"param", "max_tokens", "3"}},
		"an input of nothing": {{"i", "Which fruit?", "text"}, {"i"}},
		"a number twice":      {{"i", "Which fruit?", "text"}, {"param", "max_tokens", "3"}, {"param", "max_tokens", "4"}},
		"no number":           {{"i", "Which fruit?", "text"}, {"param", "temperature", "NaN"}},
		"out of range":        {{"i", "Which fruit?", "text"}, {"param", "temperature", "9"}},
	} {
		ev := raw(t, c.key, 5050, "", append(tags, nostr.Tag{"p", w.seller.key.PublicKey()})...)
		check(t, c.market.Send(w.ctx, ev))
		if job := w.await(t, ev.ID, provider.StateRefused); job.Reason.Code != provider.CodeInvalidInput {
			t.Errorf("%s: %s", name, job.Reason)
		}
	}
	ok := raw(t, c.key, 5050, "", nostr.Tag{"i", "Which fruit?"}, nostr.Tag{"i", "Say it.", "prompt"}, nostr.Tag{"p", w.seller.key.PublicKey()}, nostr.Tag{"param", "payment_mode", "free"})
	check(t, c.market.Send(w.ctx, ok))
	w.await(t, ok.ID, provider.StateSucceeded)
}
