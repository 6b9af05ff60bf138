//go:build lnd

package crashmatrix

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
)

// The buyer's rows that need more than a moment.

// twoBuyers: what one CLI reserved of a budget before it was killed while it paid,
// another one with the same budget must not spend.
func twoBuyers() []cell {
	return []cell{{point: "B7", rail: hold, what: "two CLIs, one budget", way: killNode, whole: func(t *testing.T, w *world) {
		before := w.read(t)
		spent := before.spentMsats
		usual, narrow := fmt.Sprintf("max_msats_per_day: %d", dayMsats), fmt.Sprintf("max_msats_per_day: %d", spent+maxMsats)
		w.edit(t, customer, usual, narrow)
		defer w.edit(t, customer, narrow, usual)
		fees, all := "# max_fee_msats: 10000", fmt.Sprintf("max_fee_msats: %d", maxMsats-priceMsats) // a purchase reserves its most
		w.edit(t, customer, fees, all)
		defer w.edit(t, customer, all, fees)
		var first *process
		began := make(chan struct{})
		var paying buyer.Purchase
		struck := w.trap.arm([]step{{at: "buyer asks SendPaymentV2"}}, func() verdict {
			<-began
			paying, _ = w.purchase(t)
			first.kill()
			return drop
		})
		first = w.buy(t, "--cmd", "echo first")
		close(began)
		w.until(t, struck, first)
		second := w.buy(t, "--cmd", "echo second") // the first one's reservation stands
		<-second.done
		if second.err == nil || !strings.Contains(second.tail(), "budget") {
			t.Errorf("a second payment beyond the budget: %v\n%s", second.err, second.tail())
		}
		w.ledger(t)
		w.resume(t, paying.RequestID)
		after := w.read(t)
		if cost := before.buyerMsats - after.buyerMsats; cost != priceMsats || after.spentMsats-spent != cost {
			t.Errorf("the channel lost %d msats, the budget %d, for one job of %d", cost, after.spentMsats-spent, priceMsats)
		}
		if after.reservedMsats != before.reservedMsats {
			t.Errorf("%d msats are still reserved", after.reservedMsats-before.reservedMsats)
		}
	}}}
}

// otherInvoice: the buyer pins another node than the seller is paid at. Nobody is asked.
func otherInvoice() []cell {
	return []cell{{point: "B8", rail: hold, what: "another node pinned than announced", way: killNode, whole: func(t *testing.T, w *world) {
		before := w.read(t)
		// Bob's key is not the seller's.
		buying := w.buy(t, "--payee", w.Bob.PubKey(), "--cmd", "echo done")
		<-buying.done
		if after := w.read(t); buying.err == nil || after != before || !strings.Contains(buying.tail(), "another Lightning node") {
			t.Errorf("%v, the books before %+v, after %+v\n%s", buying.err, before, after, buying.tail())
		}
	}}}
}

// paidNoResult: prepaid, and the provider is gone.
func paidNoResult() []cell {
	return []cell{{point: "B9", rail: prepay, what: "paid, no result", way: killNode, whole: func(t *testing.T, w *world) {
		before := w.read(t)
		struck := w.trap.arm([]step{{at: "provider hears LookupInvoice SETTLED"}}, func() verdict {
			w.selling.kill()
			return drop
		})
		buying := w.buy(t, "--mode", "prepay", "--cmd", "echo done")
		w.until(t, struck, buying)
		var p buyer.Purchase
		w.await(t, "the buyer knows that it has paid", func() bool {
			p, _ = w.purchase(t)
			return p.State == buyer.StatePaid
		})
		buying.kill()
		dir := filepath.Join(t.TempDir(), "dispute")
		out, err := w.as(customer, "buyer", "dispute", p.RequestID, "--out", dir).CombinedOutput()
		if err != nil || !holds(t, dir, p.Payment.Preimage.String()) || !holds(t, dir, p.BOLT11) {
			t.Errorf("the dispute does not show the payment: %v\n%s", err, out)
		}
		w.sell(t)
		w.resume(t, p.RequestID)
		w.once(t, before)
	}}}
}

// holds reports whether a file in the folder has the text.
func holds(t *testing.T, dir, text string) (found bool) {
	t.Helper()
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found = found || strings.Contains(string(content), text)
		return err
	}))
	return found
}

// stuck kills the payer's lnd in the moment in which it begins to pay. What had
// become durable decides: the job is done, lnd gives the payment up, or takes it
// for in flight for ever although no channel holds it (lnd#9340). Then the
// budget stays reserved, and the operator is told.
func stuck() []cell {
	return []cell{{point: "B5", rail: hold, what: "begun in lnd, perhaps for ever", way: killLND, whole: func(t *testing.T, w *world) {
		before := w.read(t)
		struck := w.trap.arm([]step{{at: "buyer hears SendPaymentV2 IN_FLIGHT"}}, func() verdict {
			w.Bob.Kill()
			return drop
		})
		buying := w.buy(t, "--cmd", "echo done")
		w.until(t, struck, buying)
		w.revive(t, w.Bob)
		select {
		case <-buying.done:
		case <-time.After(20 * time.Second):
			buying.kill()
		}
		p, _ := w.purchase(t)
		t.Logf("it came to: %s %s", p.State, p.Reason)
		switch p.State {
		case buyer.StateDone:
			w.once(t, before)
		case buyer.StateFailed:
			w.nothing(t, before)
		default:
			after := w.read(t)
			if reserved := after.reservedMsats - before.reservedMsats; reserved != maxMsats {
				t.Errorf("%d msats are reserved, not %d", reserved, maxMsats)
			}
			if after.buyerMsats != before.buyerMsats || after.sellerMsats != before.sellerMsats {
				t.Errorf("money moved: before %+v, after %+v", before, after)
			}
		}
	}}}
}
