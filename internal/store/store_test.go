package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/outbox"
	"github.com/lightwork-market/lightwork/receipts"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("KERNEL_TEST_CHILD"); dir != "" {
		os.Exit(child(dir))
	}
	if dir := os.Getenv("KERNEL_TEST_STORY"); dir != "" {
		os.Exit(tellAndDie(dir, os.Getenv("KERNEL_TEST_KILL")))
	}
	if dir := os.Getenv("KERNEL_TEST_CURATE"); dir != "" {
		os.Exit(curateAndDie(dir))
	}
	goleak.VerifyTestMain(m)
}

// start is the clock of every test store, until a test moves it.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// testStore is a store with a clock that the test owns.
type testStore struct {
	*Store
	dir string
	now time.Time
}

func open(t testing.TB) *testStore {
	t.Helper()
	k := &testStore{dir: filepath.Join(t.TempDir(), "node"), now: start}
	k.reopen(t)
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

func (k *testStore) reopen(t testing.TB) {
	t.Helper()
	if k.Store != nil {
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if k.Store, err = Open(t.Context(), k.dir, Options{Now: func() time.Time { return k.now }}); err != nil {
		t.Fatal(err)
	}
}

func (k *testStore) update(t testing.TB, fn func(tx *Tx) error) {
	t.Helper()
	if err := k.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func (k *testStore) view(t testing.TB, fn func(tx *Tx) error) {
	t.Helper()
	if err := k.View(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func (k *testStore) count(t testing.TB, query string, args ...any) (n int) {
	t.Helper()
	k.view(t, func(tx *Tx) error { return tx.QueryRow(query, args...).Scan(&n) })
	return n
}

// dump renders every row of every table.
func (k *testStore) dump(t testing.TB) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	k.view(t, func(tx *Tx) error {
		tables, err := tx.Strings("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
		if err != nil {
			return err
		}
		for _, table := range tables {
			rows, err := tx.Query("SELECT * FROM " + table)
			if err != nil {
				return err
			}
			if out[table], err = render(rows); err != nil {
				return err
			}
		}
		return nil
	})
	return out
}

func render(rows *sql.Rows) ([]string, error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var list []string
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			return nil, err
		}
		var b strings.Builder
		for _, v := range values {
			fmt.Fprintf(&b, "%v|", *v.(*any))
		}
		list = append(list, b.String())
	}
	return list, rows.Err()
}

// hexID makes a 64-digit id from a short name.
func hexID(format string, args ...any) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, format, args...)))
}

func digest(name string) hashing.Digest { return hashing.Bytes([]byte(name)) }

func TestOpenRefusesASecondNode(t *testing.T) {
	requirements.Covers(t, "AP-14.3.1", "AP-B.9")
	k := open(t)
	_, err := Open(t.Context(), k.dir, Options{})
	if !errors.Is(err, sqlite.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) {
		t.Fatalf("second open = %v", err)
	}
	if info, err := os.Stat(k.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data folder: %v, %v", info.Mode(), err)
	}
}

