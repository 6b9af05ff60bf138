package cashu

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/payments"
)

// melt has an invoice paid for at most maxSats and returns how it ended.
func (b *bench) melt(w *Wallet, invoice string, maxSats int64) Melt {
	b.Helper()
	m := must[Melt](b)(w.MeltQuote(b.Context(), invoice))
	if err := w.Melt(b.Context(), m.Hash, maxSats); err != nil {
		b.Fatal(err)
	}
	return must[Melt](b)(w.AwaitMelt(b.Context(), m.Hash))
}

// An invoice is paid once, what is left of the reserve comes back, and what it
// cost is what is gone.
func TestMelt(t *testing.T) {
	t.Parallel()
	for _, ppk := range []int64{0, 400} {
		t.Run(fmt.Sprintf("fee %d", ppk), func(t *testing.T) {
			t.Parallel()
			mint := newFakeMint(t, ppk)
			b := newBench(t, mint.place())
			w, _ := b.open("payer")
			b.fill(w, 1000)
			mint.lightning(meltPaid, 20, 3)
			invoice, preimage := b.invoice(99_500)
			mint.melts.preimages[preimage.Hash()] = preimage
			quote := must[Melt](b)(w.MeltQuote(t.Context(), invoice))
			most := must[int64](b)(w.MeltCost(t.Context(), quote))
			if quote.Sats != 100 || quote.ReserveSats != 20 || quote.State != MeltQuoted || most < 120 || ppk == 0 && most != 120 {
				t.Errorf("quote %+v, at most %d sats", quote, most)
			}
			if err := w.Melt(t.Context(), quote.Hash, most-1); !errors.Is(err, payments.ErrNoRoute) {
				t.Errorf("over what was allowed: %v", err)
			}
			m := b.melt(w, invoice, most)
			if m.State != MeltPaid || m.Preimage != preimage || m.CostSats != most-17 {
				t.Errorf("melt %+v, want a cost of %d", m, most-17)
			}
			if again := b.melt(w, invoice, most); again != m {
				t.Errorf("again: %+v", again)
			}
			if got := b.spendable(w); got != (1000-m.CostSats)*1000 {
				t.Errorf("%d msats are left", got)
			}
			if list := must[[]Melt](b)(w.Melts(t.Context())); len(list) != 1 || list[0] != m {
				t.Errorf("list %+v", list)
			}
		})
	}
}

// A payment that fails costs nothing, and the invoice can be tried again.
func TestMeltFails(t *testing.T) {
	t.Parallel()
	mint := newFakeMint(t, 0)
	b := newBench(t, mint.place())
	w, _ := b.open("payer")
	b.fill(w, 1000)
	invoice, preimage := b.invoice(100_000)
	mint.melts.preimages[preimage.Hash()] = preimage
	mint.lightning(meltUnpaid, 5, 0)
	if m := b.melt(w, invoice, 1000); m.State != MeltFailed || m.CostSats != 0 || m.Failure == "" {
		t.Errorf("melt %+v", m)
	}
	if got := b.spendable(w); got != 1_000_000 {
		t.Errorf("%d msats are left", got)
	}
	mint.lightning(meltPaid, 5, 0)
	if m := b.melt(w, invoice, 1000); m.State != MeltPaid || m.CostSats != 100 {
		t.Errorf("melt %+v", m)
	}
	if got := b.spendable(w); got != 900_000 {
		t.Errorf("%d msats are left", got)
	}
}

