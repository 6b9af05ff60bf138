package contexts_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/contexts"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

func TestSegmentFields(t *testing.T) {
	requirements.Covers(t, "AP-6.2.1")
	k := storetest.Open(t)
	text := strings.Repeat("one two three. ", 3)
	id := storetest.PutSegments(t, k, text)[0]
	want := curator.Segment{
		ID: id, ThreadID: "root", ContentType: "text/plain", Relevance: 1, Status: curator.Expanded, ByteSize: 45, TokenEstimate: 12,
	}
	if diff := cmp.Diff([]curator.Segment{want}, storetest.Segments(t, k, "root")); diff != "" {
		t.Error(diff)
	}
	c := storetest.Fold(id)
	c.AskedFor = storetest.Digest("task")
	k.Change(t, func(tx *store.Tx) error { return tx.ChangeSegments("root", []curator.Change{c}) })
	k.Reopen(t)
	want.Relevance, want.Status, want.Summary, want.AskedFor = 0.1, curator.Folded, c.Summary, storetest.Digest("task")
	if diff := cmp.Diff([]curator.Segment{want}, storetest.Segments(t, k, "root")); diff != "" {
		t.Error(diff)
	}
	if got := storetest.Original(t, k, "root", id); got != text {
		t.Errorf("original %q", got)
	}
}

func TestContextRefuses(t *testing.T) {
	k := storetest.Open(t)
	ids := storetest.PutSegments(t, k, "alpha beta", "gamma")
	k.Change(t, func(tx *store.Tx) error {
		return errors.Join(tx.EnsureThread("root.other", "p"), tx.EnsureThread("root.ended", "p"), tx.EndThread("root.ended", journal.ThreadFailed, nil))
	})
	put := func(thread, contentType string, content []byte) func(tx *store.Tx) error {
		return func(tx *store.Tx) error {
			_, err := tx.PutSegment(thread, contentType, content)
			return err
		}
	}
	change := func(thread string, edit func(c *curator.Change)) func(tx *store.Tx) error {
		return func(tx *store.Tx) error {
			c := storetest.Fold(ids[0])
			edit(&c)
			return tx.ChangeSegments(thread, []curator.Change{c})
		}
	}
	for name, tt := range map[string]struct {
		do func(tx *store.Tx) error
		is error
	}{
		"put: no thread":            {put("root.none", "text/plain", nil), row.ErrNotFound},
		"put: ended thread":         {put("root.ended", "text/plain", nil), row.ErrConflict},
		"put: no type":              {put("root", "", nil), row.ErrInvalid},
		"put: type with a line end": {put("root", "text/plain\n", nil), row.ErrInvalid},
		"put: long type":            {put("root", strings.Repeat("x", 129), nil), row.ErrInvalid},
		"put: too large":            {put("root", "text/plain", make([]byte, contexts.MaxSegmentBytes+1)), row.ErrTooLarge},
		"change: unknown segment":   {change("root", func(c *curator.Change) { c.ID = 99 }), row.ErrNotFound},
		"change: another thread's":  {change("root.other", func(*curator.Change) {}), row.ErrNotFound},
		"change: not where it is":   {change("root", func(c *curator.Change) { c.From = curator.Evicted }), row.ErrConflict},
		"change: nowhere":           {change("root", func(c *curator.Change) { c.To = c.From }), row.ErrInvalid},
		"change: unknown tier":      {change("root", func(c *curator.Change) { c.To = "Pruned" }), row.ErrInvalid},
		"change: relevance":         {change("root", func(c *curator.Change) { c.Relevance = 1.1 }), row.ErrInvalid},
		"change: no summary":        {change("root", func(c *curator.Change) { c.Summary = "" }), row.ErrConflict},
		"change: the original":      {change("root", func(c *curator.Change) { c.Summary = "Alpha, beta!" }), curator.ErrExcerpt},
		"change: a long summary":    {change("root", func(c *curator.Change) { c.Summary = strings.Repeat("word ", 1000) }), curator.ErrSummary},
	} {
		before := k.Dump(t)
		if err := k.Update(t.Context(), tt.do); !errors.Is(err, tt.is) {
			t.Errorf("%s: %v, want %v", name, err, tt.is)
		}
		if diff := cmp.Diff(before, k.Dump(t)); diff != "" {
			t.Errorf("%s wrote:\n%s", name, diff)
		}
	}
	err := k.View(t.Context(), func(tx *store.Tx) error {
		_, err := tx.SegmentContent("root.other", ids[0])
		return err
	})
	if !errors.Is(err, row.ErrNotFound) {
		t.Errorf("another thread read the segment: %v", err)
	}
}

