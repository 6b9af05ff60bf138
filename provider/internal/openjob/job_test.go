package openjob

import (
	"context"
	"errors"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestRefreshAsksTheStoreUnlessAStepKnows: a job is current as it was launched; after a
// step only a free job is, and only once.
func TestRefreshAsksTheStoreUnlessAStepKnows(t *testing.T) {
	stored := job.Job{RequestID: "r", State: job.StatePaid}
	asked := 0
	read := func(context.Context, string) (job.Job, error) { asked++; return stored, nil }
	for mode, want := range map[receipts.Mode]int{receipts.ModeFree: 1, receipts.ModeHold: 2} {
		asked = 0
		stored.Mode = mode
		o := empty(job.Job{RequestID: "r", Mode: mode, State: job.StateQuoted})
		if err := o.Refresh(t.Context(), read); err != nil || asked != 0 || o.State != job.StateQuoted {
			t.Fatalf("%s, as it was launched: %v, %d reads, %s", mode, err, asked, o.State)
		}
		o.Keep()
		for range 2 {
			if err := o.Refresh(t.Context(), read); err != nil {
				t.Fatal(err)
			}
		}
		if asked != want || o.State != job.StatePaid {
			t.Errorf("%s, after a step: %d reads, want %d; %s", mode, asked, want, o.State)
		}
	}
}

// TestRefreshThatFailsLeavesTheJob: what cannot be read now is read at the next look.
func TestRefreshThatFailsLeavesTheJob(t *testing.T) {
	o := empty(job.Job{RequestID: "r", State: job.StateQuoted})
	away := errors.New("away")
	for i, want := range []error{nil, away, away} {
		err := o.Refresh(t.Context(), func(context.Context, string) (job.Job, error) { return job.Job{}, away })
		if !errors.Is(err, want) || o.State != job.StateQuoted {
			t.Fatalf("look %d: %v, %s", i, err, o.State)
		}
	}
}

// TestEndsSayWhatBecomesOfTheMoney holds the three ways in which a step ends its job.
func TestEndsSayWhatBecomesOfTheMoney(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want End
	}{
		{GiveBack(job.StateCanceled, job.CodeCanceled, "by the buyer"), End{State: job.StateCanceled, Reason: job.Because(job.CodeCanceled, "by the buyer"), Cancel: true}},
		{Close(job.StateFailed, job.CodeUnpaid, "never paid", 7), End{State: job.StateFailed, Reason: job.Because(job.CodeUnpaid, "never paid"), CameMsats: 7}},
	} {
		var end *End
		if !errors.As(tt.err, &end) || *end != tt.want {
			t.Errorf("got %+v, want %+v", end, tt.want)
		}
	}
	var end *End
	if !errors.As(Delivered(), &end) || end.Reason.Code != job.CodeRestored || end.Cancel || end.CameMsats != 0 {
		t.Errorf("a job that was delivered ends as %+v", end)
	}
}

// TestDocumentsAreReadEachByItself: what one of them hides must not cost the buyer its
// refund.
func TestDocumentsAreReadEachByItself(t *testing.T) {
	o := empty(job.Job{Request: []byte("?"), Charge: job.Charge{Quote: []byte("?")}})
	o.Asked.Tags = nostr.Tags{{"param", "refund", "me@example.com"}}
	if err := o.parse(); err == nil || o.Terms.Refund != "me@example.com" {
		t.Errorf("terms %+v, %v", o.Terms, err)
	}
	if o.CanSettle() {
		t.Error("a delivery ends without a quote")
	}
}
