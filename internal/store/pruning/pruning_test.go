package pruning_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/pruning"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

const (
	day   = 24 * time.Hour
	dayMs = receipts.Keep(24 * 3_600_000)
)

// promised is what the quotes of these tests promise.
func promised() receipts.Retention {
	return receipts.Retention{
		DisputeMs: int64(7 * dayMs), ResultsMs: 30 * dayMs, ArtifactsMs: 7 * dayMs, TrajectoriesMs: 20 * dayMs,
		JournalsMs: 8 * dayMs, BlobsMs: 7 * dayMs, EventsMs: 9 * dayMs,
	}
}

// quoted is a job whose quote promises this.
func quoted(t testing.TB, name string, mode receipts.Mode, keep receipts.Retention) job.Job {
	t.Helper()
	j := storetest.Job(name, mode)
	doc, err := json.Marshal(map[string]any{"name": name, "retention": keep})
	storetest.Must(t, err)
	j.Quote, j.QuoteHash = doc, hashing.Bytes(doc)
	return j
}

// feedback is an event of a job with a domain, as it is sent, and of what is inside.
func feedback(j job.Job, what, sent, inside string) job.OutEvent {
	out := storetest.EventFor(j, what)
	out.Event = fmt.Appendf(nil, `{"what":%q,"tags":[["e","x"],["domain",%q]]}`, what, sent)
	out.Domain = inside
	return out
}

// sell takes a job to its end, with artifacts of its own, an entry of the journal,
// feedback and a quote's event.
func sell(t testing.TB, k *storetest.DB, name string, keep receipts.Retention, artifacts ...[]byte) job.Job {
	t.Helper()
	j := quoted(t, name, receipts.ModeHold, keep)
	s := k.Sales("p")
	storetest.ToState(t, s, j, job.StateRunning)
	r, contents := storetest.ResultOf(j, 1)
	for _, a := range artifacts {
		contents = append(contents, a)
		r.Artifacts = append(r.Artifacts, hashing.Bytes(a))
	}
	k.Change(t, func(tx *store.Tx) error {
		e := storetest.Entry(storetest.ThreadOf(j), journal.RetainDays(1))
		e.RequestID = j.RequestID
		_, err := tx.AppendJournalPayload(e, []byte("said in "+name))
		return err
	})
	storetest.Must(t, s.Finish(t.Context(), j.RequestID, 1, r, contents,
		feedback(j, "partial", "lightwork/feedback/v1", "lightwork/feedback/v1"), feedback(j, "hidden partial", "lightwork/encrypted/v1", "lightwork/feedback/v1"),
		feedback(j, "quote", "lightwork/quote/v1", "lightwork/quote/v1"), feedback(j, "hidden quote", "lightwork/encrypted/v1", "lightwork/quote/v1"),
		storetest.EventFor(j, "6050")))
	storetest.Must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, storetest.Settled(j), storetest.Issuer(j)))
	return j
}

// commits runs everything to its end and calls after after each transaction.
func commits(ctx context.Context, s pruning.Store, keep receipts.Retention, after func()) error {
	for _, step := range []func() (bool, error){
		func() (bool, error) {
			_, more, err := s.Mark(ctx, keep)
			return more, err
		},
		func() (bool, error) {
			_, more, err := s.Sweep(ctx)
			return more, err
		},
		func() (bool, error) {
			b, err := s.NextBlobs(ctx, 0)
			if err != nil || b == nil {
				return false, err
			}
			_, _, err = s.SweepBlobs(ctx, b.Job)
			return true, err
		},
		func() (bool, error) { return s.SweepPieces(ctx) },
		func() (bool, error) {
			n, err := s.Reclaim(ctx)
			return n > 0, err
		},
	} {
		for more := true; more; {
			var err error
			if more, err = step(); err != nil {
				return err
			}
			after()
		}
	}
	return nil
}

func prune(t testing.TB, k *storetest.DB, keep receipts.Retention) {
	t.Helper()
	storetest.Must(t, k.Pruning().TrustClock(t.Context()))
	storetest.Must(t, commits(t.Context(), k.Pruning(), keep, func() {}))
}

