package store_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/outbox"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/receipts"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("STORE_TEST_CHILD"); dir != "" {
		os.Exit(child(dir))
	}
	goleak.VerifyTestMain(m)
}

func TestOpenRefusesASecondNode(t *testing.T) {
	requirements.Covers(t, "AP-14.3.1", "AP-B.9")
	k := storetest.Open(t)
	_, err := store.Open(t.Context(), k.Dir, store.Options{})
	if !errors.Is(err, sqlite.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) {
		t.Fatalf("second open = %v", err)
	}
	if info, err := os.Stat(k.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data folder: %v, %v", info.Mode(), err)
	}
}

func TestReadOnlyLooksBesideTheNode(t *testing.T) {
	k := storetest.Open(t)
	k.Change(t, func(tx *store.Tx) error { return tx.CreateThread("root", "p") })
	ro, err := store.Open(t.Context(), k.Dir, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	err = ro.View(t.Context(), func(tx *store.Tx) error {
		thread, err := tx.Thread("root")
		if thread.Profile != "p" {
			t.Errorf("read %+v", thread)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := ro.Update(t.Context(), func(tx *store.Tx) error { return nil }); !errors.Is(err, sqlite.ErrReadOnly) {
		t.Errorf("Update = %v", err)
	}
	if _, err := store.Open(t.Context(), t.TempDir(), store.Options{ReadOnly: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("read-only open of nothing = %v", err)
	}
}

// TestStoresChangeTogether writes to every store in one transaction that ends
// in an error.
func TestStoresChangeTogether(t *testing.T) {
	requirements.Covers(t, "AP-8.3.1")
	k := storetest.Open(t)
	all := func(tx *store.Tx) error {
		_, err := tx.AppendJournalPayload(storetest.Entry("root", journal.RetainForever), []byte("payload"))
		return errors.Join(
			err,
			tx.CreateThread("root.a", "p"),
			tx.Audit("x", "y", nil),
			tx.RecordDirective(journal.Directive{ID: "d", Key: "k", ApprovedBy: "me"}),
			tx.Enqueue(outbox.OutEvent{EventID: storetest.HexID("e"), Event: []byte("{}"), Relays: []string{"wss://r"}}),
			tx.Correlate(storetest.HexID("r"), journal.NameThread, "root.a"),
		)
	}
	k.Change(t, func(tx *store.Tx) error { return tx.CreateThread("root", "p") })
	before := k.Dump(t)
	stop := errors.New("stop")
	if err := k.Update(t.Context(), func(tx *store.Tx) error { return errors.Join(all(tx), stop) }); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, k.Dump(t)); diff != "" {
		t.Errorf("a failed transaction left:\n%s", diff)
	}
	k.Change(t, all)
	after := k.Dump(t)
	for _, table := range []string{"journal", "contents", "threads", "audit", "directives", "outbox", "correlation"} {
		if len(after[table]) == len(before[table]) {
			t.Errorf("%s did not change", table)
		}
	}
	k.Reopen(t)
	if diff := cmp.Diff(after, k.Dump(t)); diff != "" {
		t.Errorf("after reopening:\n%s", diff)
	}
}

// mutable tables hold cursors, or an index or sums of what other tables say.
var mutable = []string{
	"meta", "outbox_open", "open_jobs", "open_purchases", "open_orders", "open_refunds", "unknown_payments", "context_expiring", "journal_threads", "journal_deleted", "sqlite_sequence", "pruned_open", "content_rests",
	"job_record", "ledger_days", "purchase_totals", "provider_done",
}

// TestTablesAreAppendOnly tries to change, delete and replace the rows of every
// table of a node that has done everything once, past the code, in SQL.
func TestTablesAreAppendOnly(t *testing.T) {
	requirements.Covers(t, "AP-7.3.1", "AP-B.6", "APX-10")
	k := storetest.Open(t)
	fill(t, k)
	before := k.Dump(t)
	for _, table := range slices.Sorted(maps.Keys(before)) {
		if slices.Contains(mutable, table) {
			continue
		}
		if len(before[table]) == 0 {
			t.Errorf("%s is empty: nothing is tested", table)
			continue
		}
		var columns []string
		k.Read(t, func(tx *store.Tx) (err error) {
			columns, err = tx.Strings("SELECT name FROM pragma_table_info(?)", table)
			return err
		})
		for _, query := range []string{
			fmt.Sprintf("UPDATE %s SET %s = %[2]s", table, columns[len(columns)-1]),
			"DELETE FROM " + table,
			fmt.Sprintf("INSERT OR REPLACE INTO %s SELECT * FROM %[1]s", table),
		} {
			err := k.Update(t.Context(), func(tx *store.Tx) error {
				_, err := tx.Exec(query)
				return err
			})
			if !sqlite.IsConstraint(err) {
				t.Errorf("%s: %v", query, err)
			}
		}
	}
	if diff := cmp.Diff(before, k.Dump(t)); diff != "" {
		t.Errorf("something changed:\n%s", diff)
	}
}

// fill takes a node through everything it can record.
func fill(t *testing.T, k *storetest.DB) {
	t.Helper()
	k.Change(t, func(tx *store.Tx) error {
		if err := tx.EnsureThread("root", "p"); err != nil {
			return err
		}
		_, err := tx.AppendJournalPayload(storetest.Entry("root", journal.RetainForever), []byte("payload"))
		_, err2 := tx.PutSegment("root", "text/plain", []byte("known"))
		_, err3 := tx.PutContent([]byte("payload"))
		_, err4 := tx.PutContent(make([]byte, 1<<20))
		return errors.Join(err, err2, err3, err4, tx.Audit("x", "y", nil))
	})
	s := k.Sales("p")
	storetest.Must(t, s.UsePolicy(t.Context(), []byte("policy")))
	j := storetest.Job("fill", "prepay")
	j.RefundAddress = "bc1fill"
	storetest.ToState(t, s, j, "delivering")
	storetest.Must(t, storetest.DoStep(t, s, j, "reword"))
	acks := storetest.AcksOf(t, s)
	storetest.Must(t, s.AddAcks(t.Context(), acks...))
	storetest.Must(t, s.SetSignature(t.Context(), acks[0].EventID, strings.Repeat("5", 128)))
	storetest.Must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, storetest.Settled(j), storetest.Issuer(j)))
	for sequence, want := range map[int64]bool{7: true, 1: false} {
		if adopted, err := s.AdoptReceipt(t.Context(), sequence, hashing.Bytes([]byte("signed elsewhere"))); err != nil || adopted != want && sequence == 1 {
			t.Fatalf("adopt receipt %d: %v, %v", sequence, adopted, err)
		}
	}
	storetest.Must(t, storetest.ChosenJob(t, s, "chosen", "prepay", storetest.Preimage("chosen").Hash()))
	owed := storetest.Owe(t, s, "owed", 20_000)
	storetest.Must(t, s.EndRefund(t.Context(), owed.RequestID, storetest.RefundedFor(owed)))
	tried := storetest.Owe(t, s, "tried", 20_000)
	storetest.Must(t, s.SetRefundSent(t.Context(), tried.RequestID, 1))
	storetest.Must(t, s.EndRefund(t.Context(), tried.RequestID, storetest.FailedAt(1)))
	_, err := s.RetryRefund(t.Context(), *storetest.DebtOf(tried, 20_000).Refund)
	storetest.Must(t, err)
	storetest.Must(t, s.EndRefund(t.Context(), tried.RequestID, storetest.FailedAt(2)))
	storetest.Must(t, s.WriteOff(t.Context(), tried.RequestID, 1_000, "by hand"))
	storetest.AddLate(t, s, owed, owed.PriceMsats+5, 5)
	user := storetest.Job("user", "hold")
	user.CreditMsats = 1_000
	storetest.Must(t, s.AddJob(t.Context(), user))

	storetest.FillPruned(t, k)

	b := k.Purchases()
	p := storetest.Purchase("fill")
	p.Plain, p.Hidden, p.Inputs = true, []byte("[]"), []byte("{}\n")
	storetest.Must(t, b.AddPurchase(t.Context(), p))
	storetest.Must(t, storetest.Reserve(t.Context(), b, p))
	storetest.Must(t, b.SetSent(t.Context(), p.RequestID, storetest.Secret(p).Hash()))
	storetest.Must(t, b.Paid(t.Context(), p.RequestID, storetest.PaidFor(p)))
	storetest.Must(t, b.AddFeedback(t.Context(), p.RequestID, storetest.HexID("7000"), []byte("{}"), storetest.Start))
	storetest.Must(t, b.SetSealed(t.Context(), p.RequestID, []byte("{}"), [][]byte{[]byte("box")}))
	storetest.Must(t, b.SetResult(t.Context(), p.RequestID, []byte("{}"), []byte("output"), nil, false))
	storetest.Must(t, b.SetReceipt(t.Context(), p.RequestID, receipts.PurposeResult, "rcpt_buyer", []byte("{}")))
	storetest.FillPanel(t, b)
	storetest.FillOrder(t, b, "filled order")
	storetest.FillEngagement(t, k)
	storetest.Must(t, b.SetCancel(t.Context(), p.RequestID, []byte("{}")))
	storetest.Must(t, b.Close(t.Context(), p.RequestID, buyer.StateFailed, "no result"))
	storetest.Must(t, b.SetRefund(t.Context(), p.RequestID, 900))
	storetest.Must(t, b.SetCredit(t.Context(), p.RequestID, buyer.CreditOwed, 900))
}

func TestBackupIsAWholeStore(t *testing.T) {
	k := storetest.Open(t)
	fill(t, k)
	dir := t.TempDir()
	storetest.Must(t, k.Backup(t.Context(), filepath.Join(dir, store.FileName)))
	before := k.Dump(t)
	copied := &storetest.DB{Dir: dir, Now: storetest.Start}
	copied.Reopen(t)
	defer copied.Close()
	if diff := cmp.Diff(before, copied.Dump(t)); diff != "" {
		t.Errorf("the copy differs:\n%s", diff)
	}
}