// TestContextRulesHoldInSQL goes past the code.
func TestContextRulesHoldInSQL(t *testing.T) {
	requirements.Covers(t, "AP-6.4.2", "K-41")
	k := storetest.Open(t)
	id := storetest.PutSegments(t, k, "known")[0]
	d := fmt.Sprintf("x'%s'", hashing.Bytes([]byte("known")).Hex())
	k.Change(t, func(tx *store.Tx) error {
		return errors.Join(tx.EnsureThread("root.a", "p"), tx.EndThread("root.a", journal.ThreadCompleted, nil),
			tx.ChangeSegments("root", []curator.Change{storetest.Fold(id)}))
	})
	for _, query := range []string{
		"INSERT INTO context_segments(thread_id, content, content_type, byte_size, token_estimate, created_ms) VALUES ('root', " + d + ", 't', 4, 1, 0)",
		"INSERT INTO context_segments(thread_id, content, content_type, byte_size, token_estimate, created_ms) VALUES ('root', zeroblob(32), 't', 5, 2, 0)",
		"INSERT INTO context_segments(thread_id, content, content_type, byte_size, token_estimate, created_ms) VALUES ('root.a', " + d + ", 't', 5, 2, 0)",
		"INSERT INTO context_states(segment_id, status, relevance, at_ms) VALUES (1, 'Pruned', 0, 0)",
		"INSERT INTO context_states(segment_id, status, relevance, at_ms) VALUES (1, 'Folded', 0, 0)",
		"INSERT INTO context_states(segment_id, status, relevance, at_ms) VALUES (1, 'Gone', 0, 0)",
		"INSERT INTO context_states(segment_id, status, relevance, at_ms) VALUES (1, 'Evicted', 2, 0)",
		"INSERT INTO context_states(segment_id, status, relevance, at_ms) VALUES (9, 'Expanded', 1, 0)",
		"INSERT INTO context_states(segment_id, status, relevance, summary, at_ms) VALUES (1, 'Folded', 0, zeroblob(32), 0)",
		"DELETE FROM contents WHERE digest = " + d, // the original of a folded segment
		"DELETE FROM contents WHERE bytes = CAST('summary of ctx-1' AS BLOB)",
		"UPDATE context_states SET status = 'Expanded'",
		"DELETE FROM context_segments",
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

// TestAnyWayThroughTheTiersLosesNothing takes segments through random changes,
// restarts between them, and compares every original byte for byte.
func TestAnyWayThroughTheTiersLosesNothing(t *testing.T) {
	requirements.Covers(t, "AP-6.5.1", "AP-B.5", "AP-6.4.2", "APX-10")
	k := storetest.Open(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		thread := fmt.Sprintf("root.t%d", n)
		k.Change(t, func(tx *store.Tx) error { return tx.EnsureThread(thread, "p") })
		originals := map[curator.ID][]byte{}
		var ids []curator.ID
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch op := rapid.SampledFrom([]string{"put", "change", "change", "prune", "restart"}).Draw(rt, "op"); {
			case op == "put" || len(ids) == 0:
				data := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(rt, "content")
				k.Change(t, func(tx *store.Tx) error {
					id, err := tx.PutSegment(thread, "application/octet-stream", data)
					originals[id], ids = data, append(ids, id)
					return err
				})
			case op == "change":
				change(t, rt, k, thread, rapid.SampledFrom(storetest.Segments(t, k, thread)).Draw(rt, "segment"))
			case op == "prune":
				_, err := k.Prune(t.Context(), storetest.Start.AddDate(50, 0, 0))
				storetest.Must(t, err)
			case rapid.IntRange(0, 9).Draw(rt, "really") == 0:
				k.Reopen(t)
			}
		}
		for id, want := range originals {
			if got := storetest.Original(t, k, thread, id); got != string(want) {
				rt.Fatalf("%s: %q came back as %q", id, want, got)
			}
		}
		if got := storetest.Segments(t, k, thread); len(got) != len(originals) {
			rt.Fatalf("%d segments of %d", len(got), len(originals))
		}
	})
}

