//go:build lnd

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/devnet"
)

// walletHints: what the operator is told of a macaroon that is too weak, of an
// lnd that is down and of one on another network is the next step, word for word.
func (n *lndNode) walletHints(t *testing.T, network *devnet.Network) {
	macaroon := filepath.Join(n.dir, "buyer.macaroon")
	good, err := os.ReadFile(macaroon)
	if err != nil {
		t.Fatal(err)
	}
	out, err := n.command("wallet", "status", "--role", "provider").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "receivable ") {
		t.Errorf("wallet status: %v\n%s", err, out)
	}
	if err := network.Bob.BakeMacaroon(t.Context(), macaroon, []string{"/lnrpc.Lightning/GetInfo"}); err != nil {
		t.Fatal(err)
	}
	n.told(t, "lncli bakemacaroon --save_to buyer.macaroon uri:/lnrpc.Lightning/GetInfo uri:/lnrpc.Lightning/ChannelBalance uri:/lnrpc.Lightning/ListChannels uri:/routerrpc.Router/SendPaymentV2", "wallet", "status")
	lacks := "the macaroon lacks uri:/lnrpc.Lightning/ChannelBalance uri:/lnrpc.Lightning/ListChannels uri:/routerrpc.Router/SendPaymentV2 uri:/routerrpc.Router/TrackPaymentV2\n"
	n.told(t, lacks, "doctor")
	n.told(t, "-> lncli bakemacaroon --save_to buyer.macaroon uri:/lnrpc.Lightning/GetInfo", "doctor")
	n.told(t, lacks, "buyer", "submit", "--max-sats", "100", "--cmd", "true")
	if err := os.WriteFile(macaroon, good, 0o600); err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(n.dir, "lightwork.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.ReplaceAll(string(text), network.Bob.Address(), "127.0.0.1:1")
	if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	n.told(t, "start lnd, or correct buyer.wallet.lnd.address", "wallet", "status")
	n.told(t, "-> start lnd, or correct buyer.wallet.lnd.address", "doctor")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := n.command("wallet", "status").CombinedOutput(); err != nil {
		t.Errorf("put right again: %v\n%s", err, out)
	}
}

// told runs a command that must fail with the words.
func (n *lndNode) told(t *testing.T, words string, args ...string) {
	t.Helper()
	out, err := n.command(args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), words) {
		t.Errorf("lightwork %s: %v, and not told %q:\n%s", strings.Join(args, " "), err, words, out)
	}
}
