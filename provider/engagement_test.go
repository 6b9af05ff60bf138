package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

const (
	attemptMsats = 4_000 // the engagement fee
	expects      = `,"verification":{"expected":{"exit_codes":[0]}}`
	unmetHopes   = `,"verification":{"expected":{"exit_codes":[3]}}`
)

// engaging makes a provider that asks a fee for attempts.
func engaging(cfg *provider.Config) { cfg.Offers[0].EngagementMsats = attemptMsats }

// engages makes a buyer that pays one.
func engages(cfg *buyer.Config) { cfg.MaxEngagementMsats = attemptMsats }

// listing is what such a provider announces.
func (w *world) listing(feeMsats int64) *buyer.Listing {
	schema := string(schemas.SandboxRun)
	return &buyer.Listing{
		Provider: w.seller.key.PublicKey(), Jobs: []string{schema}, Modes: map[string][]receipts.Mode{schema: allModes},
		Prices: map[string]receipts.Price{schema: {PerMinuteMsats: rateMsats, EngagementMsats: feeMsats}},
	}
}

func (w *world) engage(t *testing.T, c *customer, mode receipts.Mode, input string) buyer.Purchase {
	t.Helper()
	p, err := c.client.Place(w.ctx, buyer.Order{
		Provider: w.seller.key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: order(input), MaxMsats: maxMsats,
		Mode: mode, Announced: w.listing(attemptMsats),
	})
	check(t, err)
	return p
}

// graded verifies a bundle with everything pinned.
func (w *world) graded(t *testing.T, c *customer, b *receipts.Bundle, err error) receipts.Report {
	t.Helper()
	check(t, err)
	node, err := w.seller.wallet.Node(w.ctx)
	check(t, err)
	return receipts.Verify(b, receipts.Pins{
		Provider: w.seller.key.PublicKey(), Buyer: c.key.PublicKey(), Payee: node.PubKey, Network: payments.Play,
		Required: []string{receipts.ClaimBuyerAccepted, receipts.ClaimPayeePinned},
	})
}

// feeProved checks the receipt of the fee of a purchase, on both sides.
func (w *world) feeProved(t *testing.T, c *customer, p buyer.Purchase) {
	t.Helper()
	job := w.job(t, p.RequestID)
	if p.Engagement == nil || p.Engagement.ReceiptID == "" || p.Engagement.ReceiptID != job.Engagement.ReceiptID {
		t.Fatalf("the buyer's receipt of the fee is %+v, the provider's %q", p.Engagement, job.Engagement.ReceiptID)
	}
	b, err := buyer.EngagementBundleOf(w.ctx, c.store, p)
	r := w.graded(t, c, b, err)
	if r.ExitCode() != receipts.ExitProved || r.Purpose != receipts.PurposeEngagement || r.AmountMsats != attemptMsats || r.Mode != receipts.ModePrepay {
		t.Errorf("receipt of the fee: %s of %d msats: %+v", r.Purpose, r.AmountMsats, r.Claims)
	}
}

// both checks a purchase that was paid and receipted twice: for the attempt, and
// for the result, in one chain.
func (w *world) both(t *testing.T, c *customer, f *following) {
	t.Helper()
	p, err := f.wait()
	if err != nil || p.State != buyer.StateDone {
		t.Fatalf("purchase %s (%s): %v", p.State, p.Reason, err)
	}
	w.feeProved(t, c, p)
	b, err := c.client.Bundle(w.ctx, p.RequestID)
	r := w.graded(t, c, b, err)
	if r.ExitCode() != receipts.ExitProved || r.Purpose != receipts.PurposeResult || r.AmountMsats != rateMsats {
		t.Errorf("receipt of the result: %s of %d msats: %+v", r.Purpose, r.AmountMsats, r.Claims)
	}
	if chain := r.Claim(receipts.ClaimChain); chain.State != receipts.Proved || r.Sequence != 2 {
		t.Errorf("receipt %d: %+v", r.Sequence, chain)
	}
	w.moved(t, c.party, rateMsats+attemptMsats, rateMsats+attemptMsats+2*feeMsats)
	budget := w.budget(t, c.store)
	if budget.SpentMsats != rateMsats+attemptMsats+2*feeMsats || budget.ReservedMsats != 0 {
		t.Errorf("budget %+v", budget)
	}
}

