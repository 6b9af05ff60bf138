package contexts_test

import (
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

// TestStoreAppliesAllOrNone: of changes that a curator makes together, either all hold or
// none, and the originals stay as they were.
func TestStoreAppliesAllOrNone(t *testing.T) {
	k := storetest.Open(t)
	ids := storetest.PutSegments(t, k, "alpha beta gamma", "delta epsilon zeta")
	s := k.ContextStore()
	wrong := storetest.Fold(ids[1])
	wrong.From = curator.Evicted // it is Expanded
	if err := s.Apply(t.Context(), "root", []curator.Change{storetest.Fold(ids[0]), wrong}); !errors.Is(err, row.ErrConflict) {
		t.Errorf("a change from where nothing is: %v", err)
	}

	status := func() (list []curator.Status) {
		t.Helper()
		segments, err := s.Segments(t.Context(), "root", 5)
		storetest.Must(t, err)
		for i, seg := range segments {
			list = append(list, seg.Status)
			if string(seg.Content) != []string{"alpha", "delta"}[i] {
				t.Errorf("segment %d begins with %q", i, seg.Content)
			}
		}
		return list
	}
	if got := status(); len(got) != 2 || got[0] != curator.Expanded || got[1] != curator.Expanded {
		t.Errorf("after the refusal: %v", got)
	}
	storetest.Must(t, s.Apply(t.Context(), "root", []curator.Change{storetest.Fold(ids[0]), storetest.Fold(ids[1])}))
	if got := status(); got[0] != curator.Folded || got[1] != curator.Folded {
		t.Errorf("after both: %v", got)
	}

	if text, err := s.Original(t.Context(), "root", ids[1]); err != nil || string(text) != "delta epsilon zeta" {
		t.Errorf("original %q, %v", text, err)
	}
	for name, ask := range map[string]struct {
		thread pipeline.ThreadID
		id     curator.ID
	}{"of another thread": {"other", ids[0]}, "that never was": {"root", 999}} {
		if _, err := s.Original(t.Context(), ask.thread, ask.id); !errors.Is(err, curator.ErrUnknownSegment) {
			t.Errorf("a segment %s: %v", name, err)
		}
	}
}
