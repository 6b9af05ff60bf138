package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/cashu"
	"github.com/lightwork-market/lightwork/payments/lnd"
)

// TestWalletHints: whatever wallet does not answer, the operator is told what to
// look at.
func TestWalletHints(t *testing.T) {
	away := fmt.Errorf("describe node: %w", payments.ErrWalletUnavailable)
	for _, c := range []struct {
		backend string
		err     error
		says    string
	}{
		{"lnd", away, "start lnd, or correct buyer.wallet.lnd.address"},
		{"lnd", lnd.ErrWalletLocked, "lncli unlock"},
		{"lnd", payments.ErrUnauthorized, "lncli bakemacaroon --save_to buyer.macaroon uri:"},
		{"lnd", payments.ErrWrongNetwork, "buyer.wallet.lnd.network"},
		{config.BackendOnchain, away, "start lnd"},
		{"nwc", away, "the relay that buyer.wallet.nwc.uri_file names"},
		{"cashu", away, "buyer.wallet.cashu.mint does not answer"},
		{"play", away, "play-serve runs the ledger"},
		{"nwc", payments.ErrUnsupported, "doctor checks the wallet"},
	} {
		if got := walletHint(c.err, "buyer", config.Wallet{Backend: c.backend}); !strings.Contains(got, c.says) {
			t.Errorf("%s, %v: %q", c.backend, c.err, got)
		}
	}
	for _, err := range []error{away, cashu.ErrCap, cashu.ErrMint} {
		if cashuHint(err) == "" {
			t.Errorf("%v: no hint", err)
		}
	}
}
