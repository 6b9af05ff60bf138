package crashtest

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestNobodyDies tells the story without a crash; all others must end like it.
func TestNobodyDies(t *testing.T) {
	requirements.Covers(t, "OA-4.3", "OA-4.4", "OA-4.5", "OA-4.6", "K-49")
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, mode)
			w.tell(t, true, buyer.StateDone)
			if job := w.bought(t); job.Run != 1 {
				t.Errorf("%d runs", job.Run)
			}
		})
	}
}

// sellerSteps are the provider's steps, and how many runs the job takes when it
// dies there: a run that did not reach its durable result is run again, any
// other never is.
var sellerSteps = []struct {
	name          string
	before, after int // 0 where another step happens at the same time
}{
	{"store:UsePolicy", 1, 1},
	{"store:AddJob", 1, 1},
	{"wallet:CreateInvoice", 1, 1},
	{"store:SetInvoice", 1, 1},
	{"market:Publish:7000-payment-required", 1, 1},
	{"store:SetAcceptance", 0, 0},
	{"store:SetPaid", 1, 1},
	{"store:Start", 1, 2},
	{"market:Publish:7000-processing", 0, 0},
	{"run:work", 2, 2},
	{"store:Finish", 2, 1},
	{"market:Upload", 0, 0},
	{"market:Publish:6050", 1, 1},
	{"store:AddAcks:6050", 1, 1},
	{"wallet:SettleInvoice", 1, 1},
	{"store:Settle", 1, 1},
	{"market:Publish:7002", 1, 1},
	{"store:AddAcks:others", 0, 0},
}

// TestProviderDies kills the provider around every step of a held payment.
func TestProviderDies(t *testing.T) {
	requirements.Covers(t, "K-49")
	for _, step := range sellerSteps {
		sellerDies(t, receipts.ModeHold, "before "+step.name, step.before)
		sellerDies(t, receipts.ModeHold, "after "+step.name, step.after)
	}
}

// TestProviderDiesOtherModes does so where the other modes differ.
func TestProviderDiesOtherModes(t *testing.T) {
	for _, step := range sellerSteps {
		switch step.name {
		case "store:SetPaid":
			sellerDies(t, receipts.ModePrepay, "before "+step.name, step.before)
			sellerDies(t, receipts.ModePrepay, "after "+step.name, step.after)
		case "store:Finish", "store:Settle":
			for _, mode := range []receipts.Mode{receipts.ModePrepay, receipts.ModePostpay} {
				sellerDies(t, mode, "before "+step.name, step.before)
				sellerDies(t, mode, "after "+step.name, step.after)
			}
		}
	}
}

func sellerDies(t *testing.T, mode receipts.Mode, point string, runs int) {
	t.Run(string(mode)+"/"+point, func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, mode)
		w.seller.KillAt = point
		w.tell(t, true, buyer.StateDone)
		job := w.bought(t)
		if got := killedAt(t, w.seller); got != point {
			t.Errorf("killed at %q", got)
		}
		if runs != 0 && job.Run != runs || job.Run > 2 {
			t.Errorf("%d runs, not %d", job.Run, runs)
		}
	})
}

// TestFreeJobSurvives kills the provider around the steps of a job that needs no
// payment. It is one job, run once more if its result was not durable.
func TestFreeJobSurvives(t *testing.T) {
	for point, runs := range map[string]int{
		"before store:AddJob": 1, "after store:AddJob": 1, "before store:Start": 1, "after store:Start": 2, "before run:work": 2, "after run:work": 2,
		"before store:Finish": 2, "after store:Finish": 1, "after market:Publish:6050": 1,
		// What relays said of the result is not recorded by then.
		"before store:Close": 1, "after store:Close": 1,
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, receipts.ModeFree)
			w.seller.KillAt = point
			w.tell(t, true, buyer.StateDone)
			job, receiptRows := w.job(t)
			if got := killedAt(t, w.seller); got != point || job.State != provider.StateSucceeded || job.Run != runs || receiptRows != 0 {
				t.Errorf("killed at %q: %s (%s) after %d runs, not %d; %d receipts", got, job.State, job.Reason, job.Run, runs, receiptRows)
			}
			if seller, customer := w.balances(t); seller != faucetMsats || customer != faucetMsats {
				t.Errorf("the provider has %d msats, the buyer %d", seller, customer)
			}
		})
	}
}

