package journal_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

// TestHolds: evidence is what a tool gave in the session, and nothing else.
func TestHolds(t *testing.T) {
	requirements.Covers(t, "M-10")
	k := storetest.Open(t)
	log := k.PipelineLog("p")
	put := func(thread, direction, handler, tag, payload string) {
		t.Helper()
		storetest.Must(t, log.Append(t.Context(), pipeline.Entry{
			Thread: pipeline.ThreadID(thread), Direction: pipeline.Direction(direction), Handler: handler, PayloadTag: tag,
			PayloadHash: storetest.Digest(payload), Retention: pipeline.Retention{Policy: pipeline.RetainForever},
		}))
	}
	put("root.ask[a]", "Inbound", "bank", "Get.result", "output")
	put("root.ask[a].call-1[x]", "Inbound", "below", "Get.result", "output below")
	put("root.ask[a]", "Outbound", "asked", "Get", "input")
	put("root.ask[a]", "Inbound", "liar", "ye.response", "message")
	put("root.ask[a]", "Inbound", "liar", "Get", "what a liar asks a tool")
	put("root.ask[a]", "Inbound", "broken", "pipeline.error", "failure")
	put("root.ask[a]", "Inbound", "model", "LLMResponse", "words")
	put("root.ask[ab]", "Inbound", "other", "Get.result", "other output")
	for _, tt := range []struct {
		session, ref string
		want         bool
	}{
		{"root.ask[a]", "bank", true},
		{"root.ask[a]", storetest.Digest("output").String(), true},
		{"root.ask[a]", "below", true},
		{"root.ask[a]", storetest.Digest("output below").String(), true},
		{"root.ask[a].call-1[x]", "bank", false}, // a child's session is not its parent's
		{"root.ask[a]", "asked", false},          // it was asked, and has said nothing
		{"root.ask[a]", storetest.Digest("input").String(), false},
		{"root.ask[a]", "liar", false}, // a claim is no evidence for itself
		{"root.ask[a]", storetest.Digest("message").String(), false},
		{"root.ask[a]", storetest.Digest("what a liar asks a tool").String(), false}, // nor is what it gave a tool
		{"root.ask[a]", "broken", false},                                             // who failed has said nothing
		{"root.ask[a]", storetest.Digest("failure").String(), false},
		{"root.ask[a]", "model", false}, // a model is no source
		{"root.ask[a]", storetest.Digest("words").String(), false},
		{"root.ask[a]", "other", false},
		{"root.ask[a]", storetest.Digest("other output").String(), false},
		{"root.ask[ab]", "other", true},
		{"root.ask[%]", "bank", false},
		{"", "bank", false},
		{"root.ask[a]", "", false},
	} {
		if got, err := k.Holds(t.Context(), tt.session, tt.ref); err != nil || got != tt.want {
			t.Errorf("%s %s: %v, %v", tt.session, tt.ref, got, err)
		}
	}
}

// TestKeptContent: the bytes of a message are kept with its entry, and go with it.
func TestKeptContent(t *testing.T) {
	k := storetest.Open(t)
	log := k.PipelineLog("p")
	for i, thread := range []string{"root.ask[a]", "root.ask[b]", "root.ask[a].x"} {
		for _, tag := range []string{"ye.query", "Get"} {
			e := pipeline.Entry{
				Thread: pipeline.ThreadID(thread), Direction: pipeline.Outbound, Handler: "analyst", PayloadTag: tag,
				PayloadHash: storetest.Digest(tag), Retention: pipeline.Retention{Policy: pipeline.RetainDays, Days: i + 1},
			}
			if tag == "ye.query" {
				e.Content = tag
			}
			storetest.Must(t, log.Append(t.Context(), e))
		}
	}
	k.Read(t, func(tx *store.Tx) error {
		for _, tt := range []struct {
			filter journal.Filter
			want   []int64
		}{
			{journal.Filter{TagPrefix: "ye."}, []int64{1, 3, 5}},
			{journal.Filter{TagPrefix: "ye.", Limit: 2, Newest: true}, []int64{3, 5}},
			{journal.Filter{TagPrefix: "ye.", Limit: 2}, []int64{1, 3}},
			{journal.Filter{Session: "root.ask[a]"}, []int64{1, 2, 5, 6}},
			{journal.Filter{Session: "root.ask"}, nil},
		} {
			entries, err := tx.Entries(tt.filter)
			var got []int64
			for _, e := range entries {
				got = append(got, e.Seq)
			}
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%+v: %v, %v", tt.filter, got, err)
			}
		}
		return nil
	})
	for _, days := range []int{2, 4} {
		kept := days < 3
		_, err := k.Prune(t.Context(), storetest.Start.Add(time.Duration(days)*24*time.Hour))
		storetest.Must(t, err)
		k.Read(t, func(tx *store.Tx) error {
			if got, err := tx.HasContent(storetest.Digest("ye.query")); got != kept || err != nil {
				t.Errorf("after %d days: kept %v, %v", days, got, err)
			}
			if got, err := tx.HasContent(storetest.Digest("Get")); got || err != nil {
				t.Errorf("the bytes of a tool's input are kept: %v", err)
			}
			return nil
		})
	}
}