// change moves a segment to any other tier.
func change(t *testing.T, rt *rapid.T, k *storetest.DB, thread string, s curator.Segment) {
	t.Helper()
	c := curator.Change{ID: s.ID, From: s.Status, Relevance: rapid.Float64Range(0, 1).Draw(rt, "relevance")}
	c.To = rapid.SampledFrom([]curator.Status{curator.Expanded, curator.Folded, curator.Evicted}).
		Filter(func(to curator.Status) bool { return to != s.Status }).Draw(rt, "tier")
	if s.Summary == "" || rapid.Bool().Draw(rt, "anew") {
		c.Summary = "constructed " + hashing.Bytes(fmt.Append(nil, s.ID, c.Relevance)).String()
	}
	err := k.Update(t.Context(), func(tx *store.Tx) error { return tx.ChangeSegments(thread, []curator.Change{c}) })
	if err != nil {
		rt.Fatalf("%+v: %v", c, err)
	}
}

func TestReturnGivesTheResultToTheParent(t *testing.T) {
	requirements.Covers(t, "AP-5.2.3")
	k := storetest.Open(t)
	k.Change(t, func(tx *store.Tx) error { return tx.EnsureThread("root.child.grandchild", "p") })
	ret := func(r curator.Returned) error {
		r.ContentType, r.Retention = "application/json", pipeline.Retention{Policy: pipeline.RetainForever}
		return k.ContextStore().Return(t.Context(), r)
	}
	storetest.Must(t, ret(curator.Returned{Thread: "root.child.grandchild", Result: []byte(`{"n":6}`)}))
	got := storetest.Segments(t, k, "root.child")
	if len(got) != 1 || got[0].ContentType != "application/json" || got[0].Status != curator.Expanded ||
		storetest.Original(t, k, "root.child", got[0].ID) != `{"n":6}` {
		t.Errorf("the parent has %+v", got)
	}
	storetest.Must(t, ret(curator.Returned{Thread: "root.child", Failed: true})) // with nothing to give
	storetest.Must(t, ret(curator.Returned{Thread: "root", Result: []byte("out")}))
	if err := ret(curator.Returned{Thread: "root.child.grandchild", Result: []byte("again")}); !errors.Is(err, row.ErrConflict) {
		t.Errorf("second return: %v", err)
	}
	k.Read(t, func(tx *store.Tx) error {
		for id, want := range map[string]journal.ThreadState{"root.child.grandchild": journal.ThreadCompleted, "root.child": journal.ThreadFailed, "root": journal.ThreadCompleted} {
			th, err := tx.Thread(id)
			if err != nil || th.State != want {
				t.Errorf("%s is %s, %v", id, th.State, err)
			}
		}
		return nil
	})
	if n := k.Count(t, "SELECT count(*) FROM context_segments"); n != 1 {
		t.Errorf("%d segments", n)
	}
}

