package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/lnd"
)

// TestDoctorClock: what is said of the clock has its own next step, whichever
// relay answers first.
func TestDoctorClock(t *testing.T) {
	relayAt := func(apart time.Duration) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(apart).UTC().Format(http.TimeFormat))
			fmt.Fprint(w, "{}")
		}))
		t.Cleanup(server.Close)
		return "ws" + strings.TrimPrefix(server.URL, "http")
	}
	right, wrong, away := relayAt(0), relayAt(-time.Hour), "ws://127.0.0.1:1"
	for _, c := range []struct {
		name               string
		relays             []string
		state, detail, fix string
	}{
		{"no answer", []string{away}, "warn", "no relay told the time", "once a relay answers"},
		{"apart", []string{wrong}, "warn", "apart from " + wrong, "set this machine's clock"},
		{"apart from the first", []string{wrong, right}, "warn", "apart from " + wrong, "set this machine's clock"},
		{"apart from the last", []string{right, wrong}, "warn", "apart from " + wrong, "set this machine's clock"},
		{"right", []string{right}, "ok", "within", ""},
		{"right, and one is away", []string{away, right}, "ok", "within", ""},
	} {
		found := finding{}
		for _, f := range checkRelays(t.Context(), &config.Config{Relays: c.relays}) {
			if f.Check == "clock" {
				found = f
			}
		}
		if found.State != c.state || !strings.Contains(found.Detail, c.detail) || !strings.Contains(found.Fix, c.fix) {
			t.Errorf("%s: %+v", c.name, found)
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
		got := plainWallet(c.err, config.Wallet{Backend: "lnd"}).Error()
		if !strings.HasPrefix(got, c.want) || strings.Contains(got, "rpc error") || strings.Contains(got, "dial tcp") {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if plainWallet(nil, config.Wallet{}) != nil {
		t.Error("a wallet that answers lacks something")
	}
}
