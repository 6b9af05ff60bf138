package provider_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// encrypts is a panel's buyer that can hide requests.
func (c *customer) encrypts(t *testing.T) *customer {
	t.Helper()
	c.client = c.open(t, func(cfg *buyer.Config) {
		unhurried(cfg)
		cfg.Cipher = c.key
	})
	return c
}

func (w *world) hiddenPanel(t *testing.T, c *customer, rivals ...*rival) buyer.Panel {
	t.Helper()
	p, err := c.client.PlacePanel(w.ctx, buyer.PanelOrder{
		SchemaID: string(schemas.SandboxRun), Input: order(""), Seats: seatsOf(rivals...), Rule: buyer.RuleMajority, Encrypt: true,
		MaxMsats: int64(len(rivals)) * (rateMsats + 10), CommitTimeout: slow,
	})
	check(t, err)
	return p
}

// TestHiddenPanel: a vote on an encrypted job pays as one in the clear does, and
// tells strangers neither the job, nor the answer, nor who voted with whom.
func TestHiddenPanel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rivals := w.honest(t, 2)
	liar := w.rival(t, "liar")
	liar.runner.do = rubbish(liar.runner)
	w.open(t, liar, nil)
	c := w.customer(t, unhurried).encrypts(t)
	p := w.hiddenPanel(t, c, liar, rivals[0], rivals[1])
	p, err := c.client.FollowPanel(w.ctx, p.ID, nil)
	check(t, err)
	if p.Decision.Outcome != buyer.OutcomeAgreed || p.Seats[0].Ruling.Taken || w.earned(t, liar) != 0 {
		t.Errorf("decision %+v, the liar earned %d msats", p.Decision, w.earned(t, liar))
	}
	if result, err := c.client.PanelResult(w.ctx, p); err != nil || result.Output == nil || result.ReceiptID == "" {
		t.Errorf("result %s, %v", result.Output, err)
	}
	for _, seat := range p.Seats {
		bought, err := c.store.Purchase(w.ctx, seat.RequestID)
		check(t, err)
		w.namesNoOther(t, c, p, seat)
		if seat.Ruling.Taken { // of the other its cancellation has deleted the request
			w.tellsNothing(t, c, bought)
			w.gradesHidden(t, c, bought)
		}
	}
	w.settledUp(t, c, 2*(rateMsats+feeMsats))
}

// namesNoOther: nothing that is published about a seat names another, nor what
// was revealed.
func (w *world) namesNoOther(t *testing.T, c *customer, p buyer.Panel, seat buyer.Seat) {
	t.Helper()
	all, err := c.market.Query(w.ctx, nostr.Filter{Tags: nostr.TagMap{"e": {seat.RequestID}}})
	check(t, err)
	closed := false
	for _, ev := range all {
		closed = closed || ev.Kind == kinds.Closing
		doc, err := json.Marshal(ev)
		check(t, err)
		for _, other := range p.Seats {
			if other.RequestID != seat.RequestID && (strings.Contains(string(doc), other.RequestID) || strings.Contains(string(doc), other.Provider)) {
				t.Errorf("kind %d about seat %s names seat %s", ev.Kind, seat.Provider, other.Provider)
			}
		}
		if p.Decision.Agreement != nil && strings.Contains(string(doc), p.Decision.Agreement.Hex()) {
			t.Errorf("kind %d tells the agreement hash", ev.Kind)
		}
	}
	if !closed {
		t.Error("no closing was looked at")
	}
}

// TestPanelOfOneIsRefused: a buyer cannot have the agreement hash for nothing by
// calling one seat a panel, nor by closing with fewer than could pay anybody.
func TestPanelOfOneIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.honest(t, 1)[0]
	c := w.customer(t, unhurried)
	ask := func(verification string) nostr.Event {
		return raw(t, c.key, 5050, "", nostr.Tag{"param", "schema", string(schemas.SandboxRun)},
			nostr.Tag{"i", string(order(verification)), "text"}, nostr.Tag{"bid", "90000"}, nostr.Tag{"p", r.key.PublicKey()},
			nostr.Tag{"param", "payment_mode", "postpay"}, nostr.Tag{"param", "delivery", "sealed"}, nostr.Tag{"param", "agreement", "commit"})
	}
	refused := func(want provider.Code, ev nostr.Event) bool {
		s := ev.Tags.Find("status")
		return s != nil && s[1] == "error" && strings.HasPrefix(s[2], string(want))
	}
	for _, verification := range []string{"", `,"verification":{"redundancy":1,"adjudication":"majority_vote"}`, `,"verification":{"redundancy":3}`} {
		req := ask(verification)
		check(t, c.market.Send(w.ctx, req))
		_, err := w.see(w.ctx, c.market, nostr.Filter{Kinds: []int{7000}, Tags: nostr.TagMap{"e": {req.ID}}},
			func(ev nostr.Event) bool { return refused(provider.CodeInvalidInput, ev) })
		check(t, err)
	}

	req := ask(`,"verification":{"redundancy":3,"adjudication":"majority_vote"}`)
	check(t, c.market.Send(w.ctx, req))
	result, err := w.see(w.ctx, c.market, nostr.Filter{Kinds: []int{6050}, Tags: nostr.TagMap{"e": {req.ID}}}, func(nostr.Event) bool { return true })
	check(t, err)
	own := receipts.PanelResult{Provider: r.key.PublicKey(), RequestID: req.ID, ResultID: result.ID}
	alone, err := receipts.Closing{Version: receipts.Version, Results: []receipts.PanelResult{own}}.Canonical()
	check(t, err)
	early := raw(t, c.key, kinds.Closing, string(alone), nostr.Tag{"e", req.ID}, nostr.Tag{"p", r.key.PublicKey()}, domain.Closing.Tag())
	check(t, c.market.Send(w.ctx, early))
	// A later ping is answered; the closing that came before it is not.
	check(t, c.market.Send(w.ctx, raw(t, c.key, 7007, "", nostr.Tag{"p", r.key.PublicKey()})))
	_, err = w.see(w.ctx, c.market, nostr.Filter{Kinds: []int{7000}, Authors: []string{r.key.PublicKey()}, Tags: nostr.TagMap{"p": {c.key.PublicKey()}}},
		func(ev nostr.Event) bool { s := ev.Tags.Find("status"); return s != nil && s[1] == "pong" })
	check(t, err)
	said, err := c.market.Query(w.ctx, nostr.Filter{Kinds: []int{7000}, Authors: []string{r.key.PublicKey()}, Tags: nostr.TagMap{"e": {req.ID}}})
	check(t, err)
	for _, ev := range said {
		if isReveal(ev) {
			t.Error("a closing of one result out of three seats is answered")
		}
	}
}
