//go:build lnd

package crashmatrix

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/devnet"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
)

// killMint is SIGKILL of the mint.
const killMint way = "mint"

// cashuTable is every crash point of a payment in notes of a mint. The names are
// those of the Lightning table, with an m for the mint: what is new is what goes to
// the mint and back.
func cashuTable() []cell {
	both := []way{killNode, killMint}
	node := []way{killNode}
	var cells []cell
	for _, row := range [][]cell{
		point("P4m", "7000 signed, not published", seller, node, "node sends 7000-payment-required"),
		point("B1m", "lock committed, the mint not asked", customer, both, "buyer asks /v1/swap"),
		point("B2m", "notes locked, the answer lost", customer, both, "buyer hears /v1/swap"),
		point("B3m", "notes locked, the message not sent", customer, node, "node sends 1059"),
		point("P5m", "message kept, the mint not asked", seller, both, "provider asks /v1/checkstate"),
		point("P6m", "notes are good, not recorded", seller, both, "provider hears /v1/checkstate"),
		point("P9m", "result durable, not published", seller, node, "node sends 6050"),
		point("P11m", "claim committed, the mint not asked", seller, both, "provider asks /v1/swap"),
		point("P10m", "preimage shown, the answer lost", seller, both, "provider hears /v1/swap"),
		point("B6m", "paid, not recorded", customer, both, "provider hears /v1/swap", "buyer hears /v1/checkstate"),
		point("P12m", "receipt recorded, not sent", seller, node, "node sends 7002"),
	} {
		cells = append(cells, with(row, func(c *cell) { c.rail = inNotes })...)
	}
	return cells
}

// cashuWorld is a market without lnd: a relay and a mint, and one proxy before
// each. Both sides must name the same mint and the same relay, so the proxies are
// shared, and tell the sides apart.
type cashuWorld struct {
	*world
	mint *devnet.Mint
	line *mintLine
}

func newCashuWorld(t *testing.T, ctx context.Context) *cashuWorld {
	t.Helper()
	bins, err := devnet.BuildMint(ctx, "")
	check(t, err)
	mint, err := devnet.StartMint(ctx, bins, filepath.Join(t.TempDir(), "mint"), 0)
	check(t, err)
	t.Cleanup(mint.Stop)
	w := &cashuWorld{
		world: &world{root: t, ctx: ctx, dir: t.TempDir(), trap: &trap{}, keys: map[string]*relay.Key{}},
		mint:  mint,
	}
	nodes := w.startSharedRelay(t)
	w.line = newMintLine(t, w.trap, mint.Address())
	for _, role := range []string{seller, customer} {
		dir := filepath.Join(w.dir, role)
		out, err := w.lightwork("init", "--dir", dir, "--role", role, "--wallet", "cashu", "--mint", w.line.address(), "--relay", nodes.url()).CombinedOutput()
		if err != nil {
			t.Fatalf("init: %v\n%s", err, out)
		}
		w.keys[role], err = relay.LoadKey(filepath.Join(dir, "keys", role+".key"))
		check(t, err)
	}
	w.edit(t, seller, "unpaid_per_buyer: 8", "unpaid_per_buyer: 256")
	w.edit(t, customer, "max_msats_per_day: 1000000", fmt.Sprintf("max_msats_per_day: %d", dayMsats))
	w.edit(t, customer, "max_msats_per_provider_and_day: 500000", "max_msats_per_provider_and_day: 0")
	k, err := store.Open(ctx, w.dataDir(customer), store.Options{})
	check(t, err)
	check(t, k.Close())
	if out, err := w.as(customer, "wallet", "cashu-topup", "5000").CombinedOutput(); err != nil {
		t.Fatalf("top up: %v\n%s", err, out)
	}
	w.sellForNotes(t)
	w.await(t, "the buyer finds the provider", func() bool {
		out, _ := w.as(customer, "buyer", "discover").Output()
		return strings.Contains(string(out), "npub1")
	})
	return w
}

// startSharedRelay starts the relay behind its link. It hands out messages that
// pay only to who authenticates, for its address as the nodes know it.
func (w *cashuWorld) startSharedRelay(t *testing.T) *link {
	t.Helper()
	const name = "relay"
	check(t, w.lightwork("init", "--dir", filepath.Join(w.dir, name)).Run())
	w.openBlobs(t, name)
	l := listen(t)
	w.relays[0] = l.address()
	l.Close() // to be the relay's
	nodes := newLink(t, "node", w.trap, w.relays[0])
	w.edit(t, name, "# public_url: https://relay.example.com", "public_url: http://"+nodes.line.address())
	w.begin(t, w.as(name, "relay", "--listen", w.relays[0]), name)
	return nodes
}

