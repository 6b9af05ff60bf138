//go:build lnd

package crashmatrix

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/provider"
)

const (
	published moment = "buyer hears PublishTransaction"

	chainMaxMsats = 25_000_000 // of a job on the chain
)

// chainPoint is a row of the table for the chain; as names its point among those
// of Lightning, a refund standing for the cancelled hold. Once the buyer has heard that
// its transaction is out a block is mined, if the moment is later than that.
func chainPoint(name, as, what, victim string, ways []way, at ...moment) []cell {
	return with(point(name, what, victim, ways, at...), func(c *cell) {
		c.rail, c.as = onChain, as
		c.steps = func(t *testing.T, w *world) (steps []step) {
			for i, m := range at {
				s := step{at: m}
				if m == published && i < len(at)-1 {
					s.do = func() { check(t, w.Mine(w.ctx, 1)) }
				}
				steps = append(steps, s)
			}
			return steps
		}
	})
}

// refunded makes the cells of a row buy what is not to be paid for.
func refunded(cells []cell) []cell {
	return with(cells, func(c *cell) {
		c.args = func(*testing.T, *world) []string {
			return []string{"--cmd", "false", "--expect-success", "--timeout", "10m"}
		}
	})
}

// chainTable is every crash point of a payment on the chain, and of its refund.
func chainTable() (cells []cell) {
	for _, row := range [][]cell{
		chainPoint("O1", "P3", "address made, reply lost", seller, nodeLND, "provider hears NewAddress"),
		chainPoint("O2", "P2", "address committed, not signed for", seller, nodeLND, "provider asks AddHoldInvoice"),
		chainPoint("O3", "B1", "inputs leased, reply lost", customer, nodeLND, "buyer hears FundPsbt"),
		chainPoint("O4", "B1", "signed, not written down", customer, nodeLND, "buyer hears FinalizePsbt"),
		chainPoint("O5", "B1", "written down, not published", customer, nodeLND, "buyer asks PublishTransaction"),
		chainPoint("O6", "B2", "published, reply lost", customer, nodeLND, published),
		chainPoint("O7", "P5", "transaction seen, in no block", seller, nodeLND, "buyer asks PublishTransaction", published, "provider hears GetTransactions"),
		chainPoint("O8", "B6", "confirmed, not recorded by the payer", customer, nodeLND, published, "buyer asks GetTransaction", "buyer hears GetTransaction"),
		chainPoint("O9", "P5", "confirmed, not recorded by the payee", seller, nodeLND, published, "provider asks GetTransactions", "provider hears GetTransactions"),
		chainPoint("O10", "P9", "result recorded, not sent", seller, nodeLND, published, "provider sends 6050"),
		chainPoint("O11", "P12", "receipt recorded, not sent", seller, nodeLND, published, "provider sends 7002"),
		refunded(chainPoint("O12", "P15", "refund signed, not written down", seller, nodeLND, published, "provider hears FinalizePsbt")),
		refunded(chainPoint("O13", "P15", "refund written down, not published", seller, nodeLND, published, "provider asks PublishTransaction")),
		refunded(chainPoint("O14", "P15", "refund published, reply lost", seller, nodeLND, published, "provider hears PublishTransaction")),
		refunded(chainPoint("O15", "P15", "refund published, not confirmed", seller, nodeLND, published, "provider hears PublishTransaction", "provider asks GetTransaction")),
	} {
		cells = append(cells, row...)
	}
	return cells
}

