//go:build lnd

package crashmatrix

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/provider"
)

// The rows about what the provider's disk holds.

// oldBackup restores a database that knows less than lnd and the relays.
func oldBackup() []cell {
	return []cell{
		{point: "P16", rail: hold, what: "old backup: the job was paid, not run", way: killNode, whole: backupOfPaid},
		{point: "P16b", rail: hold, what: "old backup: the job was not known", way: killNode, whole: backupOfNothing},
	}
}

func backupOfPaid(t *testing.T, w *world) {
	before := w.read(t)
	backup := filepath.Join(t.TempDir(), "old.db")
	struck := w.trap.arm([]step{{at: "provider hears LookupInvoice ACCEPTED"}, {at: "provider asks LookupInvoice"}}, func() verdict {
		if out, err := w.as(seller, "backup", "--role", seller, "--out", backup).CombinedOutput(); err != nil {
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
	w.inside(t, seller, func(k *store.Store) {
		debts, err := k.Sales("").Debts(w.ctx)
		check(t, err)
		if len(debts) != 0 {
			t.Errorf("the provider owes %+v for a job that it delivered", debts)
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
	if out, err := w.as(seller, "restore", "--role", seller, "--from", backup).CombinedOutput(); err != nil {
		t.Fatalf("restore: %v\n%s", err, out)
	}
	w.sell(t)
}

// backupOfNothing: the payment of a job that the provider forgot stays held
// until lnd gives it back by itself.
func backupOfNothing(t *testing.T, w *world) {
	before := w.read(t)
	backup := filepath.Join(t.TempDir(), "old.db")
	if out, err := w.as(seller, "backup", "--role", seller, "--out", backup).CombinedOutput(); err != nil {
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
		point: "P17", rail: hold, what: "no room on the disk", way: killNode,
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

// diskBytes is the size of the provider's disk: it has the database three times,
// each with its log, after the restores.
const diskBytes = 128 << 20
