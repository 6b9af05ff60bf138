package journal_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

func TestPipelineJournal(t *testing.T) {
	k := storetest.Open(t)
	j := storetest.Job("x", receipts.ModeHold)
	storetest.ToState(t, k.Sales("p"), j, job.StateRunning)
	log := k.PipelineLog("p")
	for thread, request := range map[string]string{
		storetest.ThreadOf(j): j.RequestID, storetest.ThreadOf(j) + ".step[com.example.agent]": j.RequestID, "root.other": "", "root": "",
	} {
		storetest.Must(t, log.Append(t.Context(), pipeline.Entry{
			Thread: pipeline.ThreadID(thread), Direction: pipeline.Outbound, Handler: "h", PayloadTag: "t",
			PayloadHash: storetest.Digest("payload"), Retention: pipeline.Retention{Policy: pipeline.RetainDays, Days: 3},
		}))
		want := []journal.Entry{{
			At: storetest.Start, Thread: thread, Direction: journal.Outbound, Handler: "h", PayloadTag: "t",
			PayloadHash: storetest.Digest("payload"), Retention: "retain_days(3)", RequestID: request,
		}}
		k.Read(t, func(tx *store.Tx) error {
			got, err := tx.Entries(journal.Filter{Thread: thread})
			if len(got) == 1 {
				want[0].Seq = got[0].Seq
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			return err
		})
	}
	for name, e := range map[string]pipeline.Entry{
		"no hash":      {Thread: "root", Direction: pipeline.Inbound, Handler: "h", PayloadTag: "t", Retention: pipeline.Retention{Policy: pipeline.RetainForever}},
		"no thread":    {Direction: pipeline.Inbound, Handler: "h", PayloadTag: "t", PayloadHash: storetest.Digest("p"), Retention: pipeline.Retention{Policy: pipeline.RetainForever}},
		"no retention": {Thread: "root", Direction: pipeline.Inbound, Handler: "h", PayloadTag: "t", PayloadHash: storetest.Digest("p")},
	} {
		good := pipeline.Entry{
			Thread: "root.good", Direction: pipeline.Inbound, Handler: "h", PayloadTag: "t", PayloadHash: storetest.Digest("p"),
			Retention: pipeline.Retention{Policy: pipeline.RetainForever},
		}
		if err := log.Append(t.Context(), good, e); err == nil {
			t.Errorf("%s: recorded", name)
		}
		k.Read(t, func(tx *store.Tx) error {
			if got, err := tx.Entries(journal.Filter{Thread: "root.good"}); len(got) != 0 || err != nil {
				t.Errorf("%s: one of two was recorded: %v, %v", name, got, err)
			}
			return nil
		})
	}
}

func TestPipelineRejectLeavesOneAuditLine(t *testing.T) {
	k := storetest.Open(t)
	log := k.PipelineLog("p")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the sender is gone; the line is written all the same
	log.Reject(ctx, pipeline.Reject{Reason: pipeline.RejectRoute, Tag: "secret.tag", Profile: "public", Thread: "root", Sender: "stranger"})
	log.Reject(ctx, pipeline.Reject{Reason: pipeline.RejectMalformed, Tag: strings.Repeat("\xff\x00t", 9000), Thread: pipeline.ThreadID(strings.Repeat("ü", 9000))})
	k.Read(t, func(tx *store.Tx) error {
		lines, err := tx.LastAuditLines("", 10)
		if len(lines) != 2 {
			t.Fatalf("%d lines", len(lines))
		}
		if got := fmt.Sprintf("%s %s %s", lines[0].EventType, lines[0].Subject, lines[0].Metadata); got != `route_not_found root {"profile":"public","sender":"stranger","tag":"secret.tag"}` {
			t.Errorf("line %s", got)
		}
		return err
	})
	if n := k.Count(t, "SELECT count(*) FROM journal"); n != 0 {
		t.Errorf("%d journal entries", n)
	}
}

func TestDirectiveLivesAsLongAsItsJob(t *testing.T) {
	k := storetest.Open(t)
	s, log := k.Sales("p"), k.PipelineLog("p")
	j := storetest.Job("x", receipts.ModeHold)
	k.Change(t, func(tx *store.Tx) error {
		return tx.RecordDirective(journal.Directive{ID: "by-hand", Key: "k", ApprovedBy: "person"})
	})
	check := func(id string, want bool) {
		t.Helper()
		if got, err := log.DirectiveLive(t.Context(), id); got != want || err != nil {
			t.Errorf("DirectiveLive(%s) = %v, %v", id, got, err)
		}
	}
	check(storetest.DirectiveOf(j).ID, false)
	storetest.ToState(t, s, j, job.StateRunning)
	check(storetest.DirectiveOf(j).ID, true)
	storetest.Must(t, storetest.DoStep(t, s, j, "cancel"))
	check(storetest.DirectiveOf(j).ID, false)
	check("by-hand", true)
	check("", false)
}

// FuzzThreadPath holds the store to the pipeline's idea of a thread id: what
// that accepts has the same parent here, and what is accepted here can be
// stored.
func FuzzThreadPath(f *testing.F) {
	for _, s := range []string{"root", "root.task-1", "root.job[a.b:c/d@e]", "a[b].c", ".", "a..b", "a[", "a[]", "a[b]c", "a]b", "[a]", "a[b[c]]", "ü", "a b", "a[.]", "a.b["} {
		f.Add(s)
	}
	k := storetest.Open(f)
	f.Fuzz(func(t *testing.T, s string) {
		path, err := journal.ThreadPath(s)
		id, perr := pipeline.ParseThreadID(s)
		if perr == nil && len(s) <= journal.MaxThreadLabel {
			if err != nil {
				t.Fatalf("journal.ThreadPath(%q) = %v; the pipeline accepts it", s, err)
			}
			parent := ""
			if len(path) > 1 {
				parent = path[len(path)-2]
			}
			if parent != string(id.Parent()) {
				t.Fatalf("%q: parent %q, the pipeline's %q", s, parent, id.Parent())
			}
		}
		serr := k.Update(t.Context(), func(tx *store.Tx) error { return tx.EnsureThread(s, "p") })
		if (serr == nil) != (err == nil) {
			t.Fatalf("journal.ThreadPath(%q) = %v, stored: %v", s, err, serr)
		}
	})
}

// TestAppendCall: a call is in the journal and among the job's names at once.
func TestAppendCall(t *testing.T) {
	k := storetest.Open(t)
	log := k.PipelineLog("p")
	entry := pipeline.Entry{
		Thread: "root.job[x]", Direction: pipeline.Outbound, Handler: "h", PayloadTag: "t", PayloadHash: storetest.Digest("input"),
		Retention: pipeline.Retention{Policy: pipeline.RetainForever},
	}
	if at, err := log.AppendCall(t.Context(), "x", "call-1", entry); err != nil || !at.Equal(storetest.Start) {
		t.Fatalf("at %v, %v", at, err)
	}
	broken := entry
	broken.Handler = ""
	if _, err := log.AppendCall(t.Context(), "x", "call-2", broken); err == nil {
		t.Error("a broken entry was taken")
	}
	storetest.Must(t, k.View(t.Context(), func(tx *store.Tx) error {
		entries, err := tx.Entries(journal.Filter{Thread: "root.job[x]"})
		storetest.Must(t, err)
		if len(entries) != 1 || !entries[0].At.Equal(storetest.Start) || entries[0].PayloadHash != storetest.Digest("input") {
			t.Errorf("journal %+v", entries)
		}
		names, err := tx.Lookup("x")
		storetest.Must(t, err)
		if len(names) != 1 || !slices.Equal(names[0].Names[journal.NameCall], []string{"call-1"}) {
			t.Errorf("names %+v", names)
		}
		return nil
	}))
}
