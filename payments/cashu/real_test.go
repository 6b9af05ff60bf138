//go:build lnd

package cashu

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/devnet"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/conformance"
)

// startMint runs gonuts until the test's end.
func startMint(t *testing.T, feePPK int) *devnet.Mint {
	t.Helper()
	binDir, err := devnet.BuildMint(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	m, err := devnet.StartMint(t.Context(), binDir, filepath.Join(t.TempDir(), "mint"), feePPK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Stop)
	return m
}

func TestConformanceOnRealMint(t *testing.T) {
	t.Parallel()
	b := newBench(t, startMint(t, 0).Address())
	b.cfg.Lock = 20 * time.Second // the behaviours wait for the end of some
	payee, _ := b.open("payee")
	payer, _ := b.open("payer")
	b.fill(payer, 50_000)
	conformance.Run(t, func(*testing.T) conformance.Pair { return conformance.Pair{Payee: payee, Payer: payer} })
	b.total(payee, payer, 50_000)
}

func TestCrashesOnRealMint(t *testing.T) {
	t.Parallel()
	for _, ppk := range []int{0, 400} {
		t.Run(fmt.Sprintf("fee %d", ppk), func(t *testing.T) {
			t.Parallel()
			// The mint dies with this test, so its cases must have ended.
			m := startMint(t, ppk)
			t.Run("at", func(t *testing.T) { crashes(t, m.Address(), ppk > 0) })
		})
	}
}

// A mint that is killed while a payment is held has lost nothing when it is
// back, and the payment goes on.
func TestRealMintIsKilled(t *testing.T) {
	t.Parallel()
	m := startMint(t, 0)
	b := newBench(t, m.Address())
	payee, _ := b.open("payee")
	payer, _ := b.open("payer")
	b.fill(payer, 1000)
	preimage := b.secret()
	inv := b.order(payee, payer, ask(preimage, true, 300_000))
	b.awaitState(payee, inv.PaymentHash, payments.InvoiceHeld)
	m.Kill()
	settled := make(chan error, 1)
	go func() { settled <- payee.SettleInvoice(t.Context(), preimage) }()
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-settled; err != nil {
		t.Fatal(err)
	}
	p := must[payments.Payment](b)(payer.TrackPayment(t.Context(), inv.PaymentHash))
	if p.State != payments.PaymentSucceeded || p.Preimage != preimage {
		t.Errorf("payment %+v", p)
	}
	b.total(payee, payer, 1000)
}
