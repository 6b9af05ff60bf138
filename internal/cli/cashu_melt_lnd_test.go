//go:build lnd

package cli

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/devnet"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// TestMeltOnRealMint pays a Lightning invoice with the notes of a real mint.
func TestMeltOnRealMint(t *testing.T) {
	n := cashuNode(t)
	out, err := n.command("wallet", "cashu-topup", "500").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	invoice := strangersInvoice(t, 100_000)
	out, err = n.command("wallet", "cashu-melt", "--role", "buyer", invoice).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "hint: --yes pays without asking") {
		t.Errorf("nobody was asked: %v\n%s", err, out)
	}
	if got := n.spendable(t); got != 500_000 {
		t.Errorf("the buyer has %d msats, want 500000", got)
	}
	for range 2 { // the second time it is paid already
		out, err = n.command("wallet", "cashu-melt", "--role", "buyer", "--yes", invoice).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "paid; it cost 100 sat") {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if got := n.spendable(t); got != 400_000 {
		t.Errorf("the buyer has %d msats, want 400000", got)
	}
	out, err = n.command("wallet", "cashu-melt", "--role", "buyer").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "paid       100 sat  cost 100 sat") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRestoreOnRealMint finds the notes again after the data folder is lost, with
// the seed that was backed up in a new node's place.
func TestRestoreOnRealMint(t *testing.T) {
	n := cashuNode(t)
	if out, err := n.command("wallet", "cashu-topup", "500").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := n.command("wallet", "cashu-melt", "--role", "buyer", "--yes", strangersInvoice(t, 100_000)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.RemoveAll(filepath.Join(n.dir, "data")); err != nil {
		t.Fatal(err)
	}
	if got := n.spendable(t); got != 0 {
		t.Fatalf("the data was not lost: %d msats", got)
	}
	for _, want := range []string{"400 sat in ", "0 sat in 0 notes"} {
		out, err := n.command("wallet", "cashu-restore").CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v\n%s", err, out)
		}
		if got := n.spendable(t); got != 400_000 {
			t.Errorf("the buyer has %d msats, want 400000", got)
		}
	}
}

// cashuNode is a node, not running, whose wallets are on a real mint.
func cashuNode(t *testing.T) *lndNode {
	t.Helper()
	bins, err := devnet.BuildMint(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	mint, err := devnet.StartMint(t.Context(), bins, filepath.Join(t.TempDir(), "mint"), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mint.Stop)
	n := &lndNode{dir: t.TempDir(), ctx: t.Context()}
	if _, err := node.WriteSetup(n.dir, config.Setup{
		ProviderWallet: "cashu", BuyerWallet: "cashu", Mint: mint.Address(), Relay: "ws://127.0.0.1:1", Name: "on a mint", PerMinuteMsats: 20_000,
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// strangersInvoice is of a node that nobody runs: the mint's own is made up too.
func strangersInvoice(t *testing.T, msats int64) string {
	t.Helper()
	key, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	text, err := bolt11.Encode(&bolt11.Invoice{
		Network: payments.Regtest, AmountMsats: msats, CreatedAt: time.Now().Truncate(time.Second), PaymentHash: payments.Hash(key.Serialize()),
		Expiry: time.Hour, Payee: hex.EncodeToString(key.PubKey().SerializeCompressed()), Features: []int{8, 14},
	}, func(digest [32]byte) ([65]byte, error) { return [65]byte(ecdsa.SignCompact(key, digest[:], true)), nil })
	if err != nil {
		t.Fatal(err)
	}
	return text
}