// TestEngagementFee: two quotes, two payments and two receipts for one job.
func TestEngagementFee(t *testing.T) {
	requirements.Covers(t, "K-49")
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.serve(t, engaging)
			c := w.customer(t, engages)
			f := w.follow(t, c, w.engage(t, c, mode, expects).RequestID, nil)
			w.both(t, c, f)
			if purposes := w.asked(t, c, f.p.RequestID); len(purposes) != 2 || purposes[0] != receipts.PurposeEngagement || purposes[1] != receipts.PurposeResult {
				t.Errorf("asked to pay for %v", purposes)
			}
			if n := w.runner.count(); n != 1 {
				t.Errorf("%d runs", n)
			}
		})
	}
}

// TestHiddenEngagementFee: an encrypted job asks and pays its fee unseen.
func TestHiddenEngagementFee(t *testing.T) {
	w := newWorld(t)
	w.serve(t, func(cfg *provider.Config) { engaging(cfg); w.hidden(cfg) })
	c := w.customer(t, nil)
	c.client = c.open(t, func(cfg *buyer.Config) { engages(cfg); cfg.Cipher = c.key })
	p, err := c.client.Place(w.ctx, buyer.Order{
		Provider: w.seller.key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: order(expects), MaxMsats: maxMsats,
		Mode: receipts.ModePostpay, Announced: w.listing(attemptMsats), Encrypt: true,
	})
	check(t, err)
	p, err = w.follow(t, c, p.RequestID, nil).wait()
	if err != nil || p.Engagement == nil || p.Engagement.ReceiptID == "" {
		t.Fatalf("purchase %s (%s): %v", p.State, p.Reason, err)
	}
	w.moved(t, c.party, rateMsats+attemptMsats, rateMsats+attemptMsats+2*feeMsats)
	w.tellsNothing(t, c, p)
	b, err := buyer.EngagementBundleOf(w.ctx, c.store, p)
	if r := w.graded(t, c, b, err); r.Claim(receipts.ClaimInvoiceCommits).State != receipts.Proved {
		t.Errorf("what the provider asked for is not shown: %+v", r.Claim(receipts.ClaimInvoiceCommits))
	}
}

