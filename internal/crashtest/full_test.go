package crashtest

import (
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestFullDiskOfTheProvider: from each step of the store on the provider can write
// nothing. It stops, and with room again it goes on where it was (P17).
func TestFullDiskOfTheProvider(t *testing.T) {
	requirements.Covers(t, "K-49")
	for _, step := range sellerSteps {
		if !strings.HasPrefix(step.name, "store:") {
			continue
		}
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, receipts.ModeHold)
			w.seller.KillAt, w.seller.Full = "before "+step.name, true
			w.tell(t, true, buyer.StateDone)
			if job := w.bought(t); step.before != 0 && job.Run != step.before {
				t.Errorf("%d runs, not %d", job.Run, step.before)
			}
		})
	}
	t.Run("store:Close", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, receipts.ModeHold)
		w.seller.Fail, w.seller.KillAt, w.seller.Full = true, "before store:Close", true
		w.tell(t, true, buyer.StateFailed)
		w.givenBack(t)
	})
}

// TestFullDiskOfTheBuyer: the same of the buyer, which ends with the error, pays
// nothing twice and goes on when it is started again.
func TestFullDiskOfTheBuyer(t *testing.T) {
	for _, step := range []string{"AddPurchase", "AddFeedback", "Reserve", "Paid", "SetResult", "SetReceipt", "Close"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, receipts.ModeHold)
			w.customer.KillAt, w.customer.Full = "before store:"+step, true
			w.tell(t, true, buyer.StateDone)
			if job := w.bought(t); job.Run != 1 {
				t.Errorf("%d runs", job.Run)
			}
		})
	}
}
