package store_test

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

const day = 24 * time.Hour

// TestPruneAroundTheLastSecond prunes more than a batch, and nothing too soon.
func TestPruneAroundTheLastSecond(t *testing.T) {
	requirements.Covers(t, "AP-7.1.1", "AP-7.1.3", "AP-5.2.4")
	k := storetest.Open(t)
	const entries = store.PruneBatch + 3
	k.Change(t, func(tx *store.Tx) error {
		if err := tx.EnsureThread("root.a", "p"); err != nil {
			return err
		}
		for i := range entries {
			if _, err := tx.AppendJournalPayload(storetest.Entry("root.a", journal.RetainDays(2)), fmt.Append(nil, i)); err != nil {
				return err
			}
		}
		_, err := tx.AppendJournalPayload(storetest.Entry("root.a", journal.RetainForever), []byte("kept"))
		_, err2 := tx.PutSegment("root.a", "text/plain", []byte("context"))
		_, err3 := tx.PutSegment("root", "text/plain", []byte("context")) // the same bytes, of a thread at work
		_, err4 := tx.PutSegment("root.a", "text/plain", []byte("only here"))
		return errors.Join(err, err2, err3, err4)
	})
	storetest.Must(t, k.ContextStore().Return(t.Context(), curator.Returned{
		Thread: "root.a", Retention: pipeline.Retention{Policy: pipeline.RetainDays, Days: 2}, Folds: []curator.Change{storetest.Fold(1), storetest.Fold(3)},
	}))
	prune := func(at time.Time, want store.Pruned) {
		t.Helper()
		got, err := k.Prune(t.Context(), at)
		if got != want || err != nil {
			t.Errorf("Prune = %+v, %v, want %+v", got, err, want)
		}
	}
	prune(storetest.Start.Add(2*day-time.Second), store.Pruned{})
	if got := storetest.Original(t, k, "root.a", 3); got != "only here" {
		t.Errorf("folded: %q", got)
	}
	prune(storetest.Start.Add(2*day+time.Second), store.Pruned{Entries: entries, Segments: 2})
	prune(storetest.Start.AddDate(90, 0, 0), store.Pruned{})
	if got := storetest.Segments(t, k, "root.a"); len(got) != 0 {
		t.Errorf("left of the context: %+v", got)
	}
	if got := storetest.Original(t, k, "root", 2); got != "context" {
		t.Errorf("another thread's segment: %q", got)
	}
	left := k.Count(t, "SELECT count(*) FROM contents")
	if n := k.Count(t, "SELECT count(*) FROM journal"); n != 1 || left != 2 {
		t.Errorf("%d entries and %d contents are left", n, left)
	}
	// That there was something, and that it was pruned, stays on record.
	if n := k.Count(t, "SELECT count(*) FROM context_current WHERE status = 'Pruned' AND byte_size > 0"); n != 2 {
		t.Errorf("%d segments are on record as pruned", n)
	}
}

// TestLongThreadsGoPieceByPiece: the context of a thread that has more segments than one
// transaction ends is gone when Prune returns; a Prune that was cut off is continued.
func TestLongThreadsGoPieceByPiece(t *testing.T) {
	k := storetest.Open(t)
	const segments = 2*store.PruneBatch + 1
	var folds []curator.Change
	k.Change(t, func(tx *store.Tx) error {
		if err := tx.EnsureThread("root.a", "p"); err != nil {
			return err
		}
		for i := range segments {
			id, err := tx.PutSegment("root.a", "text/plain", fmt.Append(nil, "segment ", i))
			if err != nil {
				return err
			}
			folds = append(folds, storetest.Fold(id))
		}
		return nil
	})
	storetest.Must(t, k.ContextStore().Return(t.Context(), curator.Returned{
		Thread: "root.a", Retention: pipeline.Retention{Policy: pipeline.RetainDays, Days: 2}, Folds: folds,
	}))

	at := storetest.Start.AddDate(0, 0, 3)
	k.Change(t, func(tx *store.Tx) error {
		n, more, err := tx.PruneExpired(at, store.PruneBatch)
		if n != store.PruneBatch || !more {
			t.Errorf("%d segments at once, more: %v", n, more)
		}
		return err
	})
	k.Reopen(t)
	if got, err := k.Prune(t.Context(), at); got.Segments != segments-store.PruneBatch || err != nil {
		t.Errorf("the rest: %+v, %v", got, err)
	}
	if n := k.Count(t, "SELECT (SELECT count(*) FROM contents) + (SELECT count(*) FROM context_expiring)"); n != 0 {
		t.Errorf("%d contents are left", n)
	}
}

