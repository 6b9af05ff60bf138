//go:build lnd

package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/cli/jobs"
)

// killedWhileRefunding: the job is not to be paid for, so that what came for it
// goes back, less the miners' fee, in one transaction however often the provider
// starts.
func (n *chainNode) killedWhileRefunding(t *testing.T) {
	before, held := n.balance(t, "buyer"), n.balance(t, "provider")
	done := n.submit(t, "--cmd", "false", "--expect-success", "--timeout", "1h")
	n.untilWaiting(t)
	if err := n.net.Mine(n.ctx, 1); err != nil {
		t.Fatal(err)
	}
	n.until(t, "on their way back", "provider", "debts")
	n.untilWaiting(t)
	if err := n.provider.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = n.provider.Wait()
	n.provider = n.start(n.whole, "provider", "run")
	v := <-done
	if v.State != "failed" || v.PaidMsats != 32_400_000 {
		t.Fatalf("got %+v", v)
	}
	n.until(t, "sees the prepayment come back", "buyer", "resume", v.RequestID)
	if err := n.net.Mine(n.ctx, 1); err != nil {
		t.Fatal(err)
	}
	n.until(t, "sent back, fee", "provider", "debts")
	n.until(t, "the prepayment came back", "buyer", "resume", v.RequestID)
	n.until(t, "refunded ", "buyer", "show", v.RequestID)
	doc, err := n.command("provider", "debts", "--json").Output()
	var debts []jobs.DebtView
	if err == nil {
		err = json.Unmarshal(doc, &debts)
	}
	if err != nil || len(debts) != 1 {
		t.Fatalf("%s, %v", doc, err)
	}
	d := debts[0]
	if d.OwedMsats != 32_400_000 || d.RefundMsats+d.FeeMsats+d.CreditMsats != d.OwedMsats || d.Outpoint == "" || len(d.Attempts) != 0 {
		t.Errorf("%+v", d)
	}
	out := n.until(t, "only the chain shows it: ask a node of yours whether", "buyer", "dispute", v.RequestID, "--out", filepath.Join(t.TempDir(), "dispute"))
	if !strings.Contains(out, " 32400 sat, with at least 1 confirmations") {
		t.Errorf("%s", out)
	}
	if after := n.balance(t, "buyer"); before.SpendableMsats-after.SpendableMsats != v.PaidMsats+v.FeeMsats-d.RefundMsats {
		t.Errorf("the buyer had %+v, has %+v; %+v for %+v", before, after, d, v)
	}
	if after := n.balance(t, "provider"); after.SpendableMsats-held.SpendableMsats != d.CreditMsats {
		t.Errorf("the provider had %+v, has %+v; %+v", held, after, d)
	}
}
