//go:build lnd

package crashmatrix

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/devnet"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/lnd"
	"github.com/lightwork-market/lightwork/relay"
)

// chainWorld is the market where money moves in transactions. The buyer's coins
// are those of a third lnd: Bob is the miner, and his grow with every block.
type chainWorld struct {
	*world
	payer *devnet.Node
}

func newChainWorld(t *testing.T, ctx context.Context) *chainWorld {
	t.Helper()
	network, err := devnet.Start(ctx, devnet.Config{Dir: filepath.Join(t.TempDir(), "net")})
	check(t, err)
	t.Cleanup(network.Stop)
	payer, err := network.AddNode(ctx, "carol")
	check(t, err)
	check(t, network.Fund(ctx, payer))
	w := &chainWorld{&world{
		Network: network, root: t, ctx: ctx, dir: t.TempDir(), trap: &trap{},
		wires: map[string]*wire{}, links: map[string]*link{}, keys: map[string]*relay.Key{},
	}, payer}
	w.relays[0] = w.startRelay(t, "relay1")
	w.setUpOnChain(t, seller, network.Alice)
	w.setUpOnChain(t, customer, payer)
	k, err := store.Open(ctx, w.dataDir(customer), store.Options{})
	check(t, err)
	check(t, k.Close())
	w.sell(t)
	w.await(t, "the buyer finds the provider", func() bool {
		out, _ := w.as(customer, "buyer", "discover").Output()
		return strings.Contains(string(out), "npub1")
	})
	return w
}

// setUpOnChain makes a side's node whose macaroon permits what the chain and
// refunds on it need.
func (w *chainWorld) setUpOnChain(t *testing.T, role string, node *devnet.Node) {
	t.Helper()
	dir := filepath.Join(w.dir, role)
	w.links[role] = newLink(t, role, w.trap, w.relays[0])
	out, err := w.lightwork("init", "--dir", dir, "--role", role, "--wallet", "onchain", "--relay", w.links[role].url()).CombinedOutput()
	if err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	check(t, os.MkdirAll(filepath.Join(dir, "lnd"), 0o700))
	uris := slices.Concat(lnd.PermissionURIs(lnd.ChainPayee), lnd.PermissionURIs(lnd.ChainPayer))
	slices.Sort(uris)
	check(t, node.BakeMacaroon(w.ctx, filepath.Join(dir, "lnd", role+".macaroon"), slices.Compact(uris)))
	w.wires[role] = newWire(t, role, w.trap, node.Address(), node.TLSCertFile(), filepath.Join(dir, "lnd", "tls.cert"))
	w.edit(t, role, "address: 127.0.0.1:10009", "address: "+w.wires[role].line.address())
	w.edit(t, role, "confirmations: 3 ", "confirmations: 1 ")
	if role == seller {
		w.edit(t, role, "unpaid_per_buyer: 8", "unpaid_per_buyer: 256")
	} else {
		w.edit(t, role, "max_msats_per_day: 100000000", fmt.Sprintf("max_msats_per_day: %d", dayMsats))
		w.edit(t, role, "max_msats_per_provider_and_day: 50000000", "max_msats_per_provider_and_day: 0")
	}
	w.keys[role], err = relay.LoadKey(filepath.Join(dir, "keys", role+".key"))
	check(t, err)
}

// coins are a side's money on the chain, also what is leased or in no block.
func (w *chainWorld) coins(t *testing.T, role string) (msats int64) {
	t.Helper()
	var status struct{ Balance payments.Balance }
	w.json(t, &status, w.as(role, "wallet", "status", "--json", "--role", role))
	return status.Balance.SpendableMsats + status.Balance.ReservedMsats
}

// mining mines a block every half second until it is stopped.
func (w *chainWorld) mining(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	var miner sync.WaitGroup
	miner.Go(func() {
		for ctx.Err() == nil {
			if err := w.Mine(ctx, 1); err != nil && ctx.Err() == nil {
				t.Errorf("mine: %v", err)
				return
			}
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return func() { cancel(); miner.Wait() }
}

func (w *chainWorld) lndOf(role string) *devnet.Node {
	if role == seller {
		return w.Alice
	}
	return w.payer
}