// TestFeeThatNobodySignedFor: an encrypted demand for a fee whose inside is not
// signed by itself would leave a receipt that shows nothing, so it is not paid.
func TestFeeThatNobodySignedFor(t *testing.T) {
	w := newWorld(t)
	c := w.customer(t, nil)
	c.client = c.open(t, func(cfg *buyer.Config) { engages(cfg); cfg.Cipher = c.key })
	node, err := w.seller.wallet.Node(w.ctx)
	check(t, err)
	for i, inside := range []func(id string, tags nostr.Tags, doc string) nostr.Tags{
		func(_ string, tags nostr.Tags, doc string) nostr.Tags { // in the envelope alone
			return append(tags, nostr.Tag{"content", doc})
		},
		func(id string, tags nostr.Tags, doc string) nostr.Tags { // for another buyer
			ev := raw(t, w.seller.key, 7000, doc, append(tags, nostr.Tag{"e", id}, nostr.Tag{"p", node.PubKey[2:]})...)
			return append(tags, nostr.Tag{"content", doc}, nostr.Tag{"lightwork", ev.String()})
		},
	} {
		p, err := c.client.Place(w.ctx, buyer.Order{
			Provider: w.seller.key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: order(expects), MaxMsats: maxMsats,
			Mode: receipts.ModePostpay, Announced: w.listing(attemptMsats), Encrypt: true,
		})
		check(t, err)
		preimage := payments.Preimage{1, byte(i)}
		hash := preimage.Hash().String()
		quote := receipts.Quote{
			Version: receipts.Version, RequestID: p.RequestID, JobHash: p.JobHash, SchemaID: p.SchemaID,
			Buyer: c.key.PublicKey(), Provider: w.seller.key.PublicKey(), PriceMsats: attemptMsats, Purpose: receipts.PurposeEngagement,
			ExpiresAt: receipts.Timestamp(time.Now().Add(10 * time.Minute)), Mode: receipts.ModePrepay, Delivery: receipts.DeliveryPlain,
			Cancellation: "none", PolicyBundleID: hashing.Bytes([]byte("policy")), Nonce: strings.Repeat("0", 32), PaymentHash: &hash, PayeeNode: &node.PubKey,
		}
		doc, err := quote.Canonical()
		check(t, err)
		inv, err := w.seller.wallet.CreateInvoice(w.ctx, payments.NewInvoice{
			PaymentHash: preimage.Hash(), Preimage: preimage, AmountMsats: attemptMsats, DescriptionHash: hashing.Bytes(doc), Expiry: 10 * time.Minute,
		})
		check(t, err)
		tags := inside(p.RequestID, nostr.Tags{{"status", "payment-required"}, {"amount", strconv.Itoa(attemptMsats), inv.BOLT11}, domain.Quote.Tag()}, string(doc))
		text, err := json.Marshal(tags)
		check(t, err)
		content, err := w.seller.key.NIP44Encrypt(w.ctx, c.key.PublicKey(), string(text))
		check(t, err)
		check(t, c.market.Send(w.ctx, raw(t, w.seller.key, 7000, content, nostr.Tag{"e", p.RequestID}, nostr.Tag{"p", c.key.PublicKey()}, nostr.Tag{"encrypted"}, domain.Encrypted.Tag())))
		w.follow(t, c, p.RequestID, nil).failed(t, buyer.CodeBadOffer)
	}
	w.moved(t, c.party, 0, 0)
}

// TestDisputeListsTheFee: both payments are shown, and what came for them.
func TestDisputeListsTheFee(t *testing.T) {
	w := newWorld(t)
	w.serve(t, engaging)
	c := w.customer(t, engages)
	p, err := w.follow(t, c, w.engage(t, c, receipts.ModeHold, expects).RequestID, nil).wait()
	check(t, err)
	d, err := buyer.DisputeOf(w.ctx, c.store, p)
	check(t, err)
	if r := d.Rule(receipts.Pins{}); r.Verdict != receipts.VerdictDelivered || r.EngagementMsats != attemptMsats || r.AmountMsats != rateMsats {
		t.Errorf("ruling %+v", r)
	}
	mismatch := w.follow(t, c, w.engage(t, c, receipts.ModePostpay, unmetHopes).RequestID, nil).failed(t, provider.CodeExpectationNotMet)
	d, err = buyer.DisputeOf(w.ctx, c.store, mismatch)
	check(t, err)
	if r := d.Rule(receipts.Pins{}); r.Verdict != receipts.VerdictNoResult || r.AmountMsats != attemptMsats {
		t.Errorf("ruling %+v", r)
	}
}

// asked lists what the purposes were that payment was required for, in order.
func (w *world) asked(t *testing.T, c *customer, id string) (list []receipts.Purpose) {
	t.Helper()
	events, err := c.store.Feedback(w.ctx, id)
	check(t, err)
	for _, raw := range events {
		var ev nostr.Event
		check(t, json.Unmarshal(raw, &ev))
		if s := ev.Tags.Find("status"); s != nil && s[1] == "payment-required" {
			q, err := receipts.ParseQuote([]byte(ev.Content))
			check(t, err)
			list = append(list, q.Purpose)
		}
	}
	return list
}