// TestPrunedStaysPruned is two defects seen elsewhere: a sweep that is not in the
// log, so that what it deleted is back after a restart; and what is left has the
// time of the restart then.
func TestPrunedStaysPruned(t *testing.T) {
	requirements.Covers(t, "APX-10")
	k := storetest.Open(t)
	k.Change(t, func(tx *store.Tx) error {
		if err := tx.EnsureThread("root", "p"); err != nil {
			return err
		}
		_, err := tx.AppendJournalPayload(storetest.Entry("root", journal.RetainDays(1)), []byte("gone"))
		_, err2 := tx.AppendJournalPayload(storetest.Entry("root", journal.RetainForever), []byte("kept"))
		return errors.Join(err, err2)
	})
	_, err := k.Prune(t.Context(), storetest.Start.Add(2*day))
	storetest.Must(t, err)
	before := k.Dump(t)
	k.Now = storetest.Start.Add(3 * day)
	k.Reopen(t)
	if diff := cmp.Diff(before, k.Dump(t)); diff != "" || len(before["journal"]) != 1 {
		t.Errorf("%d entries; after a restart:\n%s", len(before["journal"]), diff)
	}
}

func TestPruneStopsWhenToldTo(t *testing.T) {
	k := storetest.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Prune(ctx, storetest.Start); !errors.Is(err, context.Canceled) {
		t.Errorf("Prune = %v", err)
	}
}

// TestOpenJobsKeepTheirJournal prunes long after the days of a job's entries: as
// long as the job goes on, its trajectory is not fixed.
func TestOpenJobsKeepTheirJournal(t *testing.T) {
	requirements.Covers(t, "K-40")
	k := storetest.Open(t)
	j := storetest.Job("x", receipts.ModeHold)
	storetest.ToState(t, k.Sales("p"), j, job.StateRunning)
	storetest.Must(t, k.PipelineLog("p").Append(t.Context(), pipeline.Entry{
		Thread: pipeline.ThreadID(storetest.ThreadOf(j)), Direction: pipeline.Outbound, Handler: "h", PayloadTag: "t",
		PayloadHash: storetest.Digest("payload"), Retention: pipeline.Retention{Policy: pipeline.RetainDays, Days: 1},
	}))
	for _, want := range []int{0, 1} {
		got, err := k.Prune(t.Context(), storetest.Start.Add(30*day))
		if got.Entries != want || err != nil {
			t.Errorf("pruned %+v, %v, want %d", got, err, want)
		}
		if want == 0 {
			storetest.Must(t, storetest.DoStep(t, k.Sales("p"), j, "cancel"))
		}
	}
}

func TestPaidProfilesRetainTheDisputeWindow(t *testing.T) {
	requirements.Covers(t, "K-40")
	for _, tt := range []struct {
		r      journal.Retention
		window time.Duration
		is     error
	}{
		{journal.RetainForever, 1000 * day, nil},
		{journal.RetainDays(14), 14 * day, nil},
		{journal.RetainDays(14), 14*day + 1, journal.ErrRetention},
		{journal.RetainDays(journal.MaxRetainDays), 14 * day, nil},
		{journal.RetainDays(1), 0, nil},
		{journal.PruneOnDelivery, 1, journal.ErrRetention},
		{journal.PruneOnDelivery, 0, journal.ErrRetention}, // it would delete before the trajectory is fixed
		{"sometimes", 0, row.ErrInvalid},
		{"", 0, row.ErrInvalid},
	} {
		if err := tt.r.CheckPaid(tt.window); !errors.Is(err, tt.is) {
			t.Errorf("%s.CheckPaid(%s) = %v, want %v", tt.r, tt.window, err, tt.is)
		}
	}
}

