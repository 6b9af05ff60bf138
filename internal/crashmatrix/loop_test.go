//go:build lnd

package crashmatrix

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

// within is the time of a job in which somebody dies; most take less.
const within = 1500 * time.Millisecond

// TestLoop buys jobs, and each time kills one of the four at a random moment:
// the provider, the buyer, or the lnd of either. LIGHTWORK_CRASH_LOOP says how many
// jobs; without it, make long plays them all and every other run a few.
func TestLoop(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv(envLoop))
	if n == 0 {
		n = testclass.Size(t, 8, 300, "crash-loop")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*time.Minute)
	defer cancel()
	w := newWorld(t, ctx)
	lot := testclass.Lot(t)
	ends := map[string]int{}
	for i := range n {
		victim := []string{seller, customer, "alice", "bob"}[lot.IntN(4)]
		after := time.Duration(lot.Int64N(int64(within)))
		end := w.killAfter(t, victim, after)
		ends[end]++
		t.Logf("%3d  %-8s killed after %4d ms: %s", i+1, victim, after.Milliseconds(), end)
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d jobs: %v", n, ends)
}

// killAfter buys a job, kills the victim when so much time has gone by, brings
// it back and checks what came of it: everything, or nothing.
func (w *world) killAfter(t *testing.T, victim string, after time.Duration) (end string) {
	t.Helper()
	before := w.read(t)
	buying := w.buy(t, "--cmd", "echo begun; sleep 0.3; echo done")
	time.Sleep(after)
	switch victim {
	case seller:
		w.selling.kill()
		w.sell(t)
	case customer:
		buying.kill()
	case "alice":
		w.Alice.Kill()
		w.revive(t, w.Alice)
	case "bob":
		w.Bob.Kill()
		w.revive(t, w.Bob)
	}
	select {
	case <-buying.done:
	case <-time.After(stuckAfter):
		return w.stillOpen(t, buying, before)
	}
	w.finish(t, buying)
	if w.read(t).purchases == before.purchases {
		return "nothing asked"
	}
	p, _ := w.purchase(t)
	if p.State == buyer.StateDone {
		w.once(t, before)
		return "done"
	}
	w.nothing(t, before)
	check(t, w.Bob.ResetMissionControl(w.ctx)) // one that failed must not bar the next
	return "nothing, and nothing paid: " + p.Reason
}

// stuckAfter is far more than a job of the loop takes.
const stuckAfter = time.Minute

// stillOpen is right only where lnd takes a payment for in flight that no
// channel holds: then the money is whole, the budget stays reserved, and no
// job was done for it.
func (w *world) stillOpen(t *testing.T, buying *process, before books) string {
	t.Helper()
	buying.kill()
	after := w.read(t) // waits until no channel holds a payment
	p, _ := w.purchase(t)
	if p.State == buyer.StatePaid {
		return w.halfSettled(t, p, before)
	}
	if p.State != buyer.StatePaying || after.buyerMsats != before.buyerMsats || after.sellerMsats != before.sellerMsats {
		t.Errorf("the purchase is %s (%s), the money before %+v, after %+v\n%s", p.State, p.Reason, before, after, buying.tail())
	}
	if after.reservedMsats == before.reservedMsats {
		t.Error("nothing is reserved for a payment that is not known to have failed")
	}
	if n := w.receiptsOf(t, p.RequestID); n != 0 {
		t.Errorf("%d receipts", n)
	}
	return "stuck in lnd: reserved, nothing paid"
}

// halfSettled is right where the buyer's lnd has the preimage and has let the
// payment go, and the provider's still waits for the channel's last signature: an
// lnd that is killed between the two may send it only when the channel is set up
// once more. No receipt is made before, and the one that is then is the only one.
func (w *world) halfSettled(t *testing.T, p buyer.Purchase, before books) string {
	t.Helper()
	if n := w.receiptsOf(t, p.RequestID); n != 0 {
		t.Errorf("%d receipts for a payment that is not final", n)
	}
	w.Bob.Stop()
	w.revive(t, w.Bob)
	w.resume(t, p.RequestID)
	w.once(t, before)
	return "done, once the channel was set up again"
}
