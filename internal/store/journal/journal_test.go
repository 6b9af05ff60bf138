package journal_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

func TestJournalFields(t *testing.T) {
	requirements.Covers(t, "AP-7.2.1", "AP-7.2.2", "AP-7.2.4")
	k := storetest.Open(t)
	k.Now = storetest.Start.Add(1234567 * time.Microsecond)
	var want []journal.Entry
	k.Change(t, func(tx *store.Tx) error {
		if err := tx.CreateThread("root", "p"); err != nil {
			return err
		}
		for i, d := range []journal.Direction{journal.Outbound, journal.Inbound} {
			e, err := tx.AppendJournalPayload(journal.Entry{
				Thread: "root", Direction: d, Handler: fmt.Sprint("h", i), PayloadTag: fmt.Sprint("t", i),
				Retention: journal.RetainDays(3), RequestID: "r", CallID: "c",
			}, []byte{byte(i)})
			if err != nil {
				return err
			}
			want = append(want, e)
		}
		bare, err := tx.AppendJournalPayload(journal.Entry{Thread: "root", Direction: journal.Inbound, Handler: "h", PayloadTag: "t", Retention: journal.RetainForever}, nil)
		want = append(want, bare)
		return err
	})
	if want[0].Seq >= want[1].Seq || want[1].PayloadHash != hashing.Bytes([]byte{1}) || !want[0].At.Equal(storetest.Start.Add(1234*time.Millisecond)) {
		t.Errorf("appended as %+v", want)
	}
	for _, tt := range []struct {
		filter journal.Filter
		want   []journal.Entry
	}{
		{journal.Filter{}, want},
		{journal.Filter{Thread: "root", RequestID: "r", CallID: "c"}, want[:2]},
		{journal.Filter{After: want[0].Seq, Limit: 1}, want[1:2]},
		{journal.Filter{Thread: "other"}, nil},
	} {
		k.Read(t, func(tx *store.Tx) error {
			got, err := tx.Entries(tt.filter)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%+v:\n%s", tt.filter, diff)
			}
			return err
		})
	}
}