// TestPipelinePrunesOnDelivery: an entry goes when its handler has answered, not
// before; the rest when the thread returns.
func TestPipelinePrunesOnDelivery(t *testing.T) {
	requirements.Covers(t, "AP-7.1.2")
	k := storetest.Open(t)
	log := k.PipelineLog("p")
	add := func(d pipeline.Direction, handler string, p pipeline.RetentionPolicy) {
		t.Helper()
		storetest.Must(t, log.Append(t.Context(), pipeline.Entry{
			Thread: "root", Direction: d, Handler: handler, PayloadTag: "t", PayloadHash: storetest.Digest("payload"), Retention: pipeline.Retention{Policy: p},
		}))
	}
	left := func(step string, want ...string) {
		t.Helper()
		var got []string
		k.Read(t, func(tx *store.Tx) error {
			list, err := tx.Entries(journal.Filter{})
			for _, e := range list {
				got = append(got, string(e.Direction)+" "+e.Handler)
			}
			return err
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", step, got, want)
		}
	}
	add(pipeline.Outbound, "a", pipeline.PruneOnDelivery)
	add(pipeline.Outbound, "b", pipeline.PruneOnDelivery)
	add(pipeline.Outbound, "a", pipeline.RetainForever)
	left("sent", "Outbound a", "Outbound b", "Outbound a")
	add(pipeline.Inbound, "a", pipeline.PruneOnDelivery)
	left("a has answered", "Outbound b", "Outbound a", "Inbound a")
	storetest.Must(t, k.ContextStore().Return(t.Context(), curator.Returned{Thread: "root", Retention: pipeline.Retention{Policy: pipeline.PruneOnDelivery}}))
	left("the thread has returned", "Outbound a")
}

// TestStoreCoordinatesWithNobody reads what the store is made of.
func TestStoreCoordinatesWithNobody(t *testing.T) {
	requirements.Covers(t, "AP-14.3.2")
	for _, dir := range []string{".", "*", "../sqlite"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		storetest.Must(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			storetest.Must(t, err)
			for _, i := range f.Imports {
				path, err := strconv.Unquote(i.Path.Value)
				storetest.Must(t, err)
				if path == "net" || strings.HasPrefix(path, "net/") && path != "net/url" || strings.Contains(path, "grpc") || strings.Contains(path, "/relay") {
					t.Errorf("%s imports %s: it could talk to another store", file, path)
				}
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-tags", "libsecp256k1", "-deps", ".")
	cmd.Stderr = os.Stderr
	deps, err := cmd.Output()
	storetest.Must(t, err)
	if !strings.Contains(string(deps), "internal/sqlite") {
		t.Fatalf("dependencies: %s", deps)
	}
	for dep := range strings.Lines(string(deps)) {
		for _, word := range []string{"raft", "etcd", "consul", "zookeeper", "paxos", "memberlist", "gossip", "nats"} {
			if strings.Contains(dep, word) {
				t.Errorf("the store depends on %s", dep)
			}
		}
	}
	// Two stores go on as if there were no other.
	a, b := storetest.Open(t), storetest.Open(t)
	for _, k := range []*storetest.DB{a, b} {
		storetest.PutSegments(t, k, "same id, own store")
		k.Change(t, func(tx *store.Tx) error { return tx.EndThread("root", journal.ThreadCompleted, nil) })
	}
	if diff := cmp.Diff(a.Dump(t), b.Dump(t)); diff != "" {
		t.Errorf("two nodes with the same history differ:\n%s", diff)
	}
}