// left says which parts of a job are still here.
func left(t testing.TB, k *storetest.DB, j job.Job) (parts []string) {
	t.Helper()
	for _, part := range receipts.Parts() {
		if n := k.Count(t, "SELECT count(*) FROM job_keeps k JOIN requests r ON r.seq = k.job WHERE r.request_id = ? AND k.part = ?", j.RequestID, part); n > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}

// TestEachPartGoesInItsTime: a part goes in the millisecond in which its promise is over,
// with its contents, and not before; what proves the sale stays.
func TestEachPartGoesInItsTime(t *testing.T) {
	k := storetest.Open(t)
	j := sell(t, k, "a", promised(), []byte("log of a"))
	r, _ := storetest.ResultOf(j, 1)
	have := func(d hashing.Digest) bool {
		return k.Count(t, "SELECT count(*) FROM contents WHERE digest = ?", d[:]) > 0
	}
	log := hashing.Bytes([]byte("log of a"))

	all := receipts.Parts()
	for _, c := range []struct {
		at   time.Duration
		left []string
		gone int // events
	}{
		{7*day - time.Millisecond, all, 0},
		{7 * day, []string{"results", "trajectories", "journals", "events"}, 0},
		{8 * day, []string{"results", "trajectories", "events"}, 0},
		{9 * day, []string{"results", "trajectories"}, 1},
		{20 * day, []string{"results"}, 1},
		{30*day - time.Millisecond, []string{"results"}, 1},
		{30 * day, nil, 1},
	} {
		k.Now = storetest.Start.Add(c.at)
		k.Reopen(t)
		prune(t, k, promised())
		got := left(t, k, j)
		if !slices.Equal(got, c.left) {
			t.Errorf("after %s: %v are left, want %v", c.at, got, c.left)
		}
		for part, d := range map[string]hashing.Digest{"results": r.OutputHash, "artifacts": log, "trajectories": r.Replay} {
			if have(d) != slices.Contains(c.left, part) {
				t.Errorf("after %s: the content of %s is there: %v", c.at, part, have(d))
			}
		}
		if n := k.Count(t, "SELECT count(*) FROM journal WHERE request_id = ?", j.RequestID); (n > 0) != slices.Contains(c.left, "journals") {
			t.Errorf("after %s: %d entries of the journal", c.at, n)
		}
		if n := k.Count(t, "SELECT count(*) FROM outbox WHERE CAST(event AS TEXT) LIKE '%partial%'"); n != 2-2*c.gone {
			t.Errorf("after %s: %d events of feedback", c.at, n)
		}
		if _, err := k.Prune(t.Context(), k.Now); err != nil {
			t.Error(err)
		}
	}

	found, err := k.Sales("p").Job(t.Context(), j.RequestID)
	storetest.Must(t, err)
	var pruned []string
	for _, p := range found.Pruned {
		pruned = append(pruned, p.Part)
	}
	if want := slices.Sorted(slices.Values(all)); !slices.Equal(pruned, want) || found.Result == nil || found.Result.Output != nil || found.Receipt == nil || len(found.Result.Event) == 0 {
		t.Errorf("pruned %v, result %+v, receipt %s", pruned, found.Result, found.Receipt)
	}
	if !found.Pruned[0].At.Equal(storetest.Start.Add(7 * day)) {
		t.Errorf("the artifacts went at %s", found.Pruned[0].At)
	}
	if n := k.Count(t, "SELECT count(*) FROM outbox WHERE CAST(event AS TEXT) LIKE '%quote%' OR CAST(event AS TEXT) LIKE '%6050%' OR CAST(event AS TEXT) LIKE '%receipt%'"); n != 4 {
		t.Errorf("%d events that prove the sale", n)
	}
}

// TestCopiesOfResultsGo: the copy of a result's event that was on its way goes with the
// job's events, once a relay has it; one that is not the same, or whose signature came
// later, stays.
func TestCopiesOfResultsGo(t *testing.T) {
	for _, c := range []struct {
		what         string
		open, signed bool
		event        string
		gone         bool
	}{
		{"the same", false, false, "6050", true},
		{"still on its way", true, false, "6050", false},
		{"signed later", false, true, "6050", false},
		{"another", false, false, "6051", false},
	} {
		k := storetest.Open(t)
		j := quoted(t, "a", receipts.ModeHold, promised())
		s := k.Sales("p")
		storetest.ToState(t, s, j, job.StateRunning)
		r, contents := storetest.ResultOf(j, 1)
		out := storetest.EventFor(j, c.event)
		r.EventID, r.Event = out.EventID, storetest.EventFor(j, "6050").Event
		storetest.Must(t, s.Finish(t.Context(), j.RequestID, 1, r, contents, out))
		if c.signed {
			storetest.Must(t, s.SetSignature(t.Context(), out.EventID, strings.Repeat("5", 128)))
		}
		if !c.open {
			for _, relay := range j.Relays {
				storetest.Must(t, s.AddAcks(t.Context(), job.Ack{EventID: out.EventID, Relay: relay, OK: true, At: storetest.Start}))
			}
		}
		storetest.Must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, storetest.Settled(j), storetest.Issuer(j)))

		k.Now = storetest.Start.Add(9 * day)
		k.Reopen(t)
		prune(t, k, promised())
		if n := k.Count(t, "SELECT count(*) FROM outbox WHERE event_id = ?", out.EventID); n != 0 == c.gone {
			t.Errorf("%s: gone %v", c.what, n == 0)
		}
		found, err := k.Sales("p").Job(t.Context(), j.RequestID)
		if err != nil || found.Result == nil || string(found.Result.Event) != string(r.Event) {
			t.Errorf("%s: the result's event is %+v, %v", c.what, found.Result, err)
		}
	}
}