func TestJournalRefuses(t *testing.T) {
	k := storetest.Open(t)
	k.Change(t, func(tx *store.Tx) error { return tx.CreateThread("root", "p") })
	for name, change := range map[string]func(*journal.Entry){
		"unknown thread":    func(e *journal.Entry) { e.Thread = "root.x" },
		"unknown direction": func(e *journal.Entry) { e.Direction = "Sideways" },
		"no handler":        func(e *journal.Entry) { e.Handler = "" },
		"no tag":            func(e *journal.Entry) { e.PayloadTag = "" },
		"no retention":      func(e *journal.Entry) { e.Retention = "" },
	} {
		e := storetest.Entry("root", journal.RetainForever)
		change(&e)
		err := k.Update(t.Context(), func(tx *store.Tx) error {
			_, err := tx.AppendJournalPayload(e, []byte("x"))
			return err
		})
		if err == nil {
			t.Errorf("%s was recorded", name)
		}
	}
	if n := k.Count(t, "SELECT count(*) FROM journal") + k.Count(t, "SELECT count(*) FROM contents"); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

func TestParseRetention(t *testing.T) {
	for s, ok := range map[string]bool{
		"retain_forever": true, "prune_on_delivery": true, "retain_days(1)": true, "retain_days(100000)": true,
		"": false, "retain_days(0)": false, "retain_days(-1)": false, "retain_days(01)": false, "retain_days(+1)": false,
		"retain_days(100001)": false, "retain_days(1": false, "retain_days()": false, "Retain_forever": false,
	} {
		if r, err := journal.ParseRetention(s); (err == nil) != ok || ok && string(r) != s {
			t.Errorf("ParseRetention(%q) = %q, %v", s, r, err)
		}
	}
}

// TestRetention keeps two entries of each policy, of which only one is
// delivered, to the second around the end of the days.
func TestRetention(t *testing.T) {
	requirements.Covers(t, "AP-7.1.1", "AP-7.1.2", "AP-7.1.3", "AP-7.3.2")
	k := storetest.Open(t)
	policies := []journal.Retention{journal.RetainForever, journal.PruneOnDelivery, journal.RetainDays(2)}
	var first, delivered []journal.Entry
	k.Change(t, func(tx *store.Tx) error {
		if err := tx.CreateThread("root", "p"); err != nil {
			return err
		}
		for _, r := range policies {
			for i, list := range []*[]journal.Entry{&first, &delivered} {
				e, err := tx.AppendJournalPayload(storetest.Entry("root", r), fmt.Appendf(nil, "payload %s %d", r, i))
				if err != nil {
					return err
				}
				*list = append(*list, e)
			}
		}
		return nil
	})
	before := k.Dump(t)["journal"]
	left := func(step string, want ...journal.Retention) {
		t.Helper()
		now := k.Dump(t)["journal"]
		for _, row := range now {
			if !slices.Contains(before, row) {
				t.Errorf("%s: an entry was altered: %s", step, row)
			}
		}
		k.Read(t, func(tx *store.Tx) error {
			entries, err := tx.Entries(journal.Filter{})
			var got []journal.Retention
			for _, e := range entries {
				got = append(got, e.Retention)
				if _, err := tx.Content(e.PayloadHash); err != nil {
					t.Errorf("%s: payload of a kept entry: %v", step, err)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: left %v, want %v", step, got, want)
			}
			return err
		})
	}
	prune := func(now time.Time) {
		t.Helper()
		k.Change(t, func(tx *store.Tx) error {
			_, err := storetest.PruneJournal(tx, now, 100)
			return err
		})
	}
	end := storetest.Start.Add(48 * time.Hour)
	prune(end.Add(-time.Second))
	left("before delivery", journal.RetainForever, journal.RetainForever, journal.PruneOnDelivery, journal.PruneOnDelivery, journal.RetainDays(2), journal.RetainDays(2))
	for _, e := range delivered {
		k.Change(t, func(tx *store.Tx) error { return tx.ConfirmDelivery(e.Seq) })
	}
	left("after delivery", journal.RetainForever, journal.RetainForever, journal.PruneOnDelivery, journal.RetainDays(2), journal.RetainDays(2))
	prune(end.Add(time.Second))
	left("after two days", journal.RetainForever, journal.RetainForever, journal.PruneOnDelivery)
	k.Read(t, func(tx *store.Tx) error {
		for _, e := range []journal.Entry{delivered[1], first[2]} {
			if _, err := tx.Content(e.PayloadHash); !errors.Is(err, row.ErrNotFound) {
				t.Errorf("payload of a pruned entry: %v", err)
			}
		}
		return nil
	})
	prune(end.AddDate(100, 0, 0))
	left("after a century", journal.RetainForever, journal.RetainForever, journal.PruneOnDelivery)
	err := k.Update(t.Context(), func(tx *store.Tx) error { return tx.ConfirmDelivery(delivered[1].Seq) })
	if !errors.Is(err, row.ErrNotFound) {
		t.Errorf("second delivery = %v", err)
	}
	k.Change(t, func(tx *store.Tx) error { // a number is never given twice
		e, err := tx.AppendJournalPayload(storetest.Entry("root", journal.RetainForever), nil)
		if e.Seq <= delivered[2].Seq {
			t.Errorf("sequence number %d was reused", e.Seq)
		}
		return err
	})
}

func TestPruningKeepsSharedPayloads(t *testing.T) {
	k := storetest.Open(t)
	shared, pinned := []byte("shared"), []byte("pinned")
	k.Change(t, func(tx *store.Tx) error {
		if err := tx.CreateThread("root", "p"); err != nil {
			return err
		}
		for _, e := range []struct {
			r    journal.Retention
			data []byte
		}{{journal.RetainDays(1), shared}, {journal.RetainForever, shared}, {journal.RetainDays(1), pinned}} {
			if _, err := tx.AppendJournalPayload(storetest.Entry("root", e.r), e.data); err != nil {
				return err
			}
		}
		_, err := tx.PutContent(pinned)
		return err
	})
	k.Change(t, func(tx *store.Tx) error {
		n, err := storetest.PruneJournal(tx, storetest.Start.AddDate(0, 0, 9), 100)
		if n != 2 {
			t.Errorf("pruned %d entries", n)
		}
		return err
	})
	k.Read(t, func(tx *store.Tx) error {
		_, err := tx.Content(hashing.Bytes(shared))
		_, err2 := tx.Content(hashing.Bytes(pinned))
		return errors.Join(err, err2)
	})
}

func TestChangedByteIsDetected(t *testing.T) {
	requirements.Covers(t, "AP-7.2.3")
	k := storetest.Open(t)
	var e journal.Entry
	k.Change(t, func(tx *store.Tx) (err error) {
		if err := tx.CreateThread("root", "p"); err != nil {
			return err
		}
		e, err = tx.AppendJournalPayload(storetest.Entry("root", journal.RetainForever), []byte("payload"))
		return err
	})
	k.Change(t, func(tx *store.Tx) error { // damage from below: past the triggers
		_, err := tx.Exec("DROP TRIGGER contents_no_update; UPDATE contents SET bytes = CAST('payloaD' AS BLOB)")
		return err
	})
	err := k.View(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Content(e.PayloadHash)
		return err
	})
	if !errors.Is(err, row.ErrCorrupt) {
		t.Fatalf("Content = %v, want row.ErrCorrupt", err)
	}
}

func TestContent(t *testing.T) {
	k := storetest.Open(t)
	for _, data := range [][]byte{nil, {}, []byte("x"), make([]byte, 1<<20)} {
		for range 2 { // storing it again is fine
			k.Change(t, func(tx *store.Tx) error {
				_, err := tx.PutContent(data)
				return err
			})
		}
		k.Read(t, func(tx *store.Tx) error {
			got, err := tx.Content(hashing.Bytes(data))
			if string(got) != string(data) {
				t.Errorf("%d bytes came back as %d", len(data), len(got))
			}
			return err
		})
	}
	if n := k.Count(t, "SELECT count(*) FROM contents"); n != 3 {
		t.Errorf("%d contents, want 3", n)
	}
	err := k.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.PutContent(make([]byte, journal.MaxContentBytes+1))
		return err
	})
	if !errors.Is(err, row.ErrTooLarge) {
		t.Errorf("oversized content: %v", err)
	}
}

