//go:build lnd

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/devnet"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/port"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestJobsOnRealMint buys and sells in notes of a real mint, without any
// Lightning node, with the real programs as separate processes.
func TestJobsOnRealMint(t *testing.T) {
	requirements.Covers(t, "OA-4.2")
	bins, err := devnet.BuildMint(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	mint, err := devnet.StartMint(t.Context(), bins, filepath.Join(t.TempDir(), "mint"), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mint.Stop)
	relay := port.Reserve(t)
	n := &lndNode{dir: t.TempDir(), ctx: t.Context()}
	if _, err := node.WriteSetup(n.dir, config.Setup{
		ProviderWallet: "cashu", BuyerWallet: "cashu", Mint: mint.Address(), Relay: "ws://" + relay, Name: "on a mint", PerMinuteMsats: 20_000,
	}); err != nil {
		t.Fatal(err)
	}
	n.start(t, "relay", "--listen", relay)
	// The mint pays its own invoices here.
	out, err := n.command("wallet", "cashu-topup", "500").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "500 sat more") {
		t.Fatalf("%v\n%s", err, out)
	}
	n.start(t, "provider", "run")
	n.untilListed(t)

	bundle := filepath.Join(t.TempDir(), "bundle")
	if _, err := n.buy(t, "--cmd", "echo hello", "--out", bundle); err != nil {
		t.Fatal(err)
	}
	receipt, err := os.ReadFile(filepath.Join(bundle, "RECEIPT.json"))
	for _, member := range []string{`"rail":"cashu"`, `"asset_id":"BTC_CASHU(` + mint.Address() + `)"`, `"type":"cashu_proof"`} {
		if !strings.Contains(string(receipt), member) {
			t.Errorf("no %s in %s (%v)", member, receipt, err)
		}
	}
	network := "cashu:" + mint.Address()
	verify := exec.CommandContext(t.Context(), filepath.Join(binDir, "lightwork-verify"), "--network", network, bundle)
	if out, err := verify.CombinedOutput(); err != nil || !strings.Contains(string(out), "the promise of a mint") {
		t.Errorf("%v\n%s", err, out)
	}
	if got := n.spendable(t); got != 480_000 {
		t.Errorf("the buyer has %d msats, want 480000", got)
	}

	// What the provider has earned can be looked at while it runs.
	out, err = n.command("wallet", "status", "--role", "provider").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "spendable  20 sat") || !strings.Contains(string(out), "holds the bitcoin") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = n.command("wallet", "cashu-export", "--role", "provider", "7").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "hint: another lightwork has the wallet open") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = n.command("wallet", "cashu-export", "--role", "buyer", "7").Output()
	if err != nil || !strings.HasPrefix(string(out), "cashuA") {
		t.Errorf("%v\n%s", err, out)
	}
	if got := n.spendable(t); got != 473_000 {
		t.Errorf("the buyer has %d msats, want 473000", got)
	}
}