// TestThePromiseBinds: what is configured later makes it longer, never shorter.
func TestThePromiseBinds(t *testing.T) {
	k := storetest.Open(t)
	shorter, longer, forever := promised(), promised(), promised()
	shorter.ResultsMs, longer.ResultsMs, forever.ResultsMs = 7*dayMs, 60*dayMs, 0
	j, eternal := sell(t, k, "a", promised()), sell(t, k, "b", forever)
	for _, c := range []struct {
		at   time.Duration
		keep receipts.Retention
		gone bool
	}{
		{29 * day, shorter, false},
		{31 * day, longer, false},
		{60*day - time.Second, longer, false},
		{70 * day, forever, false},
		{70 * day, longer, true},
	} {
		k.Now = storetest.Start.Add(c.at)
		k.Reopen(t)
		prune(t, k, c.keep)
		if gone := !slices.Contains(left(t, k, j), "results"); gone != c.gone {
			t.Errorf("after %s the result is gone: %v", c.at, gone)
		}
	}
	k.Now = storetest.Start.AddDate(90, 0, 0)
	k.Reopen(t)
	prune(t, k, shorter)
	if !slices.Equal(left(t, k, eternal), []string{"results"}) {
		t.Errorf("of a job whose result is promised for ever %v is left", left(t, k, eternal))
	}
}