func TestAudit(t *testing.T) {
	requirements.Covers(t, "OSX-13")
	k := storetest.Open(t)
	k.Change(t, func(tx *store.Tx) error {
		return errors.Join(
			tx.Audit("route_not_found", "root", map[string]string{"tag": "x"}),
			tx.Audit("oversized_frame", "agent", nil),
			tx.Audit("big", "root", strings.Repeat("x", journal.MaxAuditBytes-2)),
		)
	})
	for name, fn := range map[string]func(tx *store.Tx) error{
		"too big":      func(tx *store.Tx) error { return tx.Audit("x", "y", strings.Repeat("x", journal.MaxAuditBytes-1)) },
		"no type":      func(tx *store.Tx) error { return tx.Audit("", "y", nil) },
		"long subject": func(tx *store.Tx) error { return tx.Audit("x", strings.Repeat("y", 513), nil) },
		"not JSON":     func(tx *store.Tx) error { return tx.Audit("x", "y", make(chan int)) },
	} {
		if err := k.Update(t.Context(), fn); err == nil {
			t.Errorf("%s was recorded", name)
		}
	}
	k.Read(t, func(tx *store.Tx) error {
		all, err := tx.LastAuditLines("", 100)
		if len(all) != 3 || all[0].EventType != "route_not_found" || string(all[0].Metadata) != `{"tag":"x"}` || !all[0].At.Equal(storetest.Start) {
			t.Errorf("lines %+v", all)
		}
		one, err2 := tx.LastAuditLines("root", 1)
		if len(one) != 1 || one[0].EventType != "big" {
			t.Errorf("last line of root: %+v", one)
		}
		return errors.Join(err, err2)
	})
}