// A payment that takes long is not paid twice, whatever stops meanwhile; its
// notes are ours again only when the mint has given it up.
func TestMeltIsPending(t *testing.T) {
	t.Parallel()
	for _, outcome := range []string{meltPaid, meltUnpaid} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			mint := newFakeMint(t, 0)
			b := newBench(t, mint.place())
			c := newCut(meltPath, 1, true)
			w, stop := b.open("payer", func(cfg *Config) { cfg.Transport = c })
			b.fill(w, 1000)
			invoice, preimage := b.invoice(100_000)
			mint.melts.preimages[preimage.Hash()] = preimage
			mint.lightning(meltPending, 5, 1)
			m := must[Melt](b)(w.MeltQuote(t.Context(), invoice))
			if err := w.Melt(t.Context(), m.Hash, 1000); err != nil {
				t.Fatal(err)
			}
			<-c.hit
			stop()
			looked := make(chan struct{}, 1000)
			mint.meddled("/v1/melt/quote/bolt11/", func(status int, doc any) (int, any) {
				looked <- struct{}{}
				return status, doc
			})
			w, _ = b.open("payer")
			<-looked
			balance := must[payments.Balance](b)(w.Balance(t.Context()))
			if balance.SpendableMsats != 895_000 || balance.ReservedMsats != 105_000 {
				t.Errorf("while it is pending: %+v", balance)
			}
			mint.resolve(outcome)
			if outcome == meltUnpaid {
				mint.lightning(meltPaid, 5, 1) // asked for once more, the mint pays
			}
			m = must[Melt](b)(w.AwaitMelt(t.Context(), m.Hash))
			if m.State != MeltPaid || m.Preimage != preimage || m.CostSats != 101 {
				t.Errorf("melt %+v", m)
			}
			if got := b.spendable(w); got != 899_000 {
				t.Errorf("%d msats are left", got)
			}
		})
	}
}

// meltCrashes plays a melt for each moment at which the wallet's connection and
// process end, and counts what is left.
func meltCrashes(t *testing.T, mint string, learn func(payments.Preimage)) {
	for _, path := range []string{"/v1/swap", meltPath} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s after=%v", path[4:], after), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, mint)
				c := newCut(path, 1, after)
				w, stop := b.open("payer", func(cfg *Config) { cfg.Transport = c })
				b.fill(w, 1000)
				invoice, preimage := b.invoice(100_000)
				learn(preimage)
				m := must[Melt](b)(w.MeltQuote(t.Context(), invoice))
				if err := w.Melt(t.Context(), m.Hash, 1000); err != nil {
					t.Fatal(err)
				}
				<-c.hit
				stop()
				w, _ = b.open("payer")
				if err := w.Melt(t.Context(), m.Hash, 1000); err != nil { // changes nothing
					t.Fatal(err)
				}
				m = must[Melt](b)(w.AwaitMelt(t.Context(), m.Hash))
				if m.State != MeltPaid {
					t.Errorf("melt %+v", m)
				}
				if got := b.spendable(w); got != (1000-m.CostSats)*1000 {
					t.Errorf("%d msats are left, it cost %d sats", got, m.CostSats)
				}
			})
		}
	}
}

func TestMeltCrashes(t *testing.T) {
	t.Parallel()
	for _, ppk := range []int64{0, 400} {
		t.Run(fmt.Sprintf("fee %d", ppk), func(t *testing.T) {
			t.Parallel()
			mint := newFakeMint(t, ppk)
			mint.lightning(meltPaid, 9, 2)
			meltCrashes(t, mint.place(), func(p payments.Preimage) {
				mint.mu.Lock()
				defer mint.mu.Unlock()
				mint.melts.preimages[p.Hash()] = p
			})
		})
	}
}

// What cannot be paid is refused before the mint is asked for anything.
func TestMeltRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t, newFakeMint(t, 0).place())
	w, _ := b.open("payer")
	payee, _ := b.open("payee")
	b.fill(w, 100)
	notes := must[payments.Invoice](b)(payee.CreateInvoice(t.Context(), ask(b.secret(), true, 1000)))
	over, _ := testInvoice(t, 1000, time.Now().Add(-2*time.Hour))
	open, _ := b.invoice(0)
	large, _ := b.invoice(101_000)
	for name, c := range map[string]struct {
		invoice string
		want    error
	}{
		"no invoice":  {"lnbc1", payments.ErrBadRequest},
		"in notes":    {notes.BOLT11, payments.ErrWrongNetwork},
		"expired":     {over, payments.ErrExpired},
		"no amount":   {open, payments.ErrAmount},
		"never asked": {large, payments.ErrInsufficientFunds},
	} {
		m, err := w.MeltQuote(t.Context(), c.invoice)
		if err == nil {
			err = w.Melt(t.Context(), m.Hash, 1000)
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if err := w.Melt(t.Context(), payments.Hash{1}, 1000); !errors.Is(err, payments.ErrNotFound) {
		t.Errorf("never quoted: %v", err)
	}
}
