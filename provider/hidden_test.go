package provider_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestHiddenJobs buys an encrypted job in each mode: both sides have everything,
// and what lies on relays and blob servers tells nobody else what it was.
func TestHiddenJobs(t *testing.T) {
	for i, mode := range append(markettest.AllModes, receipts.ModeHold, receipts.ModePostpay) {
		delivery := []receipts.Delivery{receipts.DeliveryPlain, receipts.DeliverySealed}[i/len(markettest.AllModes)]
		t.Run(string(mode)+" "+string(delivery), func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			w.Runner.Do = func(_ context.Context, r provider.Run) (provider.Outcome, error) {
				r.OnStream("stdout", "one two")
				return w.Runner.Good(nil)
			}
			w.Serve(t, w.ReadsHidden)
			c := w.NewCustomer(t, func(cfg *buyer.Config) { cfg.Cipher = nil })
			c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Cipher = c.Key })
			p, err := c.Client.Place(w.Ctx, buyer.Order{
				Provider: w.Seller.Key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), MaxMsats: markettest.MaxMsats,
				Mode: mode, Delivery: delivery, Encrypt: true,
			})
			markettest.Check(t, err)
			p, err = w.Follow(t, c, p.RequestID, nil).Wait()
			if err != nil || p.State != buyer.StateDone || !p.Bound() {
				t.Fatalf("purchase %s (%s): %v", p.State, p.Reason, err)
			}
			job := w.Await(t, p.RequestID, provider.StateSucceeded)
			if string(p.Output) != string(job.Result.Output) || p.ReceiptID != job.ReceiptID || (p.ReceiptID == "") != (mode == receipts.ModeFree) {
				t.Errorf("output %s, receipt %q, the provider's %q", p.Output, p.ReceiptID, job.ReceiptID)
			}
			w.TellsNothing(t, c, p)
			if mode == receipts.ModeFree {
				return
			}
			if job.Acceptance == nil {
				t.Error("the acceptance did not arrive")
			}
			w.GradesHidden(t, c, p)
			// What a stranger is shown of it, by disclosing this one job.
			d, err := buyer.DisputeOf(w.Ctx, c.Store, p)
			markettest.Check(t, err)
			want := receipts.VerdictOpen
			if delivery == receipts.DeliverySealed {
				want = receipts.VerdictDelivered
			}
			if r := d.Rule(receipts.Pins{Provider: p.Provider, Buyer: c.Key.PublicKey()}); r.Verdict != want {
				t.Errorf("ruling %+v", r)
			}
		})
	}
}

// TestHiddenByOthers: what ordinary clients hide, by either scheme, is read and
// answered in the same.
func TestHiddenByOthers(t *testing.T) {
	w := markettest.New(t)
	w.Runner.Do = func(context.Context, provider.Run) (provider.Outcome, error) {
		doc, err := json.Marshal(schemas.TextResult{Text: markettest.Answer, Provenance: schemas.Provenance{ModelID: "m", ProviderPubkey: w.Runner.Key}})
		return provider.Outcome{Output: doc}, err
	}
	w.Serve(t, func(cfg *provider.Config) {
		w.ReadsHidden(cfg)
		cfg.Offers = []provider.Offer{{SchemaID: string(schemas.TextGeneration), Modes: []receipts.Mode{receipts.ModeFree}}}
	})
	c := w.NewCustomer(t, nil)
	me := w.Seller.Key.PublicKey()
	tags := `[["i","Which fruit?","text"],["output","text/plain"]]`
	for name, scheme := range map[string]struct {
		hide, open func(context.Context, string, string) (string, error)
	}{
		"nip44": {c.Key.NIP44Encrypt, c.Key.NIP44Decrypt},
		"nip04": {c.Key.NIP04Encrypt, c.Key.NIP04Decrypt},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := scheme.hide(w.Ctx, me, tags)
			markettest.Check(t, err)
			ev := markettest.SignedEvent(t, c.Key, 5050, content, nostr.Tag{"p", me}, nostr.Tag{"encrypted"})
			markettest.Check(t, c.Market.Send(w.Ctx, ev))
			w.Await(t, ev.ID, provider.StateSucceeded)
			heard := map[string]bool{}
			for !heard["processing"] || !heard["success"] || !heard[markettest.Answer] {
				all, err := c.Market.Query(w.Ctx, nostr.Filter{Tags: nostr.TagMap{"e": {ev.ID}}})
				markettest.Check(t, err)
				for _, got := range all {
					text, err := scheme.open(w.Ctx, me, got.Content)
					markettest.Check(t, err)
					var inside nostr.Tags
					if got.Kind == 7000 {
						markettest.Check(t, json.Unmarshal([]byte(text), &inside))
						text = inside.Find("status")[1]
					}
					heard[text] = true
				}
				markettest.Check(t, w.Ctx.Err())
			}
		})
	}
	bad, err := c.Key.NIP44Encrypt(w.Ctx, me, "not tags")
	markettest.Check(t, err)
	for name, content := range map[string]string{"no cipher": "secret", "no tags": bad, "line ends": strings.Repeat("\n", 132), "a vector alone": "?iv="} {
		ev := markettest.SignedEvent(t, c.Key, 5050, content, nostr.Tag{"p", me}, nostr.Tag{"encrypted"})
		markettest.Check(t, c.Market.Send(w.Ctx, ev))
		if job := w.Await(t, ev.ID, provider.StateRefused); job.Reason.Code != provider.CodeUnsupportedEncryption && job.Reason.Code != provider.CodeInvalidInput {
			t.Errorf("%s: %s", name, job.Reason)
		}
	}
}