func TestThreads(t *testing.T) {
	requirements.Covers(t, "AP-5.1.1", "AP-5.2.1", "AP-5.3.1")
	k := storetest.Open(t)
	result := storetest.Digest("result")
	steps := []struct {
		name string
		do   func(tx *store.Tx) error
		is   error
	}{
		{"a root", func(tx *store.Tx) error { return tx.CreateThread("root", "wide") }, nil},
		{"a child", func(tx *store.Tx) error { return tx.CreateThread("root.a", "narrow") }, nil},
		{"another", func(tx *store.Tx) error { return tx.CreateThread("root.b", "narrow") }, nil},
		{"a grandchild", func(tx *store.Tx) error { return tx.CreateThread("root.a.x", "narrow") }, nil},
		{"a child again", func(tx *store.Tx) error { return tx.CreateThread("root.a", "narrow") }, row.ErrDuplicate},
		{"an orphan", func(tx *store.Tx) error { return tx.CreateThread("root.c.x", "narrow") }, row.ErrNotFound},
		{"no id", func(tx *store.Tx) error { return tx.CreateThread("", "p") }, row.ErrInvalid},
		{"an empty label", func(tx *store.Tx) error { return tx.CreateThread("root..a", "p") }, row.ErrInvalid},
		{"a space", func(tx *store.Tx) error { return tx.CreateThread("root.a b", "p") }, row.ErrInvalid},
		{"a long label", func(tx *store.Tx) error { return tx.CreateThread(strings.Repeat("x", journal.MaxThreadLabel+1), "p") }, row.ErrInvalid},
		{"a long id", func(tx *store.Tx) error { return tx.CreateThread(strings.Repeat("x.", journal.MaxThreadID), "p") }, row.ErrTooLarge},
		{"completing", func(tx *store.Tx) error { return tx.EndThread("root.a", journal.ThreadCompleted, &result) }, nil},
		{"completing twice", func(tx *store.Tx) error { return tx.EndThread("root.a", journal.ThreadFailed, nil) }, row.ErrConflict},
		{"a child of an ended thread", func(tx *store.Tx) error { return tx.CreateThread("root.a.y", "narrow") }, row.ErrConflict},
		{"failing", func(tx *store.Tx) error { return tx.EndThread("root.b", journal.ThreadFailed, nil) }, nil},
		{"ending as active", func(tx *store.Tx) error { return tx.EndThread("root", journal.ThreadActive, nil) }, row.ErrInvalid},
		{"ending nothing", func(tx *store.Tx) error { return tx.EndThread("root.q", journal.ThreadFailed, nil) }, row.ErrNotFound},
		{"a key with dots", func(tx *store.Tx) error { return tx.CreateThread("root.k[a.b/c].x", "p") }, row.ErrNotFound},
		{"a key with dots, ensured", func(tx *store.Tx) error { return tx.EnsureThread("key[c.d].k[a.b/c]", "p") }, nil},
		{"an open key", func(tx *store.Tx) error { return tx.CreateThread("root.k[a", "p") }, row.ErrInvalid},
		{"an empty key", func(tx *store.Tx) error { return tx.CreateThread("root.k[]", "p") }, row.ErrInvalid},
		{"a key alone", func(tx *store.Tx) error { return tx.CreateThread("root.[a]", "p") }, row.ErrInvalid},
		{"text behind a key", func(tx *store.Tx) error { return tx.CreateThread("root.k[a]b", "p") }, row.ErrInvalid},
		{"a nested key", func(tx *store.Tx) error { return tx.CreateThread("root.k[a[b]]", "p") }, row.ErrInvalid},
		{"a dot at the end", func(tx *store.Tx) error { return tx.CreateThread("root.", "p") }, row.ErrInvalid},
		{"not ASCII", func(tx *store.Tx) error { return tx.CreateThread("root.ü", "p") }, row.ErrInvalid},
		{"ensuring", func(tx *store.Tx) error { return tx.EnsureThread("root.n.m", "p") }, nil},
		{"ensuring again", func(tx *store.Tx) error { return tx.EnsureThread("root.n.m", "q") }, nil},
		{"ensuring below an ended one", func(tx *store.Tx) error { return tx.EnsureThread("root.b.m", "p") }, row.ErrConflict},
	}
	for _, s := range steps {
		before := k.Dump(t)
		if err := k.Update(t.Context(), s.do); !errors.Is(err, s.is) {
			t.Errorf("%s: %v, want %v", s.name, err, s.is)
		}
		if s.is != nil {
			if diff := cmp.Diff(before, k.Dump(t)); diff != "" {
				t.Errorf("%s wrote:\n%s", s.name, diff)
			}
		}
	}
	k.Reopen(t)
	want := map[string]journal.Thread{
		"root":              {ID: "root", Profile: "wide", State: journal.ThreadActive, Created: storetest.Start, StateAt: storetest.Start, Children: []string{"root.a", "root.b", "root.n"}},
		"root.a":            {ID: "root.a", Parent: "root", Profile: "narrow", State: journal.ThreadCompleted, Result: &result, Created: storetest.Start, StateAt: storetest.Start, Children: []string{"root.a.x"}},
		"key[c.d]":          {ID: "key[c.d]", Profile: "p", State: journal.ThreadActive, Created: storetest.Start, StateAt: storetest.Start, Children: []string{"key[c.d].k[a.b/c]"}},
		"key[c.d].k[a.b/c]": {ID: "key[c.d].k[a.b/c]", Parent: "key[c.d]", Profile: "p", State: journal.ThreadActive, Created: storetest.Start, StateAt: storetest.Start},
		"root.b":            {ID: "root.b", Parent: "root", Profile: "narrow", State: journal.ThreadFailed, Created: storetest.Start, StateAt: storetest.Start},
	}
	k.Read(t, func(tx *store.Tx) error {
		for id, w := range want {
			got, err := tx.Thread(id)
			if diff := cmp.Diff(w, got); err != nil || diff != "" {
				t.Errorf("%s: %v\n%s", id, err, diff)
			}
		}
		if _, err := tx.Thread("none"); !errors.Is(err, row.ErrNotFound) {
			t.Errorf("Thread(none) = %v", err)
		}
		return nil
	})
}

