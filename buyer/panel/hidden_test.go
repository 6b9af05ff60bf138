package panel_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// encrypts is a panel's buyer that can hide requests.
func encrypts(t *testing.T, c *markettest.Customer) *markettest.Customer {
	t.Helper()
	c.Client = c.Open(t, func(cfg *buyer.Config) {
		markettest.Unhurried(cfg)
		cfg.Cipher = c.Key
	})
	return c
}

func hiddenPanel(t *testing.T, w *markettest.World, c *markettest.Customer, rivals ...*markettest.Rival) panel.Panel {
	t.Helper()
	p, err := c.Panels(t).Place(w.Ctx, panel.Order{
		SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), Members: membersOf(rivals...), Rule: panel.RuleMajority, Encrypt: true,
		MaxMsats: int64(len(rivals)) * (markettest.RateMsats + 10), CommitTimeout: markettest.Slow,
	})
	markettest.Check(t, err)
	return p
}

// TestHiddenPanel: a vote on an encrypted job pays as one in the clear does, and
// tells strangers neither the job, nor the answer, nor who voted with whom.
func TestHiddenPanel(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	rivals := w.Honest(t, 2)
	liar := w.NewRival(t, "liar")
	liar.Runner.Do = rubbish(liar.Runner)
	w.Open(t, liar, nil)
	c := encrypts(t, w.NewCustomer(t, markettest.Unhurried))
	p := hiddenPanel(t, w, c, liar, rivals[0], rivals[1])
	p, err := c.Panels(t).Follow(w.Ctx, p.ID, nil)
	markettest.Check(t, err)
	if p.Decision.Outcome != panel.OutcomeAgreed || p.Members[0].Ruling.Taken || w.Earned(t, liar) != 0 {
		t.Errorf("decision %+v, the liar earned %d msats", p.Decision, w.Earned(t, liar))
	}
	if result, err := c.Panels(t).Result(w.Ctx, p); err != nil || result.Output == nil || result.ReceiptID == "" {
		t.Errorf("result %s, %v", result.Output, err)
	}
	for _, seat := range p.Members {
		bought, err := c.Store.Purchase(w.Ctx, seat.RequestID)
		markettest.Check(t, err)
		namesNoOther(t, w, c, p, seat)
		if seat.Ruling.Taken { // of the other its cancellation has deleted the request
			w.TellsNothing(t, c, bought)
			w.GradesHidden(t, c, bought)
		}
	}
	w.SettledUp(t, c, 2*(markettest.RateMsats+markettest.FeeMsats))
}

// namesNoOther: nothing that is published about a seat names another, nor what
// was revealed.
func namesNoOther(t *testing.T, w *markettest.World, c *markettest.Customer, p panel.Panel, seat panel.Member) {
	t.Helper()
	all, err := c.Market.Query(w.Ctx, nostr.Filter{Tags: nostr.TagMap{"e": {seat.RequestID}}})
	markettest.Check(t, err)
	closed := false
	for _, ev := range all {
		closed = closed || ev.Kind == kinds.Closing
		doc, err := json.Marshal(ev)
		markettest.Check(t, err)
		for _, other := range p.Members {
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
	w := markettest.New(t)
	r := w.Honest(t, 1)[0]
	c := w.NewCustomer(t, markettest.Unhurried)
	ask := func(verification string) nostr.Event {
		return markettest.SignedEvent(t, c.Key, 5050, "", nostr.Tag{"param", "schema", string(schemas.SandboxRun)},
			nostr.Tag{"i", string(markettest.SandboxInput(verification)), "text"}, nostr.Tag{"bid", "90000"}, nostr.Tag{"p", r.Key.PublicKey()},
			nostr.Tag{"param", "payment_mode", "postpay"}, nostr.Tag{"param", "delivery", "sealed"}, nostr.Tag{"param", "agreement", "commit"})
	}
	refused := func(want provider.Code, ev nostr.Event) bool {
		s := ev.Tags.Find("status")
		return s != nil && s[1] == "error" && strings.HasPrefix(s[2], string(want))
	}
	for _, verification := range []string{"", `,"verification":{"redundancy":1,"adjudication":"majority_vote"}`, `,"verification":{"redundancy":3}`} {
		req := ask(verification)
		markettest.Check(t, c.Market.Send(w.Ctx, req))
		_, err := w.See(w.Ctx, c.Market, nostr.Filter{Kinds: []int{7000}, Tags: nostr.TagMap{"e": {req.ID}}},
			func(ev nostr.Event) bool { return refused(provider.CodeInvalidInput, ev) })
		markettest.Check(t, err)
	}

	req := ask(`,"verification":{"redundancy":3,"adjudication":"majority_vote"}`)
	markettest.Check(t, c.Market.Send(w.Ctx, req))
	result, err := w.See(w.Ctx, c.Market, nostr.Filter{Kinds: []int{6050}, Tags: nostr.TagMap{"e": {req.ID}}}, func(nostr.Event) bool { return true })
	markettest.Check(t, err)
	own := receipts.PanelResult{Provider: r.Key.PublicKey(), RequestID: req.ID, ResultID: result.ID}
	alone, err := receipts.Closing{Version: receipts.Version, Results: []receipts.PanelResult{own}}.Canonical()
	markettest.Check(t, err)
	early := markettest.SignedEvent(t, c.Key, kinds.Closing, string(alone), nostr.Tag{"e", req.ID}, nostr.Tag{"p", r.Key.PublicKey()}, domain.Closing.Tag())
	markettest.Check(t, c.Market.Send(w.Ctx, early))
	// A later ping is answered; the closing that came before it is not.
	markettest.Check(t, c.Market.Send(w.Ctx, markettest.SignedEvent(t, c.Key, 7007, "", nostr.Tag{"p", r.Key.PublicKey()})))
	_, err = w.See(w.Ctx, c.Market, nostr.Filter{Kinds: []int{7000}, Authors: []string{r.Key.PublicKey()}, Tags: nostr.TagMap{"p": {c.Key.PublicKey()}}},
		func(ev nostr.Event) bool { s := ev.Tags.Find("status"); return s != nil && s[1] == "pong" })
	markettest.Check(t, err)
	said, err := c.Market.Query(w.Ctx, nostr.Filter{Kinds: []int{7000}, Authors: []string{r.Key.PublicKey()}, Tags: nostr.TagMap{"e": {req.ID}}})
	markettest.Check(t, err)
	for _, ev := range said {
		if isReveal(ev) {
			t.Error("a closing of one result out of three seats is answered")
		}
	}
}
