package markettest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// Verify verifies a bundle with everything pinned.
func (w *World) Verify(t *testing.T, c *Customer, b *receipts.Bundle, err error) receipts.Report {
	t.Helper()
	Check(t, err)
	node, err := w.Seller.Wallet.Node(w.Ctx)
	Check(t, err)
	return receipts.Verify(b, receipts.Pins{
		Provider: w.Seller.Key.PublicKey(), Buyer: c.Key.PublicKey(), Payee: node.PubKey, Network: payments.Play,
		Required: []string{receipts.ClaimBuyerAccepted, receipts.ClaimPayeePinned},
	})
}

// FeeProved checks the receipt of the fee of a purchase, on both sides.
func (w *World) FeeProved(t *testing.T, c *Customer, p buyer.Purchase) {
	t.Helper()
	job := w.Job(t, p.RequestID)
	if p.Engagement == nil || p.Engagement.ReceiptID == "" || p.Engagement.ReceiptID != job.Engagement.ReceiptID {
		t.Fatalf("the buyer's receipt of the fee is %+v, the provider's %q", p.Engagement, job.Engagement.ReceiptID)
	}
	b, err := buyer.EngagementBundleOf(w.Ctx, c.Store, p)
	r := w.Verify(t, c, b, err)
	if r.ExitCode() != receipts.ExitProved || r.Purpose != receipts.PurposeEngagement || r.AmountMsats != AttemptMsats || r.Mode != receipts.ModePrepay {
		t.Errorf("receipt of the fee: %s of %d msats: %+v", r.Purpose, r.AmountMsats, r.Claims)
	}
}

// FeeAndResultProved checks a purchase that was paid and receipted twice: for the attempt, and
// for the result, in one chain.
func (w *World) FeeAndResultProved(t *testing.T, c *Customer, f *Following) {
	t.Helper()
	p, err := f.Wait()
	if err != nil || p.State != buyer.StateDone {
		t.Fatalf("purchase %s (%s): %v", p.State, p.Reason, err)
	}
	w.FeeProved(t, c, p)
	b, err := c.Client.Bundle(w.Ctx, p.RequestID)
	r := w.Verify(t, c, b, err)
	if r.ExitCode() != receipts.ExitProved || r.Purpose != receipts.PurposeResult || r.AmountMsats != RateMsats {
		t.Errorf("receipt of the result: %s of %d msats: %+v", r.Purpose, r.AmountMsats, r.Claims)
	}
	if chain := r.Claim(receipts.ClaimChain); chain.State != receipts.Proved || r.Sequence != 2 {
		t.Errorf("receipt %d: %+v", r.Sequence, chain)
	}
	w.Moved(t, c.Party, RateMsats+AttemptMsats, RateMsats+AttemptMsats+2*FeeMsats)
	budget := w.Budget(t, c.Store)
	if budget.SpentMsats != RateMsats+AttemptMsats+2*FeeMsats || budget.ReservedMsats != 0 {
		t.Errorf("budget %+v", budget)
	}
}

// Unsold checks what a job that failed leaves on both sides.
func (w *World) Unsold(t *testing.T, c *Customer, p buyer.Purchase, want provider.Code) {
	t.Helper()
	job := w.Await(t, p.RequestID, provider.StateFailed, provider.StateCanceled)
	if job.Reason.Code != want || job.Receipt != nil || job.Result != nil || p.Output != nil {
		t.Errorf("job failed for %s, want %s; receipt %s, output %s", job.Reason, want, job.Receipt, p.Output)
	}
	budget := w.Budget(t, c.Store)
	if spent := FaucetMsats - w.Balance(t, c.Party); budget.ReservedMsats != 0 || budget.SpentMsats != spent {
		t.Errorf("budget: %d msats spent, %d reserved; the wallet spent %d", budget.SpentMsats, budget.ReservedMsats, spent)
	}
}

// TellsNothing reads all that is published about a purchase.
func (w *World) TellsNothing(t *testing.T, c *Customer, p buyer.Purchase) {
	t.Helper()
	all, err := c.Market.Query(w.Ctx, nostr.Filter{Tags: nostr.TagMap{"e": {p.RequestID}}})
	Check(t, err)
	own, err := c.Market.Query(w.Ctx, nostr.Filter{IDs: []string{p.RequestID}})
	Check(t, err)

	kinds := map[int]bool{}
	for _, ev := range append(all, own...) {
		kinds[ev.Kind] = true
		doc, err := json.Marshal(ev)
		Check(t, err)
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

// GradesHidden: a stranger is told that job and result cannot be read, and that
// everything else is proved.
func (w *World) GradesHidden(t *testing.T, c *Customer, p buyer.Purchase) {
	t.Helper()
	b, err := c.Client.Bundle(w.Ctx, p.RequestID)
	Check(t, err)
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

// Sold checks a purchase that succeeded: the state of both sides, the money,
// and a receipt that a stranger can verify with nothing left open.
func (w *World) Sold(t *testing.T, c *Customer, f *Following, mode receipts.Mode) buyer.Purchase {
	t.Helper()
	p, err := f.Wait()
	if err != nil {
		t.Fatalf("purchase %s (%s): %v", p.State, p.Reason, err)
	}
	job := w.Await(t, p.RequestID, provider.StateSucceeded)
	if p.State != buyer.StateDone || string(p.Output) != string(job.Result.Output) {
		t.Errorf("purchase %s, output %s", p.State, p.Output)
	}
	if mode == receipts.ModeFree {
		w.Moved(t, c.Party, 0, 0)
		if p.ReceiptID != "" || job.ReceiptID != "" || p.Attempt != nil {
			t.Errorf("a free job has receipt %q", p.ReceiptID)
		}
		return p
	}

	w.Moved(t, c.Party, RateMsats, RateMsats+FeeMsats)
	if p.ReceiptID == "" || p.ReceiptID != job.ReceiptID {
		t.Fatalf("the buyer's receipt is %q, the provider's %q", p.ReceiptID, job.ReceiptID)
	}
	b, err := c.Client.Bundle(w.Ctx, p.RequestID)
	Check(t, err)
	node, err := w.Seller.Wallet.Node(w.Ctx)
	Check(t, err)
	report := receipts.Verify(b, receipts.Pins{
		Provider: w.Seller.Key.PublicKey(), Buyer: c.Key.PublicKey(), Payee: node.PubKey, Network: payments.Play,
		Required: []string{receipts.ClaimBuyerAccepted},
	})
	sealed := w.Delivery != receipts.DeliveryPlain && (mode == receipts.ModeHold || mode == receipts.ModePostpay)
	if (p.SealedEvent != nil) != sealed || (b.Seal != nil) != sealed {
		t.Errorf("sealed is %v", p.SealedEvent != nil)
	}
	if sealed && (bytes.Contains(p.ResultEvent, []byte("output_hash")) || bytes.Contains(p.ResultEvent, []byte(job.Result.OutputHash.Hex()))) {
		t.Errorf("the event of a sealed result tells of the output: %s", p.ResultEvent)
	}
	if report.ExitCode() != receipts.ExitProved || report.AmountMsats != RateMsats || report.Mode != mode {
		t.Errorf("mode %s, %d msats: %+v", report.Mode, report.AmountMsats, report.Claims)
	}
	return p
}
