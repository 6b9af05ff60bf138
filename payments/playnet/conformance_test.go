package playnet

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ payments.Wallet = (*Wallet)(nil)
	_ payments.Wallet = (*Client)(nil)
)

// openLedger opens a ledger that the test closes.
func openLedger(t *testing.T, cfg Config) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), filepath.Join(t.TempDir(), "play.db"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func openWallet(t *testing.T, l *Ledger, name string) *Wallet {
	t.Helper()
	w, err := l.OpenWallet(t.Context(), name, NewToken())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// audit fails the test unless every msat is in one place.
func audit(t testing.TB, l *Ledger) Totals {
	t.Helper()
	totals, err := l.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if totals.WalletsMsats+totals.HeldMsats+totals.FeesMsats != totals.IssuedMsats {
		t.Fatalf("totals %+v", totals)
	}
	return totals
}

func TestWalletConformance(t *testing.T) {
	for name, fee := range map[string]int64{"free": 0, "with fees": 1500} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLedger(t, Config{FeeMsats: fee})
			pair := conformance.Pair{Payee: openWallet(t, l, "payee"), Payer: openWallet(t, l, "payer"), FeeMsats: fee}
			conformance.Run(t, func(t *testing.T) conformance.Pair { return pair })
			if held := audit(t, l).HeldMsats; held != 0 {
				t.Errorf("%d msats are still held", held)
			}
		})
	}
}

func TestClientConformance(t *testing.T) {
	t.Parallel()
	l := openLedger(t, Config{FeeMsats: 7})
	_, url := serve(t, l)
	pair := conformance.Pair{Payee: dial(t, url, "payee"), Payer: dial(t, url, "payer"), FeeMsats: 7}
	conformance.Run(t, func(t *testing.T) conformance.Pair { return pair })
	if held := audit(t, l).HeldMsats; held != 0 {
		t.Errorf("%d msats are still held", held)
	}
}