// TestBuyerDies kills the buyer around every step.
func TestBuyerDies(t *testing.T) {
	for _, step := range []string{
		"store:AddPurchase", "market:Send:5050", "store:AddFeedback", "store:Reserve", "market:Send:7001",
		"store:SetSent", "wallet:SendPayment", "wallet:TrackPayment", "store:Paid", "store:SetResult", "store:SetReceipt", "store:Close",
	} {
		for _, when := range []string{"before ", "after "} {
			buyerDies(t, receipts.ModeHold, when+step)
		}
	}
	for _, step := range []string{"store:Reserve", "wallet:SendPayment", "store:Paid", "store:SetResult"} {
		buyerDies(t, receipts.ModePrepay, "after "+step)
		buyerDies(t, receipts.ModePostpay, "after "+step)
	}
}

func buyerDies(t *testing.T, mode receipts.Mode, point string) {
	t.Run(string(mode)+"/"+point, func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, mode)
		w.customer.KillAt = point
		w.tell(t, true, buyer.StateDone)
		if job := w.bought(t); job.Run != 1 {
			t.Errorf("%d runs", job.Run)
		}
		if got := killedAt(t, w.customer); got != point {
			t.Errorf("killed at %q", got)
		}
	})
}

// TestFailingJob kills the provider while it gives a held payment back.
func TestFailingJob(t *testing.T) {
	for _, point := range []string{
		"", "before wallet:CancelInvoice", "after wallet:CancelInvoice", "before store:Close", "after store:Close", "after run:work",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, receipts.ModeHold)
			w.seller.Fail, w.seller.KillAt = true, point
			w.tell(t, true, buyer.StateFailed)
			w.givenBack(t)
		})
	}
}

// givenBack checks that a failed job moved no money and left no receipt.
func (w *world) givenBack(t *testing.T) {
	t.Helper()
	job, receiptRows := w.job(t)
	if job.State != provider.StateFailed || receiptRows != 0 || job.Result != nil {
		t.Errorf("job %s (%s), %d receipts", job.State, job.Reason, receiptRows)
	}
	p, budget := w.purchase(t, nil)
	if p.State != buyer.StateFailed || p.ReceiptID != "" || p.Output != nil {
		t.Errorf("purchase %s (%s), receipt %q", p.State, p.Reason, p.ReceiptID)
	}
	if budget.ReservedMsats != 0 || budget.SpentMsats != 0 {
		t.Errorf("budget: %d msats spent, %d reserved", budget.SpentMsats, budget.ReservedMsats)
	}
	if seller, customer := w.balances(t); seller != faucetMsats || customer != faucetMsats {
		t.Errorf("the provider has %d msats, the buyer %d", seller, customer)
	}
}

// TestAnyoneDies kills both sides, each at a step drawn by lot.
func TestAnyoneDies(t *testing.T) {
	lot := rand.New(rand.NewPCG(20090103, 181505))
	for range 10 {
		// A sale takes about 34 steps on the provider's side and 24 on the
		// buyer's; a number beyond what happens kills nobody.
		seller, customer := 1+lot.IntN(34), 1+lot.IntN(24)
		t.Run(strings.Join([]string{strconv.Itoa(seller), strconv.Itoa(customer)}, "-"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, receipts.ModeHold)
			w.seller.KillAt, w.customer.KillAt = "#"+strconv.Itoa(seller), "#"+strconv.Itoa(customer)
			w.tell(t, false, buyer.StateDone)
			w.bought(t)
			t.Logf("provider killed %s, buyer %s", killedAt(t, w.seller), killedAt(t, w.customer))
		})
	}
}