// TestReturnDoesWhatTheJournalPolicySays has three settings and three outcomes.
func TestReturnDoesWhatTheJournalPolicySays(t *testing.T) {
	requirements.Covers(t, "AP-5.2.4", "AP-7.1.2")
	for name, tt := range map[string]struct {
		retention      pipeline.Retention
		status         curator.Status // after the return; "" if it is gone
		entries, later int            // of the journal; originals after three days
	}{
		"retained": {pipeline.Retention{Policy: pipeline.RetainForever}, curator.Expanded, 2, 2},
		"folded":   {pipeline.Retention{Policy: pipeline.RetainDays, Days: 2}, curator.Folded, 2, 0},
		"pruned":   {pipeline.Retention{Policy: pipeline.PruneOnDelivery}, "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			k := storetest.Open(t)
			ids := storetest.PutSegments(t, k, "first", "second")
			other := k.Count(t, "SELECT count(*) FROM contents")
			r, err := journal.RetentionOf(tt.retention)
			storetest.Must(t, err)
			k.Change(t, func(tx *store.Tx) error {
				_, err := tx.AppendJournalPayload(storetest.Entry("root", r), []byte("first")) // shares a segment's bytes
				_, err2 := tx.AppendJournalPayload(storetest.Entry("root", r), nil)
				return errors.Join(err, err2)
			})
			ret := curator.Returned{Thread: "root", Retention: tt.retention}
			if tt.status == curator.Folded {
				ret.Folds = []curator.Change{storetest.Fold(ids[0])}
				if err := k.ContextStore().Return(t.Context(), ret); !errors.Is(err, row.ErrConflict) {
					t.Errorf("a fold is missing: %v", err)
				}
				ret.Folds = append(ret.Folds, storetest.Fold(ids[1]))
			}
			storetest.Must(t, k.ContextStore().Return(t.Context(), ret))
			got := storetest.Segments(t, k, "root")
			for _, s := range got {
				if s.Status != tt.status {
					t.Errorf("%s is %s", s.ID, s.Status)
				}
			}
			if gone := len(got) == 0; gone != (tt.status == "") {
				t.Errorf("left: %+v", got)
			}
			if n := k.Count(t, "SELECT count(*) FROM journal"); n != tt.entries {
				t.Errorf("%d journal entries", n)
			}
			_, err = k.Prune(t.Context(), storetest.Start.Add(72*time.Hour))
			storetest.Must(t, err)
			if n := k.Count(t, "SELECT count(*) FROM contents WHERE bytes IN (CAST('first' AS BLOB), CAST('second' AS BLOB))"); n != tt.later {
				t.Errorf("%d of %d originals are left", n, other)
			}
		})
	}
}

func TestOriginalThatChangedIsDetected(t *testing.T) {
	k := storetest.Open(t)
	id := storetest.PutSegments(t, k, "bytes")[0]
	k.Change(t, func(tx *store.Tx) error { // damage from below: past the triggers
		_, err := tx.Exec("DROP TRIGGER contents_no_update; UPDATE contents SET bytes = CAST('bytez' AS BLOB)")
		return err
	})
	if _, err := k.ContextStore().Original(t.Context(), "root", id); !errors.Is(err, row.ErrCorrupt) {
		t.Fatalf("Original = %v, want row.ErrCorrupt", err)
	}
}

func TestThreadContextIsBounded(t *testing.T) {
	k := storetest.Open(t)
	storetest.PutSegments(t, k, "x")
	k.Change(t, func(tx *store.Tx) error {
		for range contexts.MaxSegments - 1 {
			if _, err := tx.PutSegment("root", "t", []byte("x")); err != nil {
				return err
			}
		}
		return nil
	})
	if _, err := k.ContextStore().Put(t.Context(), "root", "t", bytes.Repeat([]byte("y"), 9)); !errors.Is(err, row.ErrTooLarge) {
		t.Errorf("one too many: %v", err)
	}
}
