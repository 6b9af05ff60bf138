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
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestEngagementFee: two quotes, two payments and two receipts for one job.
func TestEngagementFee(t *testing.T) {
	requirements.Covers(t, "K-49")
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			w.Serve(t, markettest.Engaging)
			c := w.NewCustomer(t, markettest.Engages)
			f := w.Follow(t, c, w.Engage(t, c, mode, markettest.Expects).RequestID, nil)
			w.FeeAndResultProved(t, c, f)
			if purposes := asked(t, w, c, f.P.RequestID); len(purposes) != 2 || purposes[0] != receipts.PurposeEngagement || purposes[1] != receipts.PurposeResult {
				t.Errorf("asked to pay for %v", purposes)
			}
			if n := w.Runner.Count(); n != 1 {
				t.Errorf("%d runs", n)
			}
		})
	}
}

// TestHiddenEngagementFee: an encrypted job asks and pays its fee unseen.
func TestHiddenEngagementFee(t *testing.T) {
	w := markettest.New(t)
	w.Serve(t, func(cfg *provider.Config) { markettest.Engaging(cfg); w.ReadsHidden(cfg) })
	c := w.NewCustomer(t, nil)
	c.Client = c.Open(t, func(cfg *buyer.Config) { markettest.Engages(cfg); cfg.Cipher = c.Key })
	p, err := c.Client.Place(w.Ctx, buyer.Order{
		Provider: w.Seller.Key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(markettest.Expects), MaxMsats: markettest.MaxMsats,
		Mode: receipts.ModePostpay, Announced: w.Listing(markettest.AttemptMsats), Encrypt: true,
	})
	markettest.Check(t, err)
	p, err = w.Follow(t, c, p.RequestID, nil).Wait()
	if err != nil || p.Engagement == nil || p.Engagement.ReceiptID == "" {
		t.Fatalf("purchase %s (%s): %v", p.State, p.Reason, err)
	}
	w.Moved(t, c.Party, markettest.RateMsats+markettest.AttemptMsats, markettest.RateMsats+markettest.AttemptMsats+2*markettest.FeeMsats)
	w.TellsNothing(t, c, p)
	b, err := buyer.EngagementBundleOf(w.Ctx, c.Store, p)
	if r := w.Verify(t, c, b, err); r.Claim(receipts.ClaimInvoiceCommits).State != receipts.Proved {
		t.Errorf("what the provider asked for is not shown: %+v", r.Claim(receipts.ClaimInvoiceCommits))
	}
}

// TestFeeThatNobodySignedFor: an encrypted demand for a fee whose inside is not
// signed by itself would leave a receipt that shows nothing, so it is not paid.
func TestFeeThatNobodySignedFor(t *testing.T) {
	w := markettest.New(t)
	c := w.NewCustomer(t, nil)
	c.Client = c.Open(t, func(cfg *buyer.Config) { markettest.Engages(cfg); cfg.Cipher = c.Key })
	node, err := w.Seller.Wallet.Node(w.Ctx)
	markettest.Check(t, err)
	for i, inside := range []func(id string, tags nostr.Tags, doc string) nostr.Tags{
		func(_ string, tags nostr.Tags, doc string) nostr.Tags { // in the envelope alone
			return append(tags, nostr.Tag{"content", doc})
		},
		func(id string, tags nostr.Tags, doc string) nostr.Tags { // for another buyer
			ev := markettest.SignedEvent(t, w.Seller.Key, 7000, doc, append(tags, nostr.Tag{"e", id}, nostr.Tag{"p", node.PubKey[2:]})...)
			return append(tags, nostr.Tag{"content", doc}, nostr.Tag{"lightwork", ev.String()})
		},
	} {
		p, err := c.Client.Place(w.Ctx, buyer.Order{
			Provider: w.Seller.Key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(markettest.Expects), MaxMsats: markettest.MaxMsats,
			Mode: receipts.ModePostpay, Announced: w.Listing(markettest.AttemptMsats), Encrypt: true,
		})
		markettest.Check(t, err)
		preimage := payments.Preimage{1, byte(i)}
		hash := preimage.Hash().String()
		quote := receipts.Quote{
			Version: receipts.Version, RequestID: p.RequestID, JobHash: p.JobHash, SchemaID: p.SchemaID,
			Buyer: c.Key.PublicKey(), Provider: w.Seller.Key.PublicKey(), PriceMsats: markettest.AttemptMsats, Purpose: receipts.PurposeEngagement,
			ExpiresAt: receipts.Timestamp(time.Now().Add(10 * time.Minute)), Mode: receipts.ModePrepay, Delivery: receipts.DeliveryPlain,
			Cancellation: "none", PolicyBundleID: hashing.Bytes([]byte("policy")), Nonce: strings.Repeat("0", 32), PaymentHash: &hash, PayeeNode: &node.PubKey,
		}
		doc, err := quote.Canonical()
		markettest.Check(t, err)
		inv, err := w.Seller.Wallet.CreateInvoice(w.Ctx, payments.NewInvoice{
			PaymentHash: preimage.Hash(), Preimage: preimage, AmountMsats: markettest.AttemptMsats, DescriptionHash: hashing.Bytes(doc), Expiry: 10 * time.Minute,
		})
		markettest.Check(t, err)
		tags := inside(p.RequestID, nostr.Tags{{"status", "payment-required"}, {"amount", strconv.Itoa(markettest.AttemptMsats), inv.BOLT11}, domain.Quote.Tag()}, string(doc))
		text, err := json.Marshal(tags)
		markettest.Check(t, err)
		content, err := w.Seller.Key.NIP44Encrypt(w.Ctx, c.Key.PublicKey(), string(text))
		markettest.Check(t, err)
		markettest.Check(t, c.Market.Send(w.Ctx, markettest.SignedEvent(t, w.Seller.Key, 7000, content, nostr.Tag{"e", p.RequestID}, nostr.Tag{"p", c.Key.PublicKey()}, nostr.Tag{"encrypted"}, domain.Encrypted.Tag())))
		w.Follow(t, c, p.RequestID, nil).Failed(t, buyer.CodeBadOffer)
	}
	w.Moved(t, c.Party, 0, 0)
}