// playOnChain is one job with one blow. Nothing is mined between the blow and the
// victim's return.
func (w *chainWorld) playOnChain(t *testing.T, c cell) {
	defer func() {
		if t.Failed() {
			t.Logf("the provider said:\n%s", w.selling.tail())
		}
	}()
	sold, bought := w.coins(t, seller), w.coins(t, customer)
	steps := c.steps(t, w.world)
	at := steps[len(steps)-1].at
	var buying *process
	began := make(chan struct{})
	struck := w.trap.arm(steps, func() verdict {
		<-began
		switch {
		case c.way == killLND:
			w.lndOf(c.victim).Kill()
		case c.victim == seller:
			w.selling.kill()
		default:
			buying.kill()
		}
		if strings.HasPrefix(string(at), c.victim) && (c.way != killLND || !at.onRelay()) {
			return drop
		}
		return pass
	})
	args := []string{"--cmd", "echo done"}
	if c.args != nil {
		args = c.args(t, w.world)
	}
	cmd := w.as(customer, append([]string{"buyer", "submit", "--json", "--max-msats", fmt.Sprint(chainMaxMsats)}, args...)...)
	buying = w.begin(t, cmd, customer)
	close(began)
	w.until(t, struck, buying)
	switch {
	case c.way == killLND:
		check(t, w.lndOf(c.victim).Start(w.ctx))
	case c.victim == seller:
		w.sell(t)
	}
	defer w.mining(t)()
	w.finish(t, buying)
	w.conserved(t, c.args != nil, sold, bought)
}

// conserved checks the newest purchase: one job, one transaction, one receipt or
// one refund, and every satoshi where the records say.
func (w *chainWorld) conserved(t *testing.T, refunds bool, sold, bought int64) {
	t.Helper()
	job := w.sold(t)
	p, _ := w.purchase(t)
	if p.Payment == nil || job.RequestID != p.RequestID {
		t.Fatalf("job %s %s (%s), purchase %s %s (%s)", job.RequestID, job.State, job.Reason, p.RequestID, p.State, p.Reason)
	}
	receipts, kept := 1, p.Payment.AmountMsats
	lost := p.Payment.AmountMsats + p.Payment.FeeMsats
	if refunds {
		d := w.paidBack(t, p.RequestID)
		receipts, kept = 0, kept-d.Refund.SentMsats()-d.Refund.End.FeeMsats
		lost -= d.Refund.SentMsats()
		if len(d.Attempts) != 1 || kept != d.CreditMsats {
			t.Errorf("%d attempts; %d msats were kept, %d are credit", len(d.Attempts), kept, d.CreditMsats)
		}
		w.forgive(t, d)
	} else if job.State != provider.StateSucceeded || p.State != buyer.StateDone || job.ReceiptID != p.ReceiptID {
		t.Errorf("job %s (%s) %s, purchase %s (%s) %s", job.State, job.Reason, job.ReceiptID, p.State, p.Reason, p.ReceiptID)
	}
	if n := w.receiptsOf(t, p.RequestID); n != receipts {
		t.Errorf("%d receipts", n)
	}
	w.await(t, "every satoshi is where the records say", func() bool {
		return w.coins(t, seller)-sold == kept && bought-w.coins(t, customer) == lost
	})
	if _, reserved := w.ledger(t); reserved != 0 {
		t.Errorf("%d msats are still reserved", reserved)
	}
}

// paidBack waits until a refund is final.
func (w *chainWorld) paidBack(t *testing.T, requestID string) (debt provider.Debt) {
	t.Helper()
	w.await(t, "the refund is final", func() (done bool) {
		w.inside(t, seller, func(k *store.Store) {
			all, err := k.Sales("").Debts(w.ctx)
			check(t, err)
			for _, d := range all {
				if d.RequestID == requestID && d.Refund != nil && d.Refund.End != nil {
					debt, done = d, true
				}
			}
		})
		return done
	})
	return debt
}

// forgive writes off what is left, so that it does not lower the next price.
func (w *chainWorld) forgive(t *testing.T, d provider.Debt) {
	t.Helper()
	if d.CreditMsats == 0 {
		return
	}
	out, err := w.as(seller, "provider", "debts", "--write-off", d.RequestID, "--note", "so that prices stay").CombinedOutput()
	if err != nil {
		t.Errorf("write off: %v\n%s", err, out)
	}
}
