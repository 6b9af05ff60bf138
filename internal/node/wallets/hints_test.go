package wallets

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/advice"
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
		{"play", away, advice.ServePlayMoney + " runs the ledger"},
		{"nwc", payments.ErrUnsupported, advice.Check + " checks the wallet"},
	} {
		if got := Hint(c.err, "buyer", config.Wallet{Backend: c.backend}); !strings.Contains(got, c.says) {
			t.Errorf("%s, %v: %q", c.backend, c.err, got)
		}
	}
	for _, err := range []error{away, cashu.ErrCap, cashu.ErrMint} {
		if CashuHint(err) == "" {
			t.Errorf("%v: no hint", err)
		}
	}
}

// TestPlainWallet: the screen and /readyz say what the wallet lacks and the next
// step, and nothing in the words of a library.
func TestPlainWallet(t *testing.T) {
	raw := errors.New("rpc error: code = Unavailable desc = connection error: dial tcp 127.0.0.1:10009: connect: connection refused")
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.Join(payments.ErrWalletUnavailable, raw), "the wallet does not answer; start lnd"},
		{errors.Join(lnd.ErrWalletLocked, raw), "the wallet is locked; lncli unlock"},
		{errors.Join(payments.ErrUnauthorized, raw), "the wallet refuses our credentials; lncli bakemacaroon"},
		{errors.Join(context.DeadlineExceeded, raw), "no answer in time; "},
	} {
		got := Plain(c.err, config.Wallet{Backend: "lnd"}).Error()
		if !strings.HasPrefix(got, c.want) || strings.Contains(got, "rpc error") || strings.Contains(got, "dial tcp") {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if Plain(nil, config.Wallet{}) != nil {
		t.Error("a wallet that answers lacks something")
	}
}