// TestDisputeListsTheFee: both payments are shown, and what came for them.
func TestDisputeListsTheFee(t *testing.T) {
	w := markettest.New(t)
	w.Serve(t, markettest.Engaging)
	c := w.NewCustomer(t, markettest.Engages)
	p, err := w.Follow(t, c, w.Engage(t, c, receipts.ModeHold, markettest.Expects).RequestID, nil).Wait()
	markettest.Check(t, err)
	d, err := buyer.DisputeOf(w.Ctx, c.Store, p)
	markettest.Check(t, err)
	if r := d.Rule(receipts.Pins{}); r.Verdict != receipts.VerdictDelivered || r.EngagementMsats != markettest.AttemptMsats || r.AmountMsats != markettest.RateMsats {
		t.Errorf("ruling %+v", r)
	}
	mismatch := w.Follow(t, c, w.Engage(t, c, receipts.ModePostpay, markettest.UnmetHopes).RequestID, nil).Failed(t, provider.CodeExpectationNotMet)
	d, err = buyer.DisputeOf(w.Ctx, c.Store, mismatch)
	markettest.Check(t, err)
	if r := d.Rule(receipts.Pins{}); r.Verdict != receipts.VerdictNoResult || r.AmountMsats != markettest.AttemptMsats {
		t.Errorf("ruling %+v", r)
	}
}

// asked lists what the purposes were that payment was required for, in order.
func asked(t *testing.T, w *markettest.World, c *markettest.Customer, id string) (list []receipts.Purpose) {
	t.Helper()
	events, err := c.Store.Feedback(w.Ctx, id)
	markettest.Check(t, err)
	for _, raw := range events {
		var ev nostr.Event
		markettest.Check(t, json.Unmarshal(raw, &ev))
		if s := ev.Tags.Find("status"); s != nil && s[1] == "payment-required" {
			q, err := receipts.ParseQuote([]byte(ev.Content))
			markettest.Check(t, err)
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
			w := markettest.New(t)
			w.Serve(t, markettest.Engaging)
			c := w.NewCustomer(t, markettest.Engages)
			p := w.Follow(t, c, w.Engage(t, c, mode, markettest.UnmetHopes).RequestID, nil).Failed(t, provider.CodeExpectationNotMet)
			w.FeeProved(t, c, p)
			toSeller, fromCustomer := int64(markettest.AttemptMsats), int64(markettest.AttemptMsats+markettest.FeeMsats)
			if mode == receipts.ModePrepay { // the price is owed, as ever
				toSeller, fromCustomer = toSeller+markettest.RateMsats, fromCustomer+markettest.RateMsats+markettest.FeeMsats
				if d := w.Debt(t, p.RequestID); d.Msats != markettest.RateMsats {
					t.Errorf("%d msats are owed", d.Msats)
				}
			}
			w.Moved(t, c.Party, toSeller, fromCustomer)
			if !strings.Contains(w.Told(t, c, p.RequestID), "the engagement fee of 4000 msats stays paid") {
				t.Errorf("told %q", w.Told(t, c, p.RequestID))
			}
		})
	}
}

