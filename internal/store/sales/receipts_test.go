package sales_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

func TestReceiptsAreListedAndFound(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	var want []string
	for i := range 4 {
		j := storetest.Job(fmt.Sprint(i), receipts.ModeHold)
		storetest.ToState(t, s, j, job.StateSucceeded)
		want = append([]string{j.RequestID}, want...)
	}
	for _, tt := range []struct{ limit, want int }{{0, 4}, {2, 2}} {
		got, err := s.Receipts(t.Context(), tt.limit)
		if err != nil || len(got) != tt.want {
			t.Fatalf("limit %d: %d receipts, %v", tt.limit, len(got), err)
		}
		for i, r := range got {
			if r.RequestID != want[i] || r.ReceiptID == "" || len(r.Doc) == 0 {
				t.Errorf("limit %d: at %d is %+v, want that of %s", tt.limit, i, r, want[i])
			}
		}
	}
	all, err := s.Receipts(t.Context(), 0)
	storetest.Must(t, err)
	for _, name := range []string{all[2].ReceiptID, all[2].RequestID} {
		got, err := s.FindReceipts(t.Context(), name)
		if err != nil || len(got) != 1 || got[0].RequestID != want[2] {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := s.FindReceipts(t.Context(), "rcpt_%"); err != nil || len(got) != 0 {
		t.Errorf("a pattern finds %+v, %v", got, err)
	}
	if _, err := s.FindReceipts(t.Context(), "rcpt_"); !errors.Is(err, row.ErrInvalid) {
		t.Errorf("a short name: %v", err)
	}
}

// BenchmarkReceiptQueries asks for receipts among many: 10,000, and as many as
// LIGHTWORK_BENCH_RECEIPTS says, a million if it says nothing. Ten million take about
// 10 GB of disk and some minutes to write.
func BenchmarkReceiptQueries(b *testing.B) {
	many := 1_000_000
	if n, err := strconv.Atoi(os.Getenv("LIGHTWORK_BENCH_RECEIPTS")); err == nil {
		many = n
	}
	for _, rows := range []int{10_000, many} {
		k := storetest.Open(b)
		fillReceipts(b, k, rows)
		s := k.Sales("p")
		id := func(i int) string { return fmt.Sprintf("rcpt_%032x", 1+i*7919%rows) }
		for _, q := range []struct {
			name string
			ask  func(ctx context.Context, i int) error
		}{
			{"list", func(ctx context.Context, _ int) error { _, err := s.Receipts(ctx, 50); return err }},
			{"find", func(ctx context.Context, i int) error { _, err := s.FindReceipts(ctx, id(i)); return err }},
			{"trace", func(ctx context.Context, i int) error { _, err := k.Trace(ctx, id(i)); return err }},
		} {
			b.Run(fmt.Sprintf("%s/rows=%d", q.name, rows), func(b *testing.B) { askOften(b, q.ask) })
		}
	}
}

// askOften reports how long questions take that are answered from memory, by the
// clock and in processor time, and how many had to wait for a disk, and how long.
func askOften(b *testing.B, ask func(ctx context.Context, i int) error) {
	runtime.LockOSThread() // what is counted is this thread's
	defer runtime.UnlockOSThread()
	var clock, cpu, disk []time.Duration
	for i := 0; b.Loop(); i++ {
		began, used, read := time.Now(), ofThread(b), blocksRead(b)
		storetest.Must(b, ask(b.Context(), i))
		took := time.Since(began)
		used = ofThread(b) - used
		if blocksRead(b) > read {
			disk = append(disk, took)
			continue
		}
		clock, cpu = append(clock, took), append(cpu, used)
	}
	for _, m := range []struct {
		name string
		of   []time.Duration
	}{{"", clock}, {"cpu-", cpu}, {"disk-", disk}} {
		if len(m.of) == 0 {
			continue
		}
		slices.Sort(m.of)
		b.ReportMetric(float64(m.of[len(m.of)/2].Nanoseconds())/1e3, m.name+"p50-us")
		b.ReportMetric(float64(m.of[len(m.of)*99/100].Nanoseconds())/1e3, m.name+"p99-us")
	}
	b.ReportMetric(float64(len(disk))/float64(b.N), "disk/op")
}

func ofThread(b *testing.B) time.Duration {
	b.Helper()
	var at unix.Timespec
	storetest.Must(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at))
	return time.Duration(at.Nano())
}

func blocksRead(b *testing.B) int64 {
	b.Helper()
	var used unix.Rusage
	storetest.Must(b, unix.Getrusage(unix.RUSAGE_THREAD, &used))
	return used.Inblock
}

// fillReceipts writes receipts half as large as real ones, of jobs that are not there.
func fillReceipts(b *testing.B, k *storetest.DB, rows int) {
	b.Helper()
	storetest.Must(b, k.Close())
	db, err := sql.Open("sqlite3", filepath.Join(k.Dir, store.FileName)+"?_synchronous=OFF")
	storetest.Must(b, err)
	db.SetMaxOpenConns(1)
	var chain string
	storetest.Must(b, db.QueryRow("SELECT sql FROM sqlite_master WHERE name = 'receipts_chain'").Scan(&chain))
	_, err = db.Exec("DROP TRIGGER receipts_chain")
	storetest.Must(b, err)
	const step = 100_000
	for from := 1; from <= rows; from += step {
		_, err = db.Exec(`WITH RECURSIVE n(i) AS (VALUES (?1) UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
			INSERT INTO receipts SELECT i, printf('%064x', i), printf('rcpt_%032x', i), zeroblob(600), CAST(printf('%032d', i) AS BLOB),
				iif(i = 1, NULL, CAST(printf('%032d', i - 1) AS BLOB)), i FROM n`, from, min(from+step-1, rows))
		storetest.Must(b, err)
	}
	_, err = db.Exec(chain)
	storetest.Must(b, err)
	storetest.Must(b, db.Close())
	f, err := os.Open(filepath.Join(k.Dir, store.FileName))
	storetest.Must(b, err)
	_, err = io.Copy(io.Discard, f) // into the system's cache: what a disk takes is not asked here
	storetest.Must(b, err)
	storetest.Must(b, f.Close())
	k.Store = nil
	k.Reopen(b)
}
