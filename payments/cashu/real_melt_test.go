//go:build lnd

package cashu

import (
	"fmt"
	"testing"

	"github.com/lightwork-market/lightwork/payments"
)

func TestMeltCrashesOnRealMint(t *testing.T) {
	t.Parallel()
	for _, ppk := range []int{0, 400} {
		t.Run(fmt.Sprintf("fee %d", ppk), func(t *testing.T) {
			t.Parallel()
			m := startMint(t, ppk)
			t.Run("at", func(t *testing.T) { meltCrashes(t, m.Address(), func(payments.Preimage) {}) })
		})
	}
}

// A mint that is killed before a melt's request is answered has either paid or
// not when it is back, and the wallet finds out which.
func TestRealMintIsKilledInMelt(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			t.Parallel()
			m := startMint(t, 0)
			b := newBench(t, m.Address())
			c := newCut(meltPath, 1, after)
			w, stop := b.open("payer", func(cfg *Config) { cfg.Transport = c })
			b.fill(w, 1000)
			invoice, _ := b.invoice(300_000)
			quote := must[Melt](b)(w.MeltQuote(t.Context(), invoice))
			if err := w.Melt(t.Context(), quote.Hash, 300); err != nil {
				t.Fatal(err)
			}
			<-c.hit
			m.Kill()
			stop()
			if err := m.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			w, _ = b.open("payer")
			if melt := must[Melt](b)(w.AwaitMelt(t.Context(), quote.Hash)); melt.State != MeltPaid || melt.CostSats != 300 {
				t.Errorf("melt %+v", melt)
			}
			if got := b.spendable(w); got != 700_000 {
				t.Errorf("%d msats are left", got)
			}
		})
	}
}

func TestRestoreOnRealMint(t *testing.T) {
	t.Parallel()
	for _, ppk := range []int{0, 400} {
		t.Run(fmt.Sprintf("fee %d", ppk), func(t *testing.T) {
			t.Parallel()
			m := startMint(t, ppk)
			t.Run("lost", func(t *testing.T) { restores(t, m.Address()) })
		})
	}
}