// TestWhoIsGuarded: of a job that is open, unsettled, owed for or disputed nothing goes
// as long as it is, and the rest goes on; nor does anything past the code, in SQL.
func TestWhoIsGuarded(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	open := quoted(t, "open", receipts.ModeHold, promised())
	storetest.ToState(t, s, open, job.StateDelivering)
	owed := quoted(t, "owed", receipts.ModePrepay, promised())
	storetest.ToState(t, s, owed, job.StatePaid)
	storetest.Must(t, s.Close(t.Context(), owed.RequestID, job.StateFailed, job.Reason{Code: "code"}, storetest.DebtOf(owed, 0)))
	refunded := quoted(t, "refunded", receipts.ModePrepay, promised())
	refunded.Buyer = storetest.HexID("another buyer")
	storetest.ToState(t, s, refunded, job.StatePaid)
	storetest.Must(t, s.Close(t.Context(), refunded.RequestID, job.StateFailed, job.Reason{Code: "code"}, storetest.DebtOf(refunded, 20_000)))
	unknown := quoted(t, "unknown", receipts.ModePrepay, promised())
	storetest.ToState(t, s, unknown, job.StateQuoted)
	storetest.Must(t, s.Close(t.Context(), unknown.RequestID, job.StateExpired, job.Reason{Code: "payment_unknown"}, nil))
	disputed := sell(t, k, "disputed", promised())
	storetest.Must(t, k.Pruning().SetDispute(t.Context(), disputed.RequestID, true))
	over := sell(t, k, "over", promised())

	k.Now = storetest.Start.AddDate(1, 0, 0)
	k.Reopen(t)
	plan, err := k.Pruning().Plan(t.Context(), promised(), true)
	storetest.Must(t, err)
	for _, p := range plan {
		if p.Jobs != 1 || p.Guarded != 4 {
			t.Errorf("%s: of %d jobs, %d are guarded", p.Part, p.Jobs, p.Guarded)
		}
	}
	prune(t, k, promised())
	if got := left(t, k, over); got != nil {
		t.Errorf("of a job that is over %v is left", got)
	}
	for name, j := range map[string]job.Job{"owed": owed, "refunded": refunded, "unknown": unknown, "disputed": disputed} {
		if got := left(t, k, j); !slices.Equal(got, receipts.Parts()) {
			t.Errorf("%s: only %v is left", name, got)
		}
		for _, part := range receipts.Parts() {
			err := k.Update(t.Context(), func(tx *store.Tx) error {
				_, err := tx.Exec("INSERT INTO job_pruned(job, part, at_ms) SELECT seq, ?, 9e15 FROM requests WHERE request_id = ?", part, j.RequestID)
				return err
			})
			if !sqlite.IsConstraint(err) {
				t.Errorf("%s: marked past the code: %v", name, err)
			}
		}
	}
	if n := k.Count(t, "SELECT count(*) FROM job_contents c JOIN requests r ON r.seq = c.job WHERE r.request_id = ?", open.RequestID); n == 0 {
		t.Error("nothing is left of the open job")
	}

	// What made them stay ends.
	storetest.Must(t, k.Sales("p").WriteOff(t.Context(), owed.RequestID, owed.PriceMsats, "by hand"))
	storetest.Must(t, k.Sales("p").EndRefund(t.Context(), refunded.RequestID, storetest.RefundedFor(refunded)))
	storetest.Must(t, k.Pruning().SetDispute(t.Context(), disputed.RequestID, false))
	k.Now = k.Now.Add(day)
	k.Reopen(t)
	prune(t, k, promised())
	if got := left(t, k, disputed); got != nil {
		t.Errorf("after the dispute %v is left", got)
	}
	if got := left(t, k, owed); got != nil {
		t.Errorf("after the debt %v is left", got)
	}
	if err := k.Pruning().SetDispute(t.Context(), storetest.HexID("nobody"), true); !errors.Is(err, row.ErrNotFound) {
		t.Errorf("a job that is none: %v", err)
	}
}

// TestSharedContent: a content that several jobs have stays as long as one of them needs
// it, and its blob likewise.
func TestSharedContent(t *testing.T) {
	k := storetest.Open(t)
	same := []byte("the same log")
	first := sell(t, k, "first", promised(), same)
	k.Now = storetest.Start.Add(3 * day)
	k.Reopen(t)
	second := sell(t, k, "second", promised(), same)
	d := hashing.Bytes(same)
	for _, c := range []struct {
		at   time.Duration
		here int
		last job.Job
	}{{7 * day, 1, first}, {10 * day, 0, second}} {
		k.Now = storetest.Start.Add(c.at)
		k.Reopen(t)
		storetest.Must(t, k.Pruning().TrustClock(t.Context()))
		storetest.Must(t, func() error { _, _, err := k.Pruning().Mark(t.Context(), promised()); return err }())
		b, err := k.Pruning().NextBlobs(t.Context(), 0)
		storetest.Must(t, err)
		if b == nil || slices.Contains(b.Digests, d) != (c.here == 0) {
			t.Errorf("after %s the blobs to delete are %+v", c.at, b)
		}
		prune(t, k, promised())
		if n := k.Count(t, "SELECT count(*) FROM contents WHERE digest = ?", d[:]); n != c.here {
			t.Errorf("after %s the content is there %d times", c.at, n)
		}
	}
}

