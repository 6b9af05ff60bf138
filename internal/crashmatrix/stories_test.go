//go:build lnd

package crashmatrix

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/provider"
)

// The provider's rows that need more than a moment.

// jobSeen holds the commit of the new row while the node dies.
func jobSeen() []cell {
	return with(point("P1", "job seen, no row yet", seller, nodeCut), func(c *cell) {
		c.steps = func(t *testing.T, w *world) []step {
			var release func()
			return []step{
				{"provider hears 5050", func() { release = w.stall(t, seller) }},
				{"provider has 5050", func() { time.AfterFunc(time.Second, release) }},
			}
		}
	})
}

// worker is a job that goes on for a second after the first tick of the clock by
// which its buyer hears of it. The marker finds its processes.
func worker(marker string) func(*testing.T, *world) []string {
	return func(*testing.T, *world) []string {
		return []string{"--cmd", "echo " + marker + "; sleep 6; echo finished"}
	}
}

func agentAtWork() []cell {
	const marker = "lightwork-crash-p7"
	return with(point("P7", "agent at work", seller, all, "provider sends 7000-partial-1"), func(c *cell) {
		c.args = worker(marker)
		if c.way != killNode {
			return
		}
		c.dead = func(t *testing.T, w *world) {
			w.await(t, "the old process tree is dead", func() bool { return !running(marker) })
		}
		c.end = func(t *testing.T, w *world, b books) {
			if job := w.once(t, b); job.Run != 2 {
				t.Errorf("%d runs, not 2", job.Run)
			}
		}
	})
}

// running reports whether a process has the text in its arguments, our own
// programs aside.
func running(text string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		args, _ := os.ReadFile(f)
		if strings.Contains(string(args), text) && !strings.Contains(string(args), "submit") {
			return true
		}
	}
	return false
}

// resultNotDurable holds the commit of the result.
func resultNotDurable() []cell {
	const marker = "lightwork-crash-p8"
	return with(point("P8", "agent done, result not durable", seller, nodeLND), func(c *cell) {
		c.args = worker(marker)
		c.steps = func(t *testing.T, w *world) []step {
			return []step{{"provider sends 7000-partial-1", func() {
				release := w.stall(t, seller)
				for running(marker) && w.ctx.Err() == nil {
					time.Sleep(20 * time.Millisecond)
				}
				time.AfterFunc(time.Second, release)
			}}}
		}
	})
}

// someRelays cuts the provider's second relay off before the result is sent.
func someRelays() []cell {
	return with(point("P13", "some relays acknowledged", seller, []way{killNode}, "provider has OK 6050"), func(c *cell) {
		c.before = func(_ *testing.T, w *world) { w.second.line.cut() }
		c.end = func(t *testing.T, w *world, b books) {
			w.second.line.mend()
			w.onceOrLost(t, b)
			if p, _ := w.purchase(t); p.ReceiptID != "" {
				w.saidOnce(t, p, 1, "7000-payment-required", "6050", "7002")
			}
		}
	})
}

// deadlineBlocks bring a fresh hold past the deadline the provider keeps, and
// not to where lnd itself gives the money back.
const deadlineBlocks = 64

func nearTheCLTV() []cell {
	return with(point("P14", "near the CLTV", seller, nodeLND, "provider asks SettleInvoice"), func(c *cell) {
		c.dead = func(t *testing.T, w *world) { check(t, w.Mine(w.ctx, deadlineBlocks)) }
		c.end = func(t *testing.T, w *world, b books) {
			job := w.sold(t)
			if job.State != provider.StateFailed || job.Reason.Code != provider.CodeDeadline {
				t.Errorf("job %s (%s)", job.State, job.Reason)
			}
			w.nothing(t, b)
		}
	})
}

// pastTheCLTV leaves the payee's lnd dead until the payer's has closed the
// channel and taken the payment back on the chain: the last cell, therefore.
func pastTheCLTV() []cell {
	return []cell{{point: "P14b", rail: hold, what: "lnd down past the CLTV, channel closed", way: killLND, whole: func(t *testing.T, w *world) {
		before := w.read(t)
		struck := w.trap.arm([]step{{at: "provider asks SettleInvoice"}}, func() verdict {
			w.Alice.Kill()
			return drop
		})
		buying := w.buy(t, "--cmd", "echo done")
		w.until(t, struck, buying)
		w.broken = true
		w.await(t, "the payment is back", func() bool {
			check(t, w.Mine(w.ctx, 10))
			select {
			case <-buying.done:
				return true
			case <-time.After(time.Second):
				return false
			}
		})
		check(t, w.Alice.Start(w.ctx))
		// Who is first to give it up, lnd or the provider, is open.
		job := w.sold(t)
		if code := job.Reason.Code; job.State != provider.StateFailed || code != provider.CodePaymentLost && code != provider.CodeDeadline {
			t.Errorf("job %s (%s)", job.State, job.Reason)
		}
		p, _ := w.purchase(t)
		spent, reserved := w.ledger(t)
		if p.State != buyer.StateFailed || w.receiptsOf(t, p.RequestID) != 0 || spent != before.spentMsats || reserved != before.reservedMsats {
			t.Errorf("purchase %s (%s), %d msats spent, %d reserved, before %+v", p.State, p.Reason, spent, reserved, before)
		}
	}}}
}

// cancelReplyLost gives a held payment back: the commands end otherwise than
// the request wants.
func cancelReplyLost() []cell {
	return with(point("P15", "cancel sent, reply lost", seller, all, "provider hears CancelInvoice"), func(c *cell) {
		c.args = func(t *testing.T, w *world) []string {
			var found []struct {
				Image string `json:"host_image_digest"`
			}
			w.json(t, &found, w.as(customer, "buyer", "discover", "--json"))
			if len(found) != 1 {
				t.Fatalf("%d providers", len(found))
			}
			request := filepath.Join(t.TempDir(), "request.json")
			doc := fmt.Sprintf(`{"sandbox":{"provider":"host","image_digest":%q},"commands":[{"cmd":"exit 3"}],"verification":{"expected":{"exit_codes":[0]}}}`, found[0].Image)
			check(t, os.WriteFile(request, []byte(doc), 0o600))
			return []string{"--input", request}
		}
		c.end = func(t *testing.T, w *world, b books) {
			if job := w.sold(t); job.State != provider.StateFailed {
				t.Errorf("job %s (%s)", job.State, job.Reason)
			}
			w.nothing(t, b)
		}
	})
}
