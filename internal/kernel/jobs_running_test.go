package kernel

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestAddRunning: a job that is stored with its first run is, to the last field,
// one that was stored and then started; otherwise nothing of it is there.
func TestAddRunning(t *testing.T) {
	k := open(t)
	s := k.ProviderStore("p")
	j, twin := testJob("x", receipts.ModeFree), testJob("twin", receipts.ModeFree)
	with := func(j provider.Job) error {
		return s.AddRunning(t.Context(), j, provider.Beginning{
			Directive: directiveOf(j), Thread: threadOf(j), Plan: planOf(j), Out: []provider.OutEvent{eventFor(j, "processing")},
		})
	}
	must(t, with(j))
	toState(t, s, twin, provider.StateRunning)
	got, err := s.Job(t.Context(), j.RequestID)
	must(t, err)
	want, err := s.Job(t.Context(), twin.RequestID)
	must(t, err)
	if got.State != provider.StateRunning || got.Run != 1 || got.Thread != threadOf(j) || got.DirectiveID != directiveOf(j).ID ||
		!got.Deadline.Equal(planOf(j).Deadline) || got.PlanHash != planOf(j).Hash {
		t.Errorf("job %+v", got)
	}
	got.RequestID, got.Thread, got.DirectiveID, got.JobHash = want.RequestID, want.Thread, want.DirectiveID, want.JobHash
	got.Request, got.Input, got.Quote, got.QuoteHash, got.Nonce, got.PlanHash = want.Request, want.Input, want.Quote, want.QuoteHash, want.Nonce, want.PlanHash
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("stored and started, at once (-, +):\n%s", d)
	}
	if acks := acksOf(t, s); len(acks) == 0 || acks[0].EventID != eventFor(j, "processing").EventID {
		t.Errorf("queued %+v", acks)
	}

	if err := with(j); !errors.Is(err, provider.ErrDuplicate) {
		t.Errorf("again: %v", err)
	}
	paid := testJob("paid", receipts.ModeHold)
	if err := with(paid); !errors.Is(err, provider.ErrConflict) {
		t.Errorf("a job that is paid first: %v", err)
	}
	if _, err := s.Job(t.Context(), paid.RequestID); !errors.Is(err, provider.ErrNotFound) {
		t.Errorf("a part of it was stored: %v", err)
	}
}
