//go:build lnd

package crashmatrix

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
)

// phone is a buyer without an lnd: it pays through the customer's, over Nostr
// Wallet Connect, which a process of its own serves.
const phone = "phone"

// nwcRows are rows of the buyer's whose payment travels one process further: who
// dies is that process, the lnd behind it, or the provider.
func nwcRows() []cell {
	serving := func(_ *world, wallet, _ *process) { wallet.kill() }
	lnd := func(w *world, _, _ *process) { w.Bob.Kill() }
	buying := func(_ *world, _, buying *process) { buying.kill() }
	selling := func(w *world, _, _ *process) { w.selling.kill() }
	return []cell{
		nwcCell("B1", "reserved, the NWC wallet not asked yet", killNode, "buyer asks SendPaymentV2", serving),
		nwcCell("B2", "the NWC wallet has sent, its reply lost", killNode, "buyer hears SendPaymentV2 IN_FLIGHT", serving),
		nwcCell("B4", "in flight, the lnd behind NWC dies", killLND, "provider hears LookupInvoice ACCEPTED", lnd),
		nwcCell("B6", "succeeded, the NWC wallet dies before it says so", killNode, "buyer hears TrackPaymentV2 SUCCEEDED", serving),
		nwcCell("B3", "in flight, the buyer dies and its wallet lives", killNode, "provider hears LookupInvoice ACCEPTED", buying),
		nwcCell("P5", "accepted and not recorded, the payer on NWC", killNode, "provider hears LookupInvoice ACCEPTED", selling),
	}
}

// nwcCell strikes once at a moment and then brings everybody back: one job, one
// payment, one receipt.
func nwcCell(name, what string, how way, at moment, victim func(w *world, wallet, buying *process)) cell {
	return cell{point: name + "n", rail: overNWC, what: what, way: how, whole: func(t *testing.T, w *world) {
		wallet := w.connectPhone(t)
		defer func() { wallet.kill() }()
		before := w.read(t)
		var buying *process
		began := make(chan struct{})
		struck := w.trap.arm([]step{{at: at}}, func() verdict {
			<-began // buying is set
			victim(w, wallet, buying)
			return drop
		})
		cmd := w.as(phone, "buyer", "submit", "--json", "--max-msats", fmt.Sprint(maxMsats), "--cmd", "echo done")
		buying = w.begin(t, cmd, phone)
		close(began)
		w.until(t, struck, buying)
		if wallet.dead() {
			wallet = w.serveNWC(t)
		}
		if w.selling.dead() {
			w.sell(t)
		}
		w.revive(t, w.Bob)
		<-buying.done
		p := w.phoned(t)
		if !p.State.Terminal() {
			w.await(t, "the purchase ends", func() bool {
				again := w.begin(t, w.as(phone, "buyer", "resume", p.RequestID), phone)
				<-again.done
				p = w.phoned(t)
				return p.State.Terminal()
			})
		}
		w.onceOverNWC(t, before, p)
	}}
}

// connectPhone makes the phone's node, once, and starts its wallet.
func (w *world) connectPhone(t *testing.T) *process {
	t.Helper()
	wallet := w.serveNWC(t)
	dir := filepath.Join(w.dir, phone)
	if _, err := os.Stat(dir); err == nil {
		return wallet
	}
	out, err := w.lightwork("init", "--dir", dir, "--role", "buyer", "--wallet", "nwc", "--relay", "ws://"+w.relays[0]).CombinedOutput()
	if err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	address, err := os.ReadFile(w.nwcAddress())
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "keys", "buyer-wallet.nwc"), address, 0o600))
	w.edit(t, phone, "max_msats_per_day: 1000000", fmt.Sprintf("max_msats_per_day: %d", dayMsats))
	return wallet
}

func (w *world) nwcAddress() string { return filepath.Join(w.dataDir(customer), "nwc", phone+".uri") }

func (w *world) serveNWC(t *testing.T) *process {
	t.Helper()
	p := w.begin(t, w.as(customer, "wallet", "nwc-serve", "--app", phone, "--budget-msats", fmt.Sprint(dayMsats)), "nwc")
	w.await(t, "the wallet is served", func() bool {
		if p.dead() {
			t.Fatalf("the NWC wallet ended: %s", p.tail())
		}
		st, err := os.Stat(w.nwcAddress())
		return err == nil && st.Size() > 0
	})
	return p
}

// phoned is the phone's newest purchase.
func (w *world) phoned(t *testing.T) (p buyer.Purchase) {
	t.Helper()
	k, err := store.Open(w.ctx, filepath.Join(w.dir, phone, "data", customer), store.Options{ReadOnly: true})
	check(t, err)
	defer k.Close()
	newest, err := k.Purchases().Purchases(w.ctx, 1)
	check(t, err)
	p, err = k.Purchases().Purchase(w.ctx, newest[0].RequestID)
	check(t, err)
	return p
}

// onceOverNWC is once for the phone, whose wallet keeps the fee's account.
func (w *world) onceOverNWC(t *testing.T, before books, p buyer.Purchase) {
	t.Helper()
	if p.State == buyer.StateFailed && p.Payment != nil && p.Payment.State == payments.PaymentFailed {
		// The wallet that came back found nothing sent, and said so for good.
		t.Logf("nothing was sent: %s", p.Reason)
		if after := w.read(t); after.buyerMsats != before.buyerMsats || after.sellerMsats != before.sellerMsats {
			t.Errorf("money moved: before %+v, after %+v", before, after)
		}
		return
	}
	job, after := w.sold(t), w.read(t)
	if p.State != buyer.StateDone || job.State != provider.StateSucceeded || job.RequestID != p.RequestID || job.ReceiptID != p.ReceiptID {
		t.Fatalf("job %s %s (%s), purchase %s (%s) %s", job.RequestID, job.State, job.Reason, p.State, p.Reason, strings.TrimSpace(p.ReceiptID))
	}
	if after.jobs != before.jobs+1 || w.receiptsOf(t, p.RequestID) != 1 {
		t.Errorf("%d jobs, %d receipts", after.jobs-before.jobs, w.receiptsOf(t, p.RequestID))
	}
	if got := after.sellerMsats - before.sellerMsats; got != priceMsats {
		t.Errorf("the provider got %d msats", got)
	}
	if got := before.buyerMsats - after.buyerMsats; got != priceMsats+p.Payment.FeeMsats {
		t.Errorf("%d msats left the channel, the purchase says %d and %d of fees", got, p.Payment.AmountMsats, p.Payment.FeeMsats)
	}
}
