//go:build lnd

package cashu

import (
	"path/filepath"
	"testing"

	"github.com/lightwork-market/lightwork/internal/devnet"
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
	payee, _ := b.open("payee")
	payer, _ := b.open("payer")
	b.fill(payer, 50_000)
	conformance.Run(t, func(*testing.T) conformance.Pair { return conformance.Pair{Payee: payee, Payer: payer} })
	b.total(payee, payer, 50_000)
}
