package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider/internal/slots"
	"github.com/lightwork-market/lightwork/receipts"
)

// code is that of a refusal, "" for none.
func code(t *testing.T, err error) job.Code {
	t.Helper()
	var no *job.Refusal
	if err != nil && !errors.As(err, &no) {
		t.Fatalf("%v is no refusal", err)
	}
	if no == nil {
		return ""
	}
	return no.Reason.Code
}

// TestPlacesOfThoseWhoWait: a key has two places among the requests that wait for their
// inputs, and keys that have paid for nothing do not get all of them.
func TestPlacesOfThoseWhoWait(t *testing.T) {
	w := newWaiting()
	request := func(buyer, id int) nostr.Event {
		return nostr.Event{PubKey: fmt.Sprint(buyer), ID: fmt.Sprint(id)}
	}
	enter := func(buyer, id int, known bool) job.Code {
		t.Helper()
		return code(t, w.enter(request(buyer, id), known, func() {}))
	}

	for id := range waitingPerBuyer {
		if got := enter(0, id, false); got != "" {
			t.Fatalf("request %d of a key: %s", id, got)
		}
	}
	if got := enter(0, 99, true); got != job.CodeOverCapacity {
		t.Errorf("one more than a key has places for: %q", got)
	}
	w.leave(request(0, 0))
	if got := enter(0, 99, true); got != "" {
		t.Errorf("after one has left: %s", got)
	}

	for buyer := 1; len(w.stop) < slots.ForUnpaid(waitingMax); buyer++ {
		if got := enter(buyer, 0, false); got != "" {
			t.Fatalf("key %d: %s", buyer, got)
		}
	}
	if got := enter(1000, 0, false); got != job.CodeOverCapacity {
		t.Errorf("a place that is kept for those who have paid: %q", got)
	}
	if got := enter(1000, 0, true); got != "" {
		t.Errorf("a key that has paid: %s", got)
	}
}

// TestModeThatIsOnOffer: the request's own, or the first of the offer.
func TestModeThatIsOnOffer(t *testing.T) {
	offer := job.Offer{Modes: []receipts.Mode{receipts.ModeHold, receipts.ModeFree}}
	for asked, want := range map[receipts.Mode]receipts.Mode{"": receipts.ModeHold, receipts.ModeFree: receipts.ModeFree, receipts.ModePostpay: ""} {
		got, err := chooseMode(receipts.RequestTerms{Mode: asked}, offer)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", asked, got, err)
		}
		if want == "" && code(t, err) != job.CodeInvalidInput {
			t.Errorf("%q is refused for %v", asked, err)
		}
	}
}

// TestRefusalsThatNobodyWaitsFor: a request that is open to all and not of our kind is
// for others, so nothing is said of it; who named this key hears why.
func TestRefusalsThatNobodyWaitsFor(t *testing.T) {
	in := New(Config{Key: "us"})
	for _, tt := range []struct {
		tags nostr.Tags
		code job.Code
		want bool
	}{
		{nil, job.CodeUntypedJob, false},
		{nil, job.CodeBidTooLow, true},
		{nostr.Tags{{"p", "us"}}, job.CodeUntypedJob, true},
	} {
		if got := in.concerns(nostr.Event{Tags: tt.tags}, job.Because(tt.code, "")); got != tt.want {
			t.Errorf("%s with %v: told %v", tt.code, tt.tags, got)
		}
	}
}

// TestAnInputThatIsNotLookedForIsNotThere: relays that stop to listen before the time is
// over have not said that there is no such event, and the job does not go on without it.
func TestAnInputThatIsNotLookedForIsNotThere(t *testing.T) {
	stops := func(context.Context, nostr.Filters, func(), func(nostr.Event)) error { return nil }
	in := New(Config{Listen: stops, Log: slog.New(slog.DiscardHandler)})
	refs := []receipts.Reference{{Type: receipts.InputEvent, ID: strings.Repeat("a", 64)}}
	if events, err := in.fetch(t.Context(), refs); code(t, err) != job.CodeInternal {
		t.Errorf("found %v, %v", events, err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if events, err := in.fetch(ended, refs); code(t, err) != job.CodeMissingInput {
		t.Errorf("once its time is over: found %v, %v", events, err)
	}
}

// TestOnlyCancellationsCancel: other programs' events of the same kinds end no job.
func TestOnlyCancellationsCancel(t *testing.T) {
	id := strings.Repeat("ab", 32)
	for _, tt := range []struct {
		name string
		kind int
		tags nostr.Tags
		want int
	}{
		{"a deletion without a domain", kinds.Deletion, nil, 1},
		{"a deletion of ours", kinds.Deletion, nostr.Tags{domain.Deletion.Tag()}, 1},
		{"a deletion of another document", kinds.Deletion, nostr.Tags{domain.Receipt.Tag()}, 0},
		{"an offer not taken", kinds.NotTaken, nostr.Tags{domain.NotTaken.Tag()}, 1},
		{"another program's kind", kinds.NotTaken, nil, 0},
	} {
		canceled := 0
		in := &Intake{waiting: newWaiting(), log: slog.New(slog.DiscardHandler)}
		in.cfg.Cancel = func(_, of string) bool {
			if of == id {
				canceled++
			}
			return true
		}
		in.Cancel(nostr.Event{Kind: tt.kind, Tags: append(nostr.Tags{{"e", id}}, tt.tags...)})
		if canceled != tt.want {
			t.Errorf("%s: %d jobs are canceled, want %d", tt.name, canceled, tt.want)
		}
	}
}