// TestEngagementFeeStays: a result that is not the expected one is not paid for,
// and the attempt is.
func TestEngagementFeeStays(t *testing.T) {
	requirements.Covers(t, "K-47", "OA-3.6")
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.serve(t, engaging)
			c := w.customer(t, engages)
			p := w.follow(t, c, w.engage(t, c, mode, unmetHopes).RequestID, nil).failed(t, provider.CodeExpectationNotMet)
			w.feeProved(t, c, p)
			toSeller, fromCustomer := int64(attemptMsats), int64(attemptMsats+feeMsats)
			if mode == receipts.ModePrepay { // the price is owed, as ever
				toSeller, fromCustomer = toSeller+rateMsats, fromCustomer+rateMsats+feeMsats
				if d := w.debt(t, p.RequestID); d.Msats != rateMsats {
					t.Errorf("%d msats are owed", d.Msats)
				}
			}
			w.moved(t, c.party, toSeller, fromCustomer)
			if !strings.Contains(w.told(t, c, p.RequestID), "the engagement fee of 4000 msats stays paid") {
				t.Errorf("told %q", w.told(t, c, p.RequestID))
			}
		})
	}
}

// TestEngagementFeeIsOwed: no attempt, or one that the provider itself spoiled.
func TestEngagementFeeIsOwed(t *testing.T) {
	for name, story := range map[string]func(t *testing.T, w *world, c *customer) string{
		"the agent fails": func(t *testing.T, w *world, c *customer) string {
			w.failing()
			w.serve(t, engaging)
			return w.follow(t, c, w.engage(t, c, receipts.ModeHold, expects).RequestID, nil).failed(t, provider.CodeAgentFailed).RequestID
		},
		"canceled once the fee is paid": func(t *testing.T, w *world, c *customer) string {
			w.serve(t, engaging)
			c.client = c.open(t, func(cfg *buyer.Config) {
				engages(cfg)
				cfg.Approvals = []buyer.ApprovalRule{{ID: "fees", UpToMsats: attemptMsats + feeMsats, Do: buyer.Approve}}
			})
			p := w.engage(t, c, receipts.ModeHold, expects)
			if _, err := w.follow(t, c, p.RequestID, nil).wait(); !errors.Is(err, buyer.ErrFailed) {
				t.Fatal(err)
			}
			check(t, c.market.Send(w.ctx, raw(t, c.key, 5, "", nostr.Tag{"e", p.RequestID}, nostr.Tag{"k", "5050"}, nostr.Tag{"p", p.Provider})))
			return p.RequestID
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.customer(t, engages)
			id := story(t, w, c)
			w.await(t, id, provider.StateFailed, provider.StateCanceled)
			if d := w.debt(t, id); d.Msats != attemptMsats || d.CreditMsats != attemptMsats {
				t.Errorf("debt %+v", d)
			}
			w.moved(t, c.party, attemptMsats, attemptMsats+feeMsats)
			check(t, w.credited(t, c))
		})
	}
}

// credited buys again: the fee that is owed lowers the price.
func (w *world) credited(t *testing.T, c *customer) error {
	t.Helper()
	w.runner.do = nil
	c.client = c.open(t, engages)
	p, err := w.follow(t, c, w.place(t, c, receipts.ModeHold, order("")).RequestID, nil).wait()
	if err == nil && p.Attempt.AmountMsats != rateMsats-attemptMsats {
		t.Errorf("the next job costs %d msats", p.Attempt.AmountMsats)
	}
	return err
}

// TestNoEngagementFee: jobs that are charged whatever comes of them ask none.
func TestNoEngagementFee(t *testing.T) {
	w := newWorld(t)
	w.serve(t, engaging)
	c := w.customer(t, engages)
	w.sold(t, c, w.follow(t, c, w.engage(t, c, receipts.ModeHold, "").RequestID, nil), receipts.ModeHold)
}

// steps is a provider's store that ends the provider's life after one step.
type steps struct {
	*watched
	at   string
	once sync.Once
}

