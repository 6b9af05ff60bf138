//go:build lnd

package crashmatrix

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/devnet"
)

// way is what happens to the victim at a point.
type way string

const (
	killNode way = "node" // SIGKILL of the program
	killLND  way = "lnd"  // SIGKILL of its lnd
	cutLine  way = "cut"  // of the connection on which the moment was seen
)

// cell is one point with one way.
type cell struct {
	point, what string
	rail        rail
	as          string // the points that it plays, if its name is no point's
	way         way
	victim      string
	steps       func(t *testing.T, w *world) []step // the last is the point
	args        func(t *testing.T, w *world) []string
	before      func(t *testing.T, w *world)          // anything to prepare
	dead        func(t *testing.T, w *world)          // while the victim is down
	end         func(t *testing.T, w *world, b books) // what must hold then; once if nil
	whole       func(t *testing.T, w *world)          // a story of its own instead of all this
	skip        func(w *world) string                 // why it cannot be tried here; "" if it can
}

func (c cell) name() string { return c.point + "-" + string(c.way) }

// onRelay reports whether a moment was seen before a relay, not before lnd.
func (m moment) onRelay() bool {
	what := strings.Fields(string(m))[2]
	return what == "OK" || what[0] >= '0' && what[0] <= '9'
}

// play is one job with one blow.
func (w *world) play(t *testing.T, c cell) {
	defer func() {
		if t.Failed() {
			t.Logf("the provider said:\n%s", w.selling.tail())
		}
	}()
	if c.whole != nil {
		c.whole(t, w)
		return
	}
	if c.before != nil {
		c.before(t, w)
	}
	before := w.read(t)
	steps := c.steps(t, w)
	at := steps[len(steps)-1].at
	var buying *process
	began := make(chan struct{})
	struck := w.trap.arm(steps, func() verdict {
		<-began // buying is set
		w.strike(c, at, buying)
		if strings.HasPrefix(string(at), c.victim) && (c.way != killLND || !at.onRelay()) {
			return drop
		}
		return pass
	})
	args := []string{"--cmd", "echo done"}
	if c.args != nil {
		args = c.args(t, w)
	}
	buying = w.buy(t, args...)
	close(began)
	w.until(t, struck, buying)
	w.ledger(t) // adds up while the victim is down, too
	if c.dead != nil {
		c.dead(t, w)
	}
	w.heal(t, c, at)
	if c.way == killLND && c.victim == customer {
		w.setUpAgain(t, buying)
	}
	w.finish(t, buying)
	switch {
	case c.end != nil:
		c.end(t, w, before)
	case c.way == killLND && c.victim == seller:
		w.onceOrLost(t, before)
	default:
		w.once(t, before)
	}
}

// until waits for the blow.
func (w *world) until(t *testing.T, struck <-chan struct{}, buying *process) {
	t.Helper()
	select {
	case <-struck:
	case <-buying.done:
		seen := w.trap.moments() // waits for a blow under way
		select {
		case <-struck: // it was the victim
		default:
			t.Fatalf("the purchase ended (%v) too early; seen: %q\n%s", buying.err, seen, buying.tail())
		}
	case <-time.After(patience):
		t.Fatalf("not struck in %v; seen: %q", patience, w.trap.moments())
	}
}

func (w *world) lndOf(role string) *devnet.Node {
	if role == seller {
		return w.Alice
	}
	return w.Bob
}

func (w *world) lineOf(role string, at moment) *line {
	if at.onRelay() {
		return w.links[role].line
	}
	return w.wires[role].line
}

func (w *world) strike(c cell, at moment, buying *process) {
	switch {
	case c.way == killLND:
		w.trap.channel.Lock()
		w.lndOf(c.victim).Kill()
	case c.way == cutLine:
		w.lineOf(c.victim, at).cut()
	case c.victim == seller:
		w.selling.kill()
	default:
		buying.kill()
	}
}

// heal brings back what the blow took.
func (w *world) heal(t *testing.T, c cell, at moment) {
	t.Helper()
	switch {
	case c.way == killLND:
		w.revive(t, w.lndOf(c.victim))
		w.trap.channel.Unlock()
	case c.way == cutLine:
		line := w.lineOf(c.victim, at)
		select {
		case <-line.tried: // the node has noticed
		case <-time.After(patience):
			t.Error("nobody tried to connect again")
		}
		line.mend()
	case c.victim == seller:
		w.sell(t)
	}
}

// revive starts an lnd that was killed and waits for its channel.
func (w *world) revive(t *testing.T, n *devnet.Node) {
	t.Helper()
	err := n.Start(w.ctx)
	if err == nil {
		err = errors.Join(w.Alice.WaitChannel(w.ctx, w.Bob), w.Bob.WaitChannel(w.ctx, w.Alice))
	}
	if err != nil {
		w.broken = true
		t.Fatal(err)
	}
}

// setUpAgain has the buyer's lnd set its channel up once more where it has the
// preimage and died before the channel's last signature (halfSettled): the
// provider rightly waits, and lnd may send that signature only then.
func (w *world) setUpAgain(t *testing.T, buying *process) {
	t.Helper()
	select {
	case <-buying.done:
		return
	case <-time.After(stuckAfter):
	}
	if p, _ := w.purchase(t); p.State == buyer.StatePaid {
		t.Log("the payment has settled on one side of the channel alone")
		w.Bob.Stop()
		w.revive(t, w.Bob)
	}
}

// finish waits for the purchase, and goes on with it where it was interrupted.
func (w *world) finish(t *testing.T, buying *process) {
	t.Helper()
	select {
	case <-buying.done:
	case <-time.After(patience):
		t.Fatalf("the purchase does not end; seen: %q", w.trap.moments())
	}
	exit := new(exec.ExitError)
	if errors.As(buying.err, &exit) && (!exit.Exited() || exit.ExitCode() == exitOpen) {
		p, _ := w.purchase(t)
		w.resume(t, p.RequestID)
	}
}