// TestEngagementFeeIsOwed: no attempt, or one that the provider itself spoiled.
func TestEngagementFeeIsOwed(t *testing.T) {
	for name, story := range map[string]func(t *testing.T, w *markettest.World, c *markettest.Customer) string{
		"the agent fails": func(t *testing.T, w *markettest.World, c *markettest.Customer) string {
			w.Failing()
			w.Serve(t, markettest.Engaging)
			return w.Follow(t, c, w.Engage(t, c, receipts.ModeHold, markettest.Expects).RequestID, nil).Failed(t, provider.CodeAgentFailed).RequestID
		},
		"canceled once the fee is paid": func(t *testing.T, w *markettest.World, c *markettest.Customer) string {
			w.Serve(t, markettest.Engaging)
			c.Client = c.Open(t, func(cfg *buyer.Config) {
				markettest.Engages(cfg)
				cfg.Approvals = []buyer.ApprovalRule{{ID: "fees", UpToMsats: markettest.AttemptMsats + markettest.FeeMsats, Do: buyer.Approve}}
			})
			p := w.Engage(t, c, receipts.ModeHold, markettest.Expects)
			if _, err := w.Follow(t, c, p.RequestID, nil).Wait(); !errors.Is(err, buyer.ErrFailed) {
				t.Fatal(err)
			}
			markettest.Check(t, c.Market.Send(w.Ctx, markettest.SignedEvent(t, c.Key, 5, "", nostr.Tag{"e", p.RequestID}, nostr.Tag{"k", "5050"}, nostr.Tag{"p", p.Provider})))
			return p.RequestID
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			c := w.NewCustomer(t, markettest.Engages)
			id := story(t, w, c)
			w.Await(t, id, provider.StateFailed, provider.StateCanceled)
			if d := w.Debt(t, id); d.Msats != markettest.AttemptMsats || d.CreditMsats != markettest.AttemptMsats {
				t.Errorf("debt %+v", d)
			}
			w.Moved(t, c.Party, markettest.AttemptMsats, markettest.AttemptMsats+markettest.FeeMsats)
			markettest.Check(t, credited(t, w, c))
		})
	}
}

// credited buys again: the fee that is owed lowers the price.
func credited(t *testing.T, w *markettest.World, c *markettest.Customer) error {
	t.Helper()
	w.Runner.Do = nil
	c.Client = c.Open(t, markettest.Engages)
	p, err := w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil).Wait()
	if err == nil && p.Attempt.AmountMsats != markettest.RateMsats-markettest.AttemptMsats {
		t.Errorf("the next job costs %d msats", p.Attempt.AmountMsats)
	}
	return err
}

// TestNoEngagementFee: jobs that are charged whatever comes of them ask none.
func TestNoEngagementFee(t *testing.T) {
	w := markettest.New(t)
	w.Serve(t, markettest.Engaging)
	c := w.NewCustomer(t, markettest.Engages)
	w.Sold(t, c, w.Follow(t, c, w.Engage(t, c, receipts.ModeHold, "").RequestID, nil), receipts.ModeHold)
}

// steps is a provider's store that ends the provider's life after one step.
type steps struct {
	*markettest.JobStore
	at   string
	once sync.Once
}

func (s *steps) done(step string, err error) error {
	if err == nil && s.at == step {
		s.once.Do(s.EndLife)
	}
	return err
}

func (s *steps) SetInvoice(ctx context.Context, id string, purpose receipts.Purpose, bolt11 string, chosen payments.Hash, out ...provider.OutEvent) error {
	step := "invoice of the result"
	if purpose == receipts.PurposeEngagement {
		step = "invoice"
	}
	return s.done(step, s.JobStore.SetInvoice(ctx, id, purpose, bolt11, chosen, out...))
}

func (s *steps) SetAcceptance(ctx context.Context, id string, purpose receipts.Purpose, event []byte) error {
	err := s.JobStore.SetAcceptance(ctx, id, purpose, event)
	if purpose != receipts.PurposeEngagement {
		return err
	}
	return s.done("acceptance", err)
}

func (s *steps) Settle(ctx context.Context, id string, purpose receipts.Purpose, p provider.Payment, issue func(provider.Issue) (provider.Issued, error)) error {
	if purpose != receipts.PurposeEngagement {
		return s.JobStore.Settle(ctx, id, purpose, p, issue)
	}
	if s.at == "before the fee is recorded" {
		s.once.Do(s.EndLife)
		return context.Canceled
	}
	return s.done("settled", s.JobStore.Settle(ctx, id, purpose, p, issue))
}

func (s *steps) AddJob(ctx context.Context, j provider.Job) error {
	return s.done("quoted", s.JobStore.AddJob(ctx, j))
}

// TestEngagedProviderStopsAndGoesOn: wherever it dies, the fee is asked once,
// paid once and receipted once.
func TestEngagedProviderStopsAndGoesOn(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePostpay} {
		for _, at := range []string{"quoted", "invoice", "acceptance", "before the fee is recorded", "settled", "invoice of the result", "running", "delivering"} {
			t.Run(string(mode)+"/"+at, func(t *testing.T) {
				t.Parallel()
				w := markettest.New(t)
				w.Runner.Do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
					if ctx.Err() != nil {
						return provider.Outcome{}, ctx.Err()
					}
					return w.Runner.Good(nil)
				}
				switch at {
				case "running":
					w.Store.StopWhen(provider.StateRunning)
				case "delivering":
					w.Store.StopWhen(provider.StateDelivering)
				}
				dying := &steps{JobStore: w.Store, at: at}
				w.Serve(t, func(cfg *provider.Config) { markettest.Engaging(cfg); cfg.Store = dying })
				c := w.NewCustomer(t, markettest.Engages)
				f := w.Follow(t, c, w.Engage(t, c, mode, markettest.Expects).RequestID, nil)
				<-w.Store.LifeOver()
				w.Serve(t, markettest.Engaging)
				w.FeeAndResultProved(t, c, f)
			})
		}
	}
}
