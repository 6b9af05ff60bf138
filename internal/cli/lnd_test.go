//go:build lnd

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/demo"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/devnet"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/port"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/lnd"
)

// TestJobsOnLightning buys and sells over two real lnd nodes, with the real
// programs as separate processes.
func TestJobsOnLightning(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	bins, err := devnet.Build(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	network, err := devnet.Start(ctx, devnet.Config{Dir: t.TempDir(), BinDir: bins})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(network.Stop)

	for _, job := range demoJobs {
		t.Run("demo "+job, func(t *testing.T) { demoOnLightning(t, network, job) })
	}
	t.Run("demo text_generation", func(t *testing.T) {
		bundle := demoOnLightning(t, network, "text_generation", "--endpoint", modelServer(t).URL, "--model", "m")
		if result, err := os.ReadFile(filepath.Join(bundle, "RESULT.json")); err != nil || !strings.Contains(string(result), modelWords) {
			t.Errorf("result %s, %v", result, err)
		}
	})

	n := startNode(t, ctx, network)
	t.Run("wallet hints", func(t *testing.T) { n.walletHints(t, network) })
	t.Run("hold, failed job costs nothing", n.failedHold)
	t.Run("prepay", n.prepay)
	t.Run("provider killed with the payment held", n.killedWhileHeld)
	t.Run("engagement fee", n.engagementFee)
}

// demoOnLightning plays a whole sale of one job type, and returns the bundle's folder.
func demoOnLightning(t *testing.T, network *devnet.Network, job string, flags ...string) (bundle string) {
	requirements.Covers(t, "K-48")
	dir := filepath.Join(t.TempDir(), "out")
	args := append([]string{"demo", "--json", "--job", job, "--out", dir, "--provider-lnd", lndFlag(network.Alice), "--buyer-lnd", lndFlag(network.Bob)}, flags...)
	cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "lightwork"), args...)
	cmd.Stderr = t.Output()
	doc, err := cmd.Output()
	if err != nil {
		t.Fatalf("demo: %v\n%s", err, doc)
	}
	var out demo.Outcome
	if err := json.Unmarshal(doc, &out); err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"payee_pinned"}, demo.Required...) {
		if out.Claims[name] != "proved" {
			t.Errorf("%s is %q", name, out.Claims[name])
		}
	}
	receipt, err := os.ReadFile(filepath.Join(out.Bundle, "RECEIPT.json"))
	if err != nil || !strings.Contains(string(receipt), `"asset_id":"BTC_LN(simnet)"`) {
		t.Errorf("receipt %s, %v", receipt, err)
	}
	return out.Bundle
}

func lndFlag(n *devnet.Node) string {
	return n.Address() + "," + n.TLSCertFile() + "," + n.MacaroonFile()
}

// lndNode is a market on real wallets, each with a macaroon of its role only.
type lndNode struct {
	dir      string
	ctx      context.Context // of the whole test: processes outlive a subtest
	provider *exec.Cmd
}

