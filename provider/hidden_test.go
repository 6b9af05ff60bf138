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

func (w *world) hidden(c *provider.Config) { c.Cipher = w.seller.key }

// TestHiddenJobs buys an encrypted job in each mode: both sides have everything,
// and what lies on relays and blob servers tells nobody else what it was.
func TestHiddenJobs(t *testing.T) {
	for i, mode := range append(allModes, receipts.ModeHold, receipts.ModePostpay) {
		delivery := []receipts.Delivery{receipts.DeliveryPlain, receipts.DeliverySealed}[i/len(allModes)]
		t.Run(string(mode)+" "+string(delivery), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.runner.do = func(_ context.Context, r provider.Run) (provider.Outcome, error) {
				r.OnStream("stdout", "one two")
				return w.runner.good(nil)
			}
			w.serve(t, w.hidden)
			c := w.customer(t, func(cfg *buyer.Config) { cfg.Cipher = nil })
			c.client = c.open(t, func(cfg *buyer.Config) { cfg.Cipher = c.key })
			p, err := c.client.Place(w.ctx, buyer.Order{
				Provider: w.seller.key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: order(""), MaxMsats: maxMsats,
				Mode: mode, Delivery: delivery, Encrypt: true,
			})
			check(t, err)
			p, err = w.follow(t, c, p.RequestID, nil).wait()
			if err != nil || p.State != buyer.StateDone || !p.Bound() {
				t.Fatalf("purchase %s (%s): %v", p.State, p.Reason, err)
			}
			job := w.await(t, p.RequestID, provider.StateSucceeded)
			if string(p.Output) != string(job.Result.Output) || p.ReceiptID != job.ReceiptID || (p.ReceiptID == "") != (mode == receipts.ModeFree) {
				t.Errorf("output %s, receipt %q, the provider's %q", p.Output, p.ReceiptID, job.ReceiptID)
			}
			w.tellsNothing(t, c, p)
			if mode == receipts.ModeFree {
				return
			}
			if job.Acceptance == nil {
				t.Error("the acceptance did not arrive")
			}
			w.gradesHidden(t, c, p)
			// What a stranger is shown of it, by disclosing this one job.
			d, err := buyer.DisputeOf(w.ctx, c.store, p)
			check(t, err)
			want := receipts.VerdictOpen
			if delivery == receipts.DeliverySealed {
				want = receipts.VerdictDelivered
			}
			if r := d.Rule(receipts.Pins{Provider: p.Provider, Buyer: c.key.PublicKey()}); r.Verdict != want {
				t.Errorf("ruling %+v", r)
			}
		})
	}
}

// tellsNothing reads all that is published about a purchase.
func (w *world) tellsNothing(t *testing.T, c *customer, p buyer.Purchase) {
	t.Helper()
	all, err := c.market.Query(w.ctx, nostr.Filter{Tags: nostr.TagMap{"e": {p.RequestID}}})
	check(t, err)
	own, err := c.market.Query(w.ctx, nostr.Filter{IDs: []string{p.RequestID}})
	check(t, err)
	kinds := map[int]bool{}
	for _, ev := range append(all, own...) {
		kinds[ev.Kind] = true
		doc, err := json.Marshal(ev)
		check(t, err)
		secrets := []string{"count", "one two", "sandbox", p.JobHash.Hex(), "status", "lnplay", "sha256:", "artifact"}
		if p.ReceiptID != "" {
			secrets = append(secrets, p.ReceiptID)
		}
		for _, secret := range secrets {
			if strings.Contains(string(doc), secret) {
				t.Errorf("kind %d tells %q: %s", ev.Kind, secret, doc)
			}
		}
	}
	for _, kind := range []int{5050, 7000, 6050} {
		if !kinds[kind] {
			t.Errorf("no kind %d was looked at", kind)
		}
	}
}

// gradesHidden: a stranger is told that job and result cannot be read, and that
// everything else is proved.
func (w *world) gradesHidden(t *testing.T, c *customer, p buyer.Purchase) {
	t.Helper()
	b, err := c.client.Bundle(w.ctx, p.RequestID)
	check(t, err)
	report := receipts.Verify(b, receipts.Pins{Network: payments.Play, Required: []string{receipts.ClaimBuyerAccepted}})
	if report.ExitCode() != receipts.ExitNotProvable {
		t.Errorf("exit code %d", report.ExitCode())
	}
	for _, claim := range report.Claims {
		open := claim.Name == receipts.ClaimJob || claim.Name == receipts.ClaimResult
		if open && claim.State != receipts.NotProvable || !open && claim.Required && claim.State != receipts.Proved {
			t.Errorf("%s is %s: %s", claim.Name, claim.State, claim.Reason)
		}
	}
}

// TestHiddenByOthers: what ordinary clients hide, by either scheme, is read and
// answered in the same.
func TestHiddenByOthers(t *testing.T) {
	w := newWorld(t)
	w.runner.do = func(context.Context, provider.Run) (provider.Outcome, error) {
		doc, err := json.Marshal(schemas.TextResult{Text: answer, Provenance: schemas.Provenance{ModelID: "m", ProviderPubkey: w.runner.key}})
		return provider.Outcome{Output: doc}, err
	}
	w.serve(t, func(cfg *provider.Config) {
		w.hidden(cfg)
		cfg.Offers = []provider.Offer{{SchemaID: string(schemas.TextGeneration), Modes: []receipts.Mode{receipts.ModeFree}}}
	})
	c := w.customer(t, nil)
	me := w.seller.key.PublicKey()
	tags := `[["i","Which fruit?","text"],["output","text/plain"]]`
	for name, scheme := range map[string]struct {
		hide, open func(context.Context, string, string) (string, error)
	}{
		"nip44": {c.key.NIP44Encrypt, c.key.NIP44Decrypt},
		"nip04": {c.key.NIP04Encrypt, c.key.NIP04Decrypt},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := scheme.hide(w.ctx, me, tags)
			check(t, err)
			ev := raw(t, c.key, 5050, content, nostr.Tag{"p", me}, nostr.Tag{"encrypted"})
			check(t, c.market.Send(w.ctx, ev))
			w.await(t, ev.ID, provider.StateSucceeded)
			heard := map[string]bool{}
			for !heard["processing"] || !heard["success"] || !heard[answer] {
				all, err := c.market.Query(w.ctx, nostr.Filter{Tags: nostr.TagMap{"e": {ev.ID}}})
				check(t, err)
				for _, got := range all {
					text, err := scheme.open(w.ctx, me, got.Content)
					check(t, err)
					var inside nostr.Tags
					if got.Kind == 7000 {
						check(t, json.Unmarshal([]byte(text), &inside))
						text = inside.Find("status")[1]
					}
					heard[text] = true
				}
				check(t, w.ctx.Err())
			}
		})
	}
	bad, err := c.key.NIP44Encrypt(w.ctx, me, "not tags")
	check(t, err)
	for name, content := range map[string]string{"no cipher": "secret", "no tags": bad, "line ends": strings.Repeat("\n", 132), "a vector alone": "?iv="} {
		ev := raw(t, c.key, 5050, content, nostr.Tag{"p", me}, nostr.Tag{"encrypted"})
		check(t, c.market.Send(w.ctx, ev))
		if job := w.await(t, ev.ID, provider.StateRefused); job.Reason.Code != provider.CodeUnsupportedEncryption && job.Reason.Code != provider.CodeInvalidInput {
			t.Errorf("%s: %s", name, job.Reason)
		}
	}
}