// TestPruneInterruptedAtEveryCommit copies the files as they are after each transaction,
// which is what a crash leaves there, and goes on from every copy: the end is the same.
func TestPruneInterruptedAtEveryCommit(t *testing.T) {
	k := storetest.Open(t)
	var parts int
	for i := range 2 {
		sell(t, k, fmt.Sprint(i), promised(), fmt.Appendf(make([]byte, 600<<10), "artifact %d", i), []byte("shared"))
		parts += len(receipts.Parts())
	}
	k.Now = storetest.Start.AddDate(1, 0, 0)
	k.Reopen(t)
	later := sell(t, k, "later", promised(), make([]byte, 600<<10), []byte("shared"))

	storetest.Must(t, k.Pruning().TrustClock(t.Context()))

	images := []string{image(t, k.Dir)}
	storetest.Must(t, commits(t.Context(), k.Pruning(), promised(), func() { images = append(images, image(t, k.Dir)) }))
	want := k.Dump(t)
	if n := len(want["job_pruned"]); n != parts || len(want["pruned_open"])+len(want["content_rests"]) > 0 ||
		len(want["job_keeps"]) != len(receipts.Parts()) || len(want["content_pieces"]) != 2 { // those of the job that is promised
		t.Fatalf("%d parts pruned of %d; left: %v %v", n, parts, want["pruned_open"], want["job_keeps"])
	}
	if got := left(t, k, later); !slices.Equal(got, receipts.Parts()) {
		t.Fatalf("of a job that is promised %v is left", got)
	}
	if len(images) < 20 {
		t.Fatalf("only %d transactions", len(images))
	}
	for i, dir := range images {
		crashed := &storetest.DB{Dir: dir, Now: k.Now}
		crashed.Reopen(t)
		if err := commits(t.Context(), crashed.Pruning(), promised(), func() {}); err != nil {
			t.Fatalf("after commit %d: %v", i, err)
		}
		if diff := cmp.Diff(want, crashed.Dump(t)); diff != "" {
			t.Errorf("after commit %d:\n%s", i, diff)
		}
		if n := crashed.Count(t, "SELECT freelist_count - page_count / 16 FROM pragma_freelist_count, pragma_page_count"); n > 0 {
			t.Errorf("after commit %d: %d pages are not given back", i, n)
		}
		storetest.Must(t, crashed.Close())
	}
}

// image copies the database with its log.
func image(t testing.TB, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "node")
	storetest.Must(t, os.MkdirAll(to, 0o700))
	for _, name := range []string{store.FileName, store.FileName + "-wal"} {
		in, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		storetest.Must(t, err)
		out, err := os.Create(filepath.Join(to, name))
		storetest.Must(t, err)
		_, err = io.Copy(out, in)
		storetest.Must(t, errors.Join(err, out.Close(), in.Close()))
	}
	return to
}

// TestReclaim: the file gets smaller by what was pruned.
func TestReclaim(t *testing.T) {
	k := storetest.Open(t)
	for i := range 4 {
		sell(t, k, fmt.Sprint(i), promised(), fmt.Appendf(make([]byte, 2<<20), "artifact %d", i))
	}
	k.Now = storetest.Start.AddDate(1, 0, 0)
	k.Reopen(t)
	before := k.Count(t, "SELECT page_count FROM pragma_page_count")
	prune(t, k, promised())
	if after := k.Count(t, "SELECT page_count FROM pragma_page_count"); after > before/4 {
		t.Errorf("%d pages of %d are left", after, before)
	}
}

// TestForeignPromises: a quote that promises nothing this program knows leaves nothing to
// prune, and what it has beside that is passed over.
func TestForeignPromises(t *testing.T) {
	k := storetest.Open(t)
	for name, doc := range map[string]string{
		"none": `{}`, "text": `quote`, "list": `{"retention":[1,2]}`, "word": `{"retention":"forever"}`,
		"part": `{"retention":{"videos_ms":1,"results_ms":"soon","artifacts_ms":1.5,"dispute_window_ms":1}}`,
	} {
		j := storetest.Job(name, receipts.ModeHold)
		j.Quote, j.QuoteHash = []byte(doc), hashing.Bytes([]byte(doc))
		s := k.Sales("p")
		storetest.ToState(t, s, j, job.StateDelivering)
		storetest.Must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, storetest.Settled(j), storetest.Issuer(j)))
	}
	if dump := k.Dump(t); len(dump["job_keeps"]) > 0 {
		t.Errorf("%v of %v", dump["job_keeps"], slices.Sorted(maps.Keys(dump)))
	}
}