func startNode(t *testing.T, ctx context.Context, network *devnet.Network) *lndNode {
	n := &lndNode{dir: t.TempDir(), ctx: ctx}
	relay := port.Reserve(t)
	wallet := func(node *devnet.Node, role lnd.Role, name string) config.LND {
		macaroon := filepath.Join(n.dir, name)
		if err := node.BakeMacaroon(ctx, macaroon, lnd.PermissionURIs(role)); err != nil {
			t.Fatal(err)
		}
		return config.LND{Address: node.Address(), TLSCertFile: node.TLSCertFile(), MacaroonFile: macaroon, Network: payments.Simnet}
	}
	_, err := node.WriteSetup(n.dir, config.Setup{
		ProviderWallet: "lnd", BuyerWallet: "lnd", Relay: "ws://" + relay, Name: "on lightning", PerMinuteMsats: 20_000,
		ProviderLND: wallet(network.Alice, lnd.Payee, "provider.macaroon"),
		BuyerLND:    wallet(network.Bob, lnd.Payer, "buyer.macaroon"),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(n.dir, "lightwork.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	allowed := strings.Replace(string(text), "[hold, postpay, free]", "[hold, prepay, postpay, free]", 1)
	if err := os.WriteFile(file, []byte(allowed), 0o600); err != nil {
		t.Fatal(err)
	}
	n.start(t, "relay", "--listen", relay)
	n.provider = n.start(t, "provider", "run")
	n.untilListed(t)
	return n
}

func (n *lndNode) command(args ...string) *exec.Cmd {
	args = append([]string{"-c", filepath.Join(n.dir, "lightwork.yaml")}, args...)
	return exec.CommandContext(n.ctx, filepath.Join(binDir, "lightwork"), args...)
}

// start runs a command until the test ends.
func (n *lndNode) start(t *testing.T, args ...string) *exec.Cmd {
	cmd := n.command(args...)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return cmd
}

func (n *lndNode) untilListed(t *testing.T) {
	t.Helper()
	for n.ctx.Err() == nil {
		out, _ := n.command("buyer", "discover").Output()
		if strings.Contains(string(out), "npub1") {
			return
		}
	}
	t.Fatal("no provider is listed")
}

// spendable is the buyer's balance in msats.
func (n *lndNode) spendable(t *testing.T) int64 {
	t.Helper()
	doc, err := n.command("wallet", "status", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Balance payments.Balance }
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatal(err)
	}
	return v.Balance.SpendableMsats
}

// untilSpendable waits until the last HTLC is off the balance.
func (n *lndNode) untilSpendable(t *testing.T, want int64) {
	t.Helper()
	end := time.Now().Add(patience)
	for got := n.spendable(t); got != want; got = n.spendable(t) {
		if time.Now().After(end) {
			t.Fatalf("the buyer can spend %d msats, want %d", got, want)
		}
	}
}

// buy submits a job and returns what it printed.
func (n *lndNode) buy(t *testing.T, args ...string) (purchase.PurchaseView, error) {
	t.Helper()
	cmd := n.command(append([]string{"buyer", "submit", "--json", "--max-msats", "60000"}, args...)...)
	cmd.Stderr = t.Output()
	doc, err := cmd.Output()
	var v purchase.PurchaseView
	if jerr := json.Unmarshal(doc, &v); jerr != nil && err == nil {
		t.Fatal(jerr)
	}
	return v, err
}

// failedHold buys a job that states which exit code it wants and gets another:
// the hold is cancelled and the balance is whole to the msat.
func (n *lndNode) failedHold(t *testing.T) {
	requirements.Covers(t, "K-47", "OA-3.6")
	list, err := n.command("buyer", "discover", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []struct {
		HostImage string `json:"host_image_digest"`
	}
	if err := json.Unmarshal(list, &found); err != nil || len(found) != 1 {
		t.Fatalf("discovered %s: %v", list, err)
	}
	request := filepath.Join(t.TempDir(), "request.json")
	doc := `{"sandbox":{"provider":"host","image_digest":"` + found[0].HostImage + `"},"commands":[{"cmd":"exit 3"}],` +
		`"verification":{"expected":{"exit_codes":[0]}}}`
	if err := os.WriteFile(request, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	before := n.spendable(t)
	v, err := n.buy(t, "--input", request)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != advice.ExitFailed || !strings.Contains(v.Reason, "expectation_not_met") {
		t.Fatalf("got %+v, %v", v, err)
	}
	n.untilSpendable(t, before)
	jobs, err := n.command("jobs", "show", v.RequestID[:12], "--json").Output()
	if err != nil || !strings.Contains(string(jobs), `"state": "failed"`) || strings.Contains(string(jobs), "receipt_id") {
		t.Fatalf("the provider's job: %s, %v", jobs, err)
	}
}

func (n *lndNode) prepay(t *testing.T) {
	before := n.spendable(t)
	out := filepath.Join(t.TempDir(), "bundle")
	v, err := n.buy(t, "--cmd", "echo paid first", "--mode", "prepay", "--out", out)
	if err != nil || v.State != "done" || v.ReceiptID == "" || v.PaidMsats != 20_000 {
		t.Fatalf("got %+v, %v", v, err)
	}
	n.untilSpendable(t, before-v.PaidMsats-v.FeeMsats)
	verify := exec.CommandContext(t.Context(), filepath.Join(binDir, "lightwork-verify"), "--network", "simnet", out)
	if doc, err := verify.CombinedOutput(); err != nil {
		t.Fatalf("verify: %v\n%s", err, doc)
	}
}

// killedWhileHeld kills the provider while its agent works on a held payment:
// the next life runs the job again, settles once and leaves one receipt.
func (n *lndNode) killedWhileHeld(t *testing.T) {
	before := n.spendable(t)
	done := make(chan purchase.PurchaseView, 1)
	go func() {
		v, err := n.buy(t, "--cmd", "sleep 3; echo survived")
		if err != nil {
			t.Errorf("buy: %v", err)
		}
		done <- v
	}()
	for {
		jobs, err := n.command("jobs", "list", "--limit", "1").Output()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(jobs), "running") {
			break
		}
		if n.ctx.Err() != nil {
			t.Fatal("the job never ran")
		}
	}
	if err := n.provider.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = n.provider.Wait()
	n.provider = n.start(t, "provider", "run")
	v := <-done
	if v.State != "done" || v.ReceiptID == "" {
		t.Fatalf("got %+v", v)
	}
	n.untilSpendable(t, before-20_000-v.FeeMsats)
	doc, err := n.command("jobs", "show", v.RequestID[:12], "--json").Output()
	if err != nil || !strings.Contains(string(doc), `"run": 2`) || !strings.Contains(string(doc), `"state": "succeeded"`) {
		t.Fatalf("the provider's job: %s, %v", doc, err)
	}
}
