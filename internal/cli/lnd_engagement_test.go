//go:build lnd

package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lightwork-market/lightwork/internal/advice"
)

// engagementFee buys two attempts of which one is as expected: each pays the fee
// by a payment of its own, before the price, and only one pays that.
func (n *lndNode) engagementFee(t *testing.T) {
	file := filepath.Join(n.dir, "lightwork.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"engagement_msats: 2000", "max_engagement_msats: 2000"} {
		asked := strings.Replace(string(text), "# "+key, key, 1)
		if asked == string(text) {
			t.Fatalf("the configuration has no %s", key)
		}
		text = []byte(asked)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = n.provider.Process.Signal(syscall.SIGTERM) // one that the test before began has ended with it
	_ = n.provider.Wait()
	n.provider = n.start(t, "provider", "run")
	for { // the announcement with the fee takes the place of the one without
		out, _ := n.command("buyer", "discover").Output()
		if strings.Contains(string(out), "2 sat for an attempt") {
			break
		}
		if n.ctx.Err() != nil {
			t.Fatal("the fee is not announced")
		}
	}

	before := n.spendable(t)
	met, err := n.buy(t, "--cmd", "true", "--expect-success")
	if err != nil || met.State != "done" || met.PaidMsats != 20_000 || met.EngagementMsats != 2_000 || met.ReceiptID == "" {
		t.Fatalf("got %+v, %v", met, err)
	}
	n.untilSpendable(t, before-22_000-met.FeeMsats)
	for _, id := range []string{met.ReceiptID, met.EngagementReceipt} {
		bundle := filepath.Join(t.TempDir(), "bundle")
		if out, err := n.command("receipts", "export", "--out", bundle, id).CombinedOutput(); err != nil {
			t.Fatalf("export %s: %v\n%s", id, err, out)
		}
		verify := exec.CommandContext(n.ctx, filepath.Join(binDir, "lightwork-verify"), "--network", "simnet", bundle)
		out, err := verify.CombinedOutput()
		var exit *exec.ExitError
		if id == met.ReceiptID && err != nil || id != met.ReceiptID && !strings.Contains(string(out), "2000 msats BTC_LN(simnet), mode prepay, for the engagement") ||
			err != nil && !errors.As(err, &exit) {
			t.Fatalf("verify %s: %v\n%s", id, err, out)
		}
	}

	before = n.spendable(t)
	unmet, err := n.buy(t, "--cmd", "false", "--expect-success")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != advice.ExitFailed || unmet.PaidMsats != 0 || unmet.EngagementMsats != 2_000 {
		t.Fatalf("got %+v, %v", unmet, err)
	}
	n.untilSpendable(t, before-2_000)
}