func TestThreadsNestAThousandDeep(t *testing.T) {
	requirements.Covers(t, "AP-5.4.1")
	k := storetest.Open(t)
	id := "root" + strings.Repeat(".task-1", 1000)
	k.Change(t, func(tx *store.Tx) error { return tx.EnsureThread(id, "p") })
	if n := k.Count(t, "SELECT count(*) FROM thread_current WHERE state = 'Active'"); n != 1001 {
		t.Errorf("%d threads", n)
	}
}

// TestThreadRulesHoldInSQL goes past the code.
func TestThreadRulesHoldInSQL(t *testing.T) {
	k := storetest.Open(t)
	k.Change(t, func(tx *store.Tx) error {
		return errors.Join(tx.EnsureThread("root.a", "p"), tx.EndThread("root.a", journal.ThreadCompleted, nil))
	})
	for _, query := range []string{
		"INSERT INTO threads VALUES ('root.b', NULL, 'p', 0)",
		"INSERT INTO threads VALUES ('other.b', 'root', 'p', 0)",
		"INSERT INTO threads VALUES ('root.b.c', 'root', 'p', 0)",
		"INSERT INTO threads VALUES ('root.b.c[d]', 'root', 'p', 0)",
		"INSERT INTO threads VALUES ('b.c[d]', NULL, 'p', 0)",
		"INSERT INTO threads VALUES ('none.b', 'none', 'p', 0)",
		"INSERT INTO threads VALUES ('root.b', 'root', '', 0)",
		"INSERT INTO thread_states(thread_id, state, at_ms) VALUES ('root', 'Active', 0)",
		"INSERT INTO thread_states(thread_id, state, at_ms) VALUES ('root.a', 'Failed', 0)",
		"INSERT INTO thread_states(thread_id, state, at_ms) VALUES ('root', 'Paused', 0)",
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

func TestDirectiveIsRecordedOnce(t *testing.T) {
	k := storetest.Open(t)
	d := journal.Directive{ID: "d1", Key: "k1", ApprovedBy: "payment:x", RequestID: "r1", At: storetest.Start}
	k.Change(t, func(tx *store.Tx) error { return tx.RecordDirective(d) })
	for _, again := range []journal.Directive{d, {ID: "d2", Key: "k1", ApprovedBy: "y"}, {ID: "d1", Key: "k2", ApprovedBy: "y"}} {
		err := k.Update(t.Context(), func(tx *store.Tx) error { return tx.RecordDirective(again) })
		if !errors.Is(err, row.ErrDuplicate) {
			t.Errorf("%+v: %v", again, err)
		}
	}
	if err := k.Update(t.Context(), func(tx *store.Tx) error { return tx.RecordDirective(journal.Directive{ID: "d3", Key: "k3"}) }); err == nil {
		t.Error("a directive that nobody approved was recorded")
	}
	k.Read(t, func(tx *store.Tx) error {
		got, err := tx.Directive("d1")
		if diff := cmp.Diff(d, got); diff != "" {
			t.Error(diff)
		}
		if _, err := tx.Directive("d2"); !errors.Is(err, row.ErrNotFound) {
			t.Errorf("Directive(d2) = %v", err)
		}
		return err
	})
}

func TestCorrelationFindsAllFromAny(t *testing.T) {
	k := storetest.Open(t)
	names := map[journal.NameKind][]string{
		journal.NameJobHash: {storetest.Digest("job").String()}, journal.NameTask: {"task"}, journal.NameCorrelation: {"corr"}, journal.NameThread: {"root.a"},
		journal.NameDirective: {"dir"}, journal.NameCall: {"call-1", "call-2"}, journal.NameSession: {"sess"}, journal.NameReceipt: {"rcpt"},
	}
	k.Change(t, func(tx *store.Tx) error {
		for range 2 { // giving a name again is fine
			for kind, values := range names {
				for _, v := range values {
					if err := tx.Correlate("request", kind, v); err != nil {
						return err
					}
				}
			}
		}
		return tx.Correlate("other", journal.NameJobHash, storetest.Digest("job").String())
	})
	want := journal.Names{RequestID: "request", Names: names}
	k.Read(t, func(tx *store.Tx) error {
		for kind, values := range names {
			for _, v := range append(values, "request") {
				got, err := tx.Lookup(v)
				if err != nil {
					return err
				}
				if kind == journal.NameJobHash && v != "request" { // two jobs may ask the same
					if len(got) != 2 || got[0].RequestID != "other" {
						t.Errorf("by job hash: %+v", got)
					}
					got = got[1:]
				}
				if diff := cmp.Diff([]journal.Names{want}, got); diff != "" {
					t.Errorf("from %s %q:\n%s", kind, v, diff)
				}
			}
		}
		got, err := tx.Lookup("nothing")
		if len(got) != 0 {
			t.Errorf("found %+v", got)
		}
		return err
	})
	if err := k.Update(t.Context(), func(tx *store.Tx) error { return tx.Correlate("r", "nickname", "x") }); err == nil {
		t.Error("an unknown kind of name was recorded")
	}
}