func (w *cashuWorld) sellForNotes(t *testing.T) {
	t.Helper()
	w.sell(t)
	w.line.seller.Store(int64(w.selling.cmd.Process.Pid))
}

// play is one job with one blow.
func (w *cashuWorld) play(t *testing.T, c cell) {
	defer func() {
		if t.Failed() {
			t.Logf("the provider said:\n%s", w.selling.tail())
		}
	}()
	before := w.count(t)
	var buying *process
	began := make(chan struct{})
	struck := w.trap.arm(c.steps(t, w.world), func() verdict {
		<-began // buying is set
		switch {
		case c.way == killMint:
			w.mint.Kill()
		case c.victim == seller:
			w.selling.kill()
		default:
			buying.kill()
		}
		return drop
	})
	buying = w.buy(t, "--cmd", "echo done")
	close(began)
	w.until(t, struck, buying)
	w.ledger(t) // adds up while the victim is down, too
	switch {
	case c.way == killMint:
		check(t, w.mint.Start(w.ctx))
	case c.victim == seller:
		w.sellForNotes(t)
	}
	w.finish(t, buying)
	w.onceInNotes(t, before)
}

// count reads the books; both wallets' notes are the money.
func (w *cashuWorld) count(t *testing.T) (b books) {
	t.Helper()
	b.sellerMsats, b.buyerMsats = w.notes(t, seller), w.notes(t, customer)
	b.spentMsats, b.reservedMsats = w.ledger(t)
	w.inside(t, customer, func(k *store.Store) {
		all, err := k.Purchases().Purchases(w.ctx, 0)
		check(t, err)
		b.purchases = len(all)
	})
	w.inside(t, seller, func(k *store.Store) {
		all, err := k.Sales("").Jobs(w.ctx, 0)
		check(t, err)
		b.jobs = len(all)
	})
	return b
}

// notes is what a side's wallet can spend; nothing may be under way in it.
func (w *cashuWorld) notes(t *testing.T, role string) int64 {
	t.Helper()
	var status struct {
		Balance payments.Balance `json:"balance"`
	}
	w.json(t, &status, w.as(role, "wallet", "status", "--json", "--role", role))
	if status.Balance.ReservedMsats != 0 {
		t.Errorf("%d msats of the %s are under way", status.Balance.ReservedMsats, role)
	}
	return status.Balance.SpendableMsats
}

// onceInNotes is once for the money of a mint.
func (w *cashuWorld) onceInNotes(t *testing.T, before books) {
	t.Helper()
	job := w.sold(t)
	p, bundle := w.purchase(t)
	after := w.count(t)
	if job.State != provider.StateSucceeded || p.State != buyer.StateDone || job.RequestID != p.RequestID || job.ReceiptID != p.ReceiptID {
		t.Fatalf("job %s %s (%s), purchase %s %s (%s)", job.RequestID, job.State, job.Reason, p.RequestID, p.State, p.Reason)
	}
	if after.jobs != before.jobs+1 || after.purchases != before.purchases+1 || w.receiptsOf(t, job.RequestID) != 1 {
		t.Errorf("%d jobs, %d purchases, %d receipts", after.jobs-before.jobs, after.purchases-before.purchases, w.receiptsOf(t, job.RequestID))
	}
	if got := after.sellerMsats - before.sellerMsats; got != priceMsats {
		t.Errorf("the provider got %d msats, not %d", got, priceMsats)
	}
	if cost := before.buyerMsats - after.buyerMsats; cost != priceMsats || after.spentMsats-before.spentMsats != cost || after.reservedMsats != before.reservedMsats {
		t.Errorf("the buyer lost %d msats for a job of %d; its budget before %+v, after %+v", cost, priceMsats, before, after)
	}
	network, err := payments.CashuNetwork(w.line.address())
	check(t, err)
	report := receipts.Verify(bundle, receipts.Pins{Provider: w.keys[seller].PublicKey(), Buyer: w.keys[customer].PublicKey(), Network: network})
	if report.ExitCode() != receipts.ExitProved || report.ReceiptID != p.ReceiptID {
		t.Errorf("receipt %s: %+v", report.ReceiptID, report.Claims)
	}
	w.saidOnce(t, p, 0, "7000-payment-required", "6050", "7002")
}