func (s *steps) done(step string, err error) error {
	if err == nil && s.at == step {
		s.once.Do(s.end)
	}
	return err
}

func (s *steps) SetEngagementInvoice(ctx context.Context, id, bolt11 string, out ...provider.OutEvent) error {
	return s.done("invoice", s.watched.SetEngagementInvoice(ctx, id, bolt11, out...))
}

func (s *steps) SetEngagementAcceptance(ctx context.Context, id string, event []byte) error {
	return s.done("acceptance", s.watched.SetEngagementAcceptance(ctx, id, event))
}

func (s *steps) SettleEngagement(ctx context.Context, id string, p provider.Payment, issue func(provider.Issue) (provider.Issued, error)) error {
	if s.at == "before the fee is recorded" {
		s.once.Do(s.end)
		return context.Canceled
	}
	return s.done("settled", s.watched.SettleEngagement(ctx, id, p, issue))
}

func (s *steps) SetInvoice(ctx context.Context, id, bolt11 string, chosen payments.Hash, out ...provider.OutEvent) error {
	return s.done("invoice of the result", s.watched.SetInvoice(ctx, id, bolt11, chosen, out...))
}

func (s *steps) AddJob(ctx context.Context, j provider.Job) error {
	return s.done("quoted", s.watched.AddJob(ctx, j))
}

// TestEngagedProviderStopsAndGoesOn: wherever it dies, the fee is asked once,
// paid once and receipted once.
func TestEngagedProviderStopsAndGoesOn(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePostpay} {
		for _, at := range []string{"quoted", "invoice", "acceptance", "before the fee is recorded", "settled", "invoice of the result", "running", "delivering"} {
			t.Run(string(mode)+"/"+at, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.runner.do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
					if ctx.Err() != nil {
						return provider.Outcome{}, ctx.Err()
					}
					return w.runner.good(nil)
				}
				switch at {
				case "running":
					w.store.stopWhen(provider.StateRunning)
				case "delivering":
					w.store.stopWhen(provider.StateDelivering)
				}
				dying := &steps{watched: w.store, at: at}
				w.serve(t, func(cfg *provider.Config) { engaging(cfg); cfg.Store = dying })
				c := w.customer(t, engages)
				f := w.follow(t, c, w.engage(t, c, mode, expects).RequestID, nil)
				<-w.store.lifeOver()
				w.serve(t, engaging)
				w.both(t, c, f)
			})
		}
	}
}

// feeSteps is a buyer's store that stops its user after a step of the fee.
type feeSteps struct {
	interrupted
}

func (i *feeSteps) SetEngagementReceipt(ctx context.Context, id, receiptID string, event []byte) error {
	return i.done("SetEngagementReceipt", i.Store.SetEngagementReceipt(ctx, id, receiptID, event))
}

// TestEngagedBuyerStopsAndGoesOn: likewise on the other side.
func TestEngagedBuyerStopsAndGoesOn(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePostpay} {
		for _, at := range []string{"Reserve", "SendPayment", "Paid", "SetEngagementReceipt", "SetResult"} {
			t.Run(string(mode)+"/"+at, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.serve(t, engaging)
				c := w.customer(t, engages)
				next := c.client
				ctx, stop := context.WithCancel(w.ctx)
				i := &feeSteps{interrupted{Store: c.store, at: at, stop: stop}}
				c.client = c.open(t, func(cfg *buyer.Config) {
					engages(cfg)
					cfg.Store, cfg.Wallet = i, &gated{Client: c.wallet, afterSend: func() { _ = i.done("SendPayment", nil) }}
				})
				p := w.engage(t, c, mode, expects)
				if _, err := c.client.Follow(ctx, p.RequestID, nil); !errors.Is(err, context.Canceled) {
					t.Fatalf("following was not interrupted: %v", err)
				}
				c.client = next
				w.both(t, c, w.follow(t, c, p.RequestID, nil))
			})
		}
	}
}
