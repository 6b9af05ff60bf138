//go:build lnd

package crashmatrix

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/provider"
)

// The rows that need more than a moment.

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

// worker is a job that says when it is at work, and when it is nearly done. The
// marker finds its processes.
func worker(marker string) func(*testing.T, *world) []string {
	return func(*testing.T, *world) []string {
		return []string{"--cmd", "echo " + marker + "; sleep 1; echo finished"}
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
	return with(point("P8", "agent done, result not durable", seller, nodeLND), func(c *cell) {
		c.args = worker("lightwork-crash-p8")
		c.steps = func(t *testing.T, w *world) []step {
			var release func()
			return []step{
				{"provider sends 7000-partial-1", func() { release = w.stall(t, seller) }},
				{"provider sends 7000-partial-2", func() { time.AfterFunc(time.Second, release) }},
			}
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
	return []cell{{point: "P14b", what: "lnd down past the CLTV, channel closed", way: killLND, whole: func(t *testing.T, w *world) {
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
		if job := w.sold(t); job.State != provider.StateFailed || job.Reason.Code != provider.CodePaymentLost {
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

// twoBuyers: while one CLI pays from a budget for one job, another one with the
// same budget must not.
func twoBuyers() []cell {
	return []cell{{point: "B7", what: "two CLIs, one budget", way: killNode, whole: func(t *testing.T, w *world) {
		before := w.read(t)
		spent := before.spentMsats
		w.edit(t, customer, fmt.Sprintf("max_msats_per_day: %d", dayMsats), fmt.Sprintf("max_msats_per_day: %d", spent+maxMsats))
		restored := false
		restore := func() {
			if !restored {
				restored = true
				w.edit(t, customer, fmt.Sprintf("max_msats_per_day: %d", spent+maxMsats), fmt.Sprintf("max_msats_per_day: %d", dayMsats))
			}
		}
		defer restore()
		var first *process
		began := make(chan struct{})
		var paying buyer.Purchase
		struck := w.trap.arm([]step{{at: "buyer asks SendPaymentV2"}}, func() verdict {
			<-began
			paying, _ = w.purchase(t)
			second := w.buy(t, "--cmd", "echo second")
			<-second.done // one database, one process
			if second.err == nil || !strings.Contains(second.tail(), "another process") {
				t.Errorf("a second CLI beside the first: %v\n%s", second.err, second.tail())
			}
			first.kill()
			return drop
		})
		first = w.buy(t, "--cmd", "echo first")
		close(began)
		w.until(t, struck, first)
		second := w.buy(t, "--cmd", "echo second") // the first one's reservation stands
		<-second.done
		if second.err == nil || !strings.Contains(second.tail(), "budget") {
			t.Errorf("a second payment beyond the budget: %v\n%s", second.err, second.tail())
		}
		w.ledger(t)
		w.resume(t, paying.RequestID)
		after := w.read(t)
		if cost := before.buyerMsats - after.buyerMsats; cost != priceMsats || after.spentMsats-spent != cost {
			t.Errorf("the channel lost %d msats, the budget %d, for one job of %d", cost, after.spentMsats-spent, priceMsats)
		}
		if after.reservedMsats != before.reservedMsats {
			t.Errorf("%d msats are still reserved", after.reservedMsats-before.reservedMsats)
		}
	}}}
}

// otherInvoice: the invoice is another node's than the one the buyer pins.
func otherInvoice() []cell {
	return []cell{{point: "B8", what: "invoice of another node than pinned", way: killNode, whole: func(t *testing.T, w *world) {
		before := w.read(t)
		// Bob's key is not the seller's.
		buying := w.buy(t, "--payee", w.Bob.PubKey(), "--cmd", "echo done")
		<-buying.done
		p := w.nothing(t, before)
		if buying.err == nil || p.Attempt != nil || !strings.Contains(p.Reason, "not the pinned") {
			t.Errorf("%v, reason %q, attempt %+v", buying.err, p.Reason, p.Attempt)
		}
	}}}
}

// paidNoResult: prepaid, and the provider is gone.
func paidNoResult() []cell {
	return []cell{{point: "B9", what: "paid, no result", way: killNode, whole: func(t *testing.T, w *world) {
		before := w.read(t)
		struck := w.trap.arm([]step{{at: "provider hears LookupInvoice SETTLED"}}, func() verdict {
			w.selling.kill()
			return drop
		})
		buying := w.buy(t, "--mode", "prepay", "--cmd", "echo done")
		w.until(t, struck, buying)
		var p buyer.Purchase
		w.await(t, "the buyer knows that it has paid", func() bool {
			p, _ = w.purchase(t)
			return p.State == buyer.StatePaid
		})
		buying.kill()
		dir := filepath.Join(t.TempDir(), "dispute")
		out, err := w.as(customer, "buyer", "dispute", p.RequestID, "--out", dir).CombinedOutput()
		if err != nil || !holds(t, dir, p.Payment.Preimage.String()) || !holds(t, dir, p.BOLT11) {
			t.Errorf("the dispute does not show the payment: %v\n%s", err, out)
		}
		w.sell(t)
		w.resume(t, p.RequestID)
		w.once(t, before)
	}}}
}

// holds reports whether a file in the folder has the text.
func holds(t *testing.T, dir, text string) (found bool) {
	t.Helper()
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found = found || strings.Contains(string(content), text)
		return err
	}))
	return found
}

// stuck kills the payer's lnd in the moment in which it begins to pay. What had
// become durable decides: the job is done, lnd gives the payment up, or takes it
// for in flight for ever although no channel holds it (lnd#9340). Then the
// budget stays reserved, and the operator is told.
func stuck() []cell {
	return []cell{{point: "B5", what: "begun in lnd, perhaps for ever", way: killLND, whole: func(t *testing.T, w *world) {
		before := w.read(t)
		struck := w.trap.arm([]step{{at: "buyer hears SendPaymentV2 IN_FLIGHT"}}, func() verdict {
			w.Bob.Kill()
			return drop
		})
		buying := w.buy(t, "--cmd", "echo done")
		w.until(t, struck, buying)
		w.revive(t, w.Bob)
		select {
		case <-buying.done:
		case <-time.After(20 * time.Second):
			buying.kill()
		}
		p, _ := w.purchase(t)
		t.Logf("it came to: %s %s", p.State, p.Reason)
		switch p.State {
		case buyer.StateDone:
			w.once(t, before)
		case buyer.StateFailed:
			w.nothing(t, before)
		default:
			after := w.read(t)
			if reserved := after.reservedMsats - before.reservedMsats; reserved != maxMsats {
				t.Errorf("%d msats are reserved, not %d", reserved, maxMsats)
			}
			if after.buyerMsats != before.buyerMsats || after.sellerMsats != before.sellerMsats {
				t.Errorf("money moved: before %+v, after %+v", before, after)
			}
		}
	}}}
}

// oldBackup restores a database that knows less than lnd and the relays.
func oldBackup() []cell {
	return []cell{
		{point: "P16", what: "old backup: the job was paid, not run", way: killNode, whole: backupOfPaid},
		{point: "P16b", what: "old backup: the job was not known", way: killNode, whole: backupOfNothing},
	}
}

func backupOfPaid(t *testing.T, w *world) {
	before := w.read(t)
	backup := filepath.Join(t.TempDir(), "old.db")
	struck := w.trap.arm([]step{{at: "provider hears LookupInvoice ACCEPTED"}, {at: "provider asks LookupInvoice"}}, func() verdict {
		if out, err := w.as(seller, "backup", "--out", backup).CombinedOutput(); err != nil {
			t.Errorf("backup: %v\n%s", err, out)
		}
		return pass
	})
	buying := w.buy(t, "--cmd", "echo done")
	w.until(t, struck, buying)
	w.finish(t, buying)
	job := w.once(t, before)
	w.restore(t, backup)
	again := w.sold(t)
	if again.RequestID != job.RequestID {
		t.Fatalf("job %s, not %s", again.RequestID, job.RequestID)
	}
	if again.State != provider.StateFailed || again.Reason.Code != provider.CodeRestored {
		t.Errorf("restored, the job is %s (%s)", again.State, again.Reason)
	}
	p, _ := w.purchase(t)
	w.saidOnce(t, p, 0, "6050", "7002")
	w.inside(t, seller, func(k *kernel.Kernel) {
		credits, err := k.ProviderStore("").Credits(w.ctx)
		check(t, err)
		if len(credits) != 0 {
			t.Errorf("the provider owes %+v for a job that it delivered", credits)
		}
	})
	after := w.read(t)
	if after.sellerMsats != before.sellerMsats+priceMsats || after.buyerMsats != before.buyerMsats-priceMsats {
		t.Errorf("money moved again: %+v, then %+v", before, after)
	}
}

// restore stops the provider, puts the backup in place and starts it again.
func (w *world) restore(t *testing.T, backup string) {
	t.Helper()
	w.selling.kill()
	if out, err := w.as(seller, "restore", "--from", backup).CombinedOutput(); err != nil {
		t.Fatalf("restore: %v\n%s", err, out)
	}
	w.sell(t)
}

// backupOfNothing: the payment of a job that the provider forgot stays held
// until lnd gives it back by itself.
func backupOfNothing(t *testing.T, w *world) {
	before := w.read(t)
	backup := filepath.Join(t.TempDir(), "old.db")
	if out, err := w.as(seller, "backup", "--out", backup).CombinedOutput(); err != nil {
		t.Fatalf("backup: %v\n%s", err, out)
	}
	struck := w.trap.arm([]step{{at: "provider sends 7000-partial-1"}}, func() verdict {
		w.selling.kill()
		return drop
	})
	buying := w.buy(t, worker("lightwork-crash-p16")(t, w)...)
	w.until(t, struck, buying)
	w.restore(t, backup)
	check(t, w.Mine(w.ctx, 75)) // lnd gives back 12 blocks before the HTLC expires
	w.finish(t, buying)
	w.nothing(t, before)
}

// diskFull: the first commit after the money is held cannot be written.
func diskFull() []cell {
	return []cell{{
		point: "P17", what: "no room on the disk", way: killNode,
		skip: func(w *world) string {
			if w.disk == "" {
				return "not tried: cannot mount a small disk here"
			}
			return ""
		},
		whole: func(t *testing.T, w *world) {
			before := w.read(t)
			filler := filepath.Join(w.disk, "filler")
			struck := w.trap.arm([]step{{at: "provider hears LookupInvoice ACCEPTED"}}, func() verdict {
				if err := os.WriteFile(filler, make([]byte, 2*diskBytes), 0o600); err == nil {
					t.Error("the disk is not full")
				}
				return pass
			})
			buying := w.buy(t, "--cmd", "echo done")
			w.until(t, struck, buying)
			select {
			case <-w.selling.done:
			case <-time.After(patience):
				t.Fatal("the provider goes on without a disk")
			}
			if w.selling.err == nil || !strings.Contains(w.selling.tail(), "stopped taking jobs") {
				t.Errorf("the provider ended with %v\n%s", w.selling.err, w.selling.tail())
			}
			check(t, os.Remove(filler))
			w.sell(t)
			w.finish(t, buying)
			w.once(t, before)
		},
	}}
}

// diskBytes is the size of the provider's disk.
const diskBytes = 48 << 20
