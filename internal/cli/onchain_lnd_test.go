//go:build lnd

package cli

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/devnet"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/internal/port"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/lnd"
)

// chainYAML is a node that buys and sells on the chain with one confirmation.
const chainYAML = `version: 1
identity: {provider_key_file: keys/provider.key, buyer_key_file: keys/buyer.key, root_secret_file: keys/preimage.secret}
relays: [ws://RELAY]
provider:
  wallet:
    backend: onchain
    lnd: {address: ALICE, tls_cert_file: ALICE_CERT, macaroon_file: provider.macaroon, network: simnet}
    onchain: {confirmations: 1}
  offers:
    - {schema: oa.sandbox_run.v1, modes: [prepay], per_minute_msats: 540000}
buyer:
  wallet:
    backend: onchain
    lnd: {address: BOB, tls_cert_file: BOB_CERT, macaroon_file: buyer.macaroon, network: simnet}
    onchain: {confirmations: 1}
  max_fee_msats: 50000000
  modes: [prepay]
`

// chainNode is a market whose money moves on a chain of the test's own.
type chainNode struct {
	*lndNode
	net   *devnet.Network
	payer *devnet.Node
	whole *testing.T // in which the provider runs
}

func startChainNode(t *testing.T, ctx context.Context) *chainNode {
	bins, err := devnet.Build(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	network, err := devnet.Start(ctx, devnet.Config{Dir: t.TempDir(), BinDir: bins})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(network.Stop)
	payer, err := network.AddNode(ctx, "carol") // the miner's coins would grow with every block
	if err != nil {
		t.Fatal(err)
	}
	if err := network.Fund(ctx, payer); err != nil {
		t.Fatal(err)
	}
	relay := port.Reserve(t)
	n := &chainNode{&lndNode{dir: t.TempDir(), ctx: ctx}, network, payer, t}
	if _, err := node.WriteSetup(n.dir, config.Setup{ProviderWallet: "none", BuyerWallet: "none", Relay: "ws://" + relay, Name: "on the chain"}); err != nil {
		t.Fatal(err)
	}
	for name, node := range map[string]*devnet.Node{"provider.macaroon": network.Alice, "buyer.macaroon": payer} {
		if err := node.BakeMacaroon(ctx, filepath.Join(n.dir, name), wallets.BothSides(lnd.ChainPayer, lnd.ChainPayee)); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.NewReplacer("RELAY", relay, "ALICE_CERT", network.Alice.TLSCertFile(), "ALICE", network.Alice.Address(),
		"BOB_CERT", payer.TLSCertFile(), "BOB", payer.Address()).Replace(chainYAML)
	if err := os.WriteFile(filepath.Join(n.dir, "lightwork.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n.start(t, "relay", "--listen", relay)
	n.provider = n.start(t, "provider", "run")
	n.untilListed(t)
	return n
}

// until waits for a word in what a command says.
func (n *chainNode) until(t *testing.T, word string, args ...string) string {
	t.Helper()
	var out []byte
	for n.ctx.Err() == nil {
		out, _ = n.command(args...).CombinedOutput()
		if strings.Contains(string(out), word) {
			return string(out)
		}
		time.Sleep(100 * time.Millisecond) // between questions, not for an answer
	}
	t.Fatalf("%v never says %q: %s", args, word, out)
	return ""
}

func (n *chainNode) balance(t *testing.T, role string) payments.Balance {
	t.Helper()
	doc, err := n.command("wallet", "status", "--json", "--role", role).Output()
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Balance payments.Balance }
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatal(err)
	}
	return v.Balance
}

// mineUntil mines while the purchase is not done.
func (n *chainNode) mineUntil(t *testing.T, done <-chan purchase.PurchaseView) purchase.PurchaseView {
	t.Helper()
	for {
		select {
		case v := <-done:
			return v
		case <-time.After(time.Second):
			if err := n.net.Mine(n.ctx, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// untilWaiting waits until a transaction is out and in no block. A wallet that has
// reserved coins for one may not have sent it yet.
func (n *chainNode) untilWaiting(t *testing.T) {
	t.Helper()
	for {
		txids, err := n.net.Waiting(n.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(txids) > 0 {
			return
		}
		time.Sleep(100 * time.Millisecond) // between questions, not for an answer
	}
}

// submit buys in the background.
func (n *chainNode) submit(t *testing.T, args ...string) <-chan purchase.PurchaseView {
	done := make(chan purchase.PurchaseView, 1)
	go func() {
		cmd := n.command(append([]string{"buyer", "submit", "--json", "--max-msats", "60000000"}, args...)...)
		cmd.Stderr = t.Output()
		doc, err := cmd.Output()
		var v purchase.PurchaseView
		if jerr := json.Unmarshal(doc, &v); jerr != nil {
			t.Errorf("buy: %v: %s", err, doc)
		}
		done <- v
	}()
	return done
}

// TestJobsOnTheChain buys and sells with transactions on a real chain, with the
// real programs as separate processes.
func TestJobsOnTheChain(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	n := startChainNode(t, ctx)
	t.Run("a macaroon that is too weak is named before anything is ordered", n.weakMacaroon)
	t.Run("what is too small is refused", func(t *testing.T) {
		v := <-n.submit(t, "--cmd", "echo dust", "--timeout", "30s")
		if v.State != "failed" || !strings.Contains(v.Reason, "price_too_small: the price is 540000 msats") {
			t.Fatalf("got %+v", v)
		}
	})
	t.Run("paid, with the provider killed before a block has it", n.killedWhilePending)
	t.Run("refunded, with the provider killed while the refund waits for a block", n.killedWhileRefunding)
}

// weakMacaroon: the buyer's permits all but to publish what it signs.
func (n *chainNode) weakMacaroon(t *testing.T) {
	macaroon := filepath.Join(n.dir, "buyer.macaroon")
	good, err := os.ReadFile(macaroon)
	if err != nil {
		t.Fatal(err)
	}
	const publish = "/walletrpc.WalletKit/PublishTransaction"
	rights := slices.DeleteFunc(wallets.BothSides(lnd.ChainPayer, lnd.ChainPayee), func(uri string) bool { return uri == publish })
	if err := n.payer.BakeMacaroon(n.ctx, macaroon, rights); err != nil {
		t.Fatal(err)
	}

	n.told(t, "the macaroon lacks uri:"+publish+"\n", "doctor")
	n.told(t, "-> lncli bakemacaroon --save_to buyer.macaroon uri:/lnrpc.Lightning/GetInfo uri:/lnrpc.Lightning/WalletBalance uri:/lnrpc.Lightning/GetTransactions uri:/walletrpc.WalletKit/EstimateFee", "doctor")
	n.told(t, "the macaroon lacks uri:"+publish+"\n", "buyer", "submit", "--max-sats", "60000", "--cmd", "true")
	if err := os.WriteFile(macaroon, good, 0o600); err != nil {
		t.Fatal(err)
	}
}

// killedWhilePending: the transaction is out and in no block when the provider
// dies; the block comes while it is down.
func (n *chainNode) killedWhilePending(t *testing.T) {
	before := n.balance(t, "buyer")
	bundle := filepath.Join(t.TempDir(), "bundle")
	done := n.submit(t, "--cmd", "echo from a block", "--timeout", "2m", "--out", bundle)
	n.until(t, "paying", "buyer", "list")
	n.untilWaiting(t)
	if err := n.provider.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = n.provider.Wait()
	if err := n.net.Mine(n.ctx, 1); err != nil {
		t.Fatal(err)
	}
	n.provider = n.start(n.whole, "provider", "run")
	v := n.mineUntil(t, done)
	if v.State != "done" || v.ReceiptID == "" || v.PaidMsats != 1_080_000 || v.FeeMsats < 1 {
		t.Fatalf("got %+v", v)
	}
	if after := n.balance(t, "buyer"); before.SpendableMsats-after.SpendableMsats != v.PaidMsats+v.FeeMsats {
		t.Errorf("%+v, then %+v, for %+v", before, after, v)
	}
	if got := n.balance(t, "provider"); got.ReceivedMsats != v.PaidMsats {
		t.Errorf("the provider has %+v", got)
	}
	verify := exec.CommandContext(n.ctx, filepath.Join(binDir, "lightwork-verify"), "--network", "chain:simnet", bundle)
	out, err := verify.CombinedOutput()
	if verify.ProcessState.ExitCode() != 3 || !strings.Contains(string(out), "only the chain shows it") {
		t.Errorf("verify: %v\n%s", err, out)
	}
	receipt, err := os.ReadFile(filepath.Join(bundle, "RECEIPT.json"))
	if err != nil || !strings.Contains(string(receipt), `"asset_id":"BTC_CHAIN(simnet)"`) || !strings.Contains(string(receipt), `"type":"onchain_txid"`) {
		t.Errorf("%s, %v", receipt, err)
	}
}