func TestReadOnlyLooksBesideTheNode(t *testing.T) {
	k := open(t)
	k.update(t, func(tx *Tx) error { return tx.SetMeta("a", "1") })
	ro, err := Open(t.Context(), k.dir, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	var got string
	err = ro.View(t.Context(), func(tx *Tx) (err error) {
		got, err = tx.Meta("a")
		return err
	})
	if err != nil || got != "1" {
		t.Errorf("Meta = %q, %v", got, err)
	}
	if err := ro.Update(t.Context(), func(tx *Tx) error { return nil }); !errors.Is(err, sqlite.ErrReadOnly) {
		t.Errorf("Update = %v", err)
	}
	if _, err := Open(t.Context(), t.TempDir(), Options{ReadOnly: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("read-only open of nothing = %v", err)
	}
}

// TestStoresChangeTogether writes to every store in one transaction that ends
// in an error.
func TestStoresChangeTogether(t *testing.T) {
	requirements.Covers(t, "AP-8.3.1")
	k := open(t)
	all := func(tx *Tx) error {
		_, err := tx.AppendJournalPayload(entry("root", journal.RetainForever), []byte("payload"))
		return errors.Join(
			err,
			tx.CreateThread("root.a", "p"),
			tx.SetCursor("relay", 7),
			tx.Audit("x", "y", nil),
			tx.RecordDirective(journal.Directive{ID: "d", Key: "k", ApprovedBy: "me"}),
			tx.Enqueue(outbox.OutEvent{EventID: hexID("e"), Event: []byte("{}"), Relays: []string{"wss://r"}}),
			tx.Correlate(hexID("r"), journal.NameThread, "root.a"),
		)
	}
	k.update(t, func(tx *Tx) error { return tx.CreateThread("root", "p") })
	before := k.dump(t)
	stop := errors.New("stop")
	if err := k.Update(t.Context(), func(tx *Tx) error { return errors.Join(all(tx), stop) }); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, k.dump(t)); diff != "" {
		t.Errorf("a failed transaction left:\n%s", diff)
	}
	k.update(t, all)
	after := k.dump(t)
	for _, table := range []string{"journal", "contents", "threads", "meta", "audit", "directives", "outbox", "correlation"} {
		if len(after[table]) == len(before[table]) {
			t.Errorf("%s did not change", table)
		}
	}
	k.reopen(t)
	if diff := cmp.Diff(after, k.dump(t)); diff != "" {
		t.Errorf("after reopening:\n%s", diff)
	}
}

// mutable tables hold cursors, or an index or sums of what other tables say.
var mutable = []string{
	"meta", "outbox_open", "open_jobs", "open_purchases", "open_orders", "open_refunds", "unknown_payments", "context_expiring", "journal_threads", "journal_deleted", "sqlite_sequence",
	"job_record", "ledger_days", "purchase_totals", "provider_done",
}

// TestTablesAreAppendOnly tries to change, delete and replace the rows of every
// table of a node that has done everything once, past the code, in SQL.
func TestTablesAreAppendOnly(t *testing.T) {
	requirements.Covers(t, "AP-7.3.1", "AP-B.6", "APX-10")
	k := open(t)
	fill(t, k)
	before := k.dump(t)
	for _, table := range slices.Sorted(maps.Keys(before)) {
		if slices.Contains(mutable, table) {
			continue
		}
		if len(before[table]) == 0 {
			t.Errorf("%s is empty: nothing is tested", table)
			continue
		}
		var columns []string
		k.view(t, func(tx *Tx) (err error) {
			columns, err = tx.Strings("SELECT name FROM pragma_table_info(?)", table)
			return err
		})
		for _, query := range []string{
			fmt.Sprintf("UPDATE %s SET %s = %[2]s", table, columns[len(columns)-1]),
			"DELETE FROM " + table,
			fmt.Sprintf("INSERT OR REPLACE INTO %s SELECT * FROM %[1]s", table),
		} {
			err := k.Update(t.Context(), func(tx *Tx) error {
				_, err := tx.Exec(query)
				return err
			})
			if !sqlite.IsConstraint(err) {
				t.Errorf("%s: %v", query, err)
			}
		}
	}
	if diff := cmp.Diff(before, k.dump(t)); diff != "" {
		t.Errorf("something changed:\n%s", diff)
	}
}

// fill takes a node through everything it can record.
func fill(t *testing.T, k *testStore) {
	t.Helper()
	k.update(t, func(tx *Tx) error {
		if err := tx.EnsureThread("root", "p"); err != nil {
			return err
		}
		_, err := tx.AppendJournalPayload(entry("root", journal.RetainForever), []byte("payload"))
		_, err2 := tx.PutSegment("root", "text/plain", []byte("known"))
		_, err3 := tx.PutContent([]byte("payload"))
		return errors.Join(err, err2, err3, tx.Audit("x", "y", nil))
	})
	s := k.Sales("p")
	must(t, s.UsePolicy(t.Context(), []byte("policy")))
	j := testJob("fill", "prepay")
	j.RefundAddress = "bc1fill"
	toState(t, s, j, "delivering")
	must(t, doStep(t, s, j, "reword"))
	acks := acksOf(t, s)
	must(t, s.AddAcks(t.Context(), acks...))
	must(t, s.SetSignature(t.Context(), acks[0].EventID, strings.Repeat("5", 128)))
	must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, settled(j), issuer(j)))
	for sequence, want := range map[int64]bool{7: true, 1: false} {
		if adopted, err := s.AdoptReceipt(t.Context(), sequence, hashing.Bytes([]byte("signed elsewhere"))); err != nil || adopted != want && sequence == 1 {
			t.Fatalf("adopt receipt %d: %v, %v", sequence, adopted, err)
		}
	}
	must(t, chosenJob(t, s, "chosen", "prepay", preimage("chosen").Hash()))
	owed := owe(t, s, "owed", 20_000)
	must(t, s.EndRefund(t.Context(), owed.RequestID, refundedFor(owed)))
	tried := owe(t, s, "tried", 20_000)
	must(t, s.SetRefundSent(t.Context(), tried.RequestID, 1))
	must(t, s.EndRefund(t.Context(), tried.RequestID, failedAt(1)))
	_, err := s.RetryRefund(t.Context(), *debtOf(tried, 20_000).Refund)
	must(t, err)
	must(t, s.EndRefund(t.Context(), tried.RequestID, failedAt(2)))
	must(t, s.WriteOff(t.Context(), tried.RequestID, 1_000, "by hand"))
	addLate(t, s, owed, owed.PriceMsats+5, 5)
	user := testJob("user", "hold")
	user.CreditMsats = 1_000
	must(t, s.AddJob(t.Context(), user))

	b := k.Purchases()
	p := testPurchase("fill")
	p.Plain, p.Hidden, p.Inputs = true, []byte("[]"), []byte("{}\n")
	must(t, b.AddPurchase(t.Context(), p))
	must(t, reserve(t.Context(), b, p))
	must(t, b.SetSent(t.Context(), p.RequestID, secret(p).Hash()))
	must(t, b.Paid(t.Context(), p.RequestID, paidFor(p)))
	must(t, b.AddFeedback(t.Context(), p.RequestID, hexID("7000"), []byte("{}"), start))
	must(t, b.SetSealed(t.Context(), p.RequestID, []byte("{}"), [][]byte{[]byte("box")}))
	must(t, b.SetResult(t.Context(), p.RequestID, []byte("{}"), []byte("output"), nil, false))
	must(t, b.SetReceipt(t.Context(), p.RequestID, receipts.PurposeResult, "rcpt_buyer", []byte("{}")))
	fillPanel(t, b)
	fillOrder(t, b, "filled order")
	fillEngagement(t, k)
	must(t, b.SetCancel(t.Context(), p.RequestID, []byte("{}")))
	must(t, b.Close(t.Context(), p.RequestID, buyer.StateFailed, "no result"))
	must(t, b.SetRefund(t.Context(), p.RequestID, 900))
	must(t, b.SetCredit(t.Context(), p.RequestID, buyer.CreditOwed, 900))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestBackupIsAWholeStore(t *testing.T) {
	k := open(t)
	fill(t, k)
	dir := t.TempDir()
	must(t, k.Backup(t.Context(), filepath.Join(dir, FileName)))
	before := k.dump(t)
	copied := &testStore{dir: dir, now: start}
	copied.reopen(t)
	defer copied.Close()
	if diff := cmp.Diff(before, copied.dump(t)); diff != "" {
		t.Errorf("the copy differs:\n%s", diff)
	}
}

func TestCursorMovesWithItsEffect(t *testing.T) {
	k := open(t)
	k.update(t, func(tx *Tx) error { return tx.SetCursor("wss://r", 10) })
	stop := errors.New("stop")
	err := k.Update(context.Background(), func(tx *Tx) error { return errors.Join(tx.SetCursor("wss://r", 20), stop) })
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	k.update(t, func(tx *Tx) error { return tx.SetMeta("cursor/bad", "x") })
	k.view(t, func(tx *Tx) error {
		for name, want := range map[string]int64{"wss://r": 10, "other": 0} {
			if got, err := tx.Cursor(name); got != want || err != nil {
				t.Errorf("Cursor(%s) = %d, %v", name, got, err)
			}
		}
		if _, err := tx.Cursor("bad"); err == nil {
			t.Error("a cursor that is no number was read")
		}
		return nil
	})
}
