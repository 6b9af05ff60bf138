package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/provider/internal/slots"
	"github.com/lightwork-market/lightwork/receipts"
)

// A request may name its inputs: the result of another request, or an event.
// They are waited for before the job is quoted, so job_hash is of all that will
// be run and nobody pays for a job whose input never comes. An id commits to
// what it names, so requests that wait for each other cannot be made; what a
// chain can cost is the places below, for as long as a quote lives; strangers
// get no more of them than slots.ForUnpaid.
const (
	waitingMax      = 16
	waitingPerBuyer = 2
)

// waiting are the requests whose inputs are not here yet.
type waiting struct {
	mu   sync.Mutex
	stop map[string]context.CancelFunc // by buyer's key + request id
	per  map[string]int                // by buyer
}

func newWaiting() *waiting {
	return &waiting{stop: map[string]context.CancelFunc{}, per: map[string]int{}}
}

// enter takes a place, or says which limit is reached.
func (w *waiting) enter(ev nostr.Event, known bool, stop context.CancelFunc) error {
	w.mu.Lock()
	defer w.mu.Unlock()

	switch {
	case w.per[ev.PubKey] >= waitingPerBuyer:
		return job.Refuse(job.CodeOverCapacity, fmt.Sprintf("at most %d requests of one key may wait for their inputs", waitingPerBuyer))
	case len(w.stop) >= waitingMax:
		return job.Refuse(job.CodeOverCapacity, "too many requests wait for their inputs; retry later")
	case !known && len(w.stop) >= slots.ForUnpaid(waitingMax):
		return job.Refuse(job.CodeOverCapacity, "too many requests wait for their inputs, for a key that has paid for nothing here yet; retry later")
	}

	w.stop[ev.PubKey+ev.ID] = stop
	w.per[ev.PubKey]++
	return nil
}

func (w *waiting) leave(ev nostr.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.stop, ev.PubKey+ev.ID)
	if w.per[ev.PubKey]--; w.per[ev.PubKey] == 0 {
		delete(w.per, ev.PubKey)
	}
}

// cancel ends the wait of a buyer's request, if it waits.
func (w *waiting) cancel(buyer, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if stop := w.stop[buyer+id]; stop != nil {
		stop()
	}
}

// gather waits for the inputs of a request, on a goroutine of its own, and goes
// on with it.
func (in *Intake) gather(ctx context.Context, ev, view nostr.Event) error {
	switch {
	case in.mayBeSold(view):
	case openjob.NamesSchema(view):
		return job.Refuse(job.CodeUnsupportedSchema, notOnOffer)
	default:
		return job.Refuse(job.CodeUntypedJob, "the request names no schema, and text generation is not on offer here")
	}

	refs, err := receipts.ReferencesOf(view.Tags)
	if err != nil {
		return job.Refuse(job.CodeInvalidInput, err.Error())
	}
	known, err := in.cfg.Gate.IsCustomer(ctx, ev.PubKey)
	if err != nil {
		in.log.Error("look for earlier payments", "request", ev.ID, "err", err)
		return err
	}

	wait, stop := context.WithDeadline(ctx, inputsUntil(view, time.Now().Add(in.cfg.Limits.Inputs)))
	if err := in.waiting.enter(ev, known, stop); err != nil {
		stop()
		return err
	}
	in.waits.Go(func() {
		defer stop()

		events, err := in.fetch(wait, refs)
		in.waiting.leave(ev)
		if ctx.Err() != nil || in.canceled.Has(ev.PubKey+ev.ID) {
			return // after a restart relays give us the request again
		}
		if err == nil {
			if view.Tags, err = receipts.Inline(view.Tags, in.cfg.Key, events); err != nil {
				err = job.Refuse(job.CodeUnusableInput, err.Error())
			}
		}
		if err == nil {
			err = in.cfg.Gate.MayBuy(ctx, ev.PubKey) // now, not when it began to wait
		}
		in.take(ctx, ev, view, events, err)
	})
	return nil
}

// inputsUntil is when a request is given up: it expires, or we do not wait longer.
func inputsUntil(view nostr.Event, most time.Time) time.Time {
	if end, err := expiration(view); err == nil && !end.IsZero() {
		if end.Before(most) {
			return end
		}
	}
	return most
}

// fetch looks for what the references name on our own relays, stored or yet to
// come. The relay in a reference is not asked: a stranger named it.
func (in *Intake) fetch(ctx context.Context, refs []receipts.Reference) ([]receipts.Event, error) {
	events := make([]receipts.Event, len(refs))
	for i, ref := range refs {
		found := false
		listen, enough := context.WithCancel(ctx)
		err := in.cfg.Listen(listen, nostr.Filters{filterOf(ref, in.cfg.Key)}, func() {}, func(ev nostr.Event) {
			if found {
				return
			}
			if input, ok := named(ref, ev, in.cfg.Key); ok {
				events[i], found = input, true
				enough()
			}
		})
		enough()

		switch {
		case found:
		case ctx.Err() == nil && !errors.Is(err, context.Canceled):
			in.log.Error("look for an input", "err", err)
			return nil, job.Refuse(job.CodeInternal, openjob.RetryLater)
		default:
			return nil, job.Refuse(job.CodeMissingInput, fmt.Sprintf("%s %s is not on this provider's relays, and did not come in time", ref.Type, ref.ID))
		}
	}

	return events, nil
}

// filterOf names no kinds: an event can be of any, a result of a thousand, each of
// which relays count against what a connection may subscribe to. Id, or author and
// request, leave little else.
func filterOf(ref receipts.Reference, provider string) nostr.Filter {
	if ref.Type == receipts.InputEvent {
		return nostr.Filter{IDs: []string{ref.ID}}
	}
	return nostr.Filter{Authors: []string{ref.Author(provider)}, Tags: nostr.TagMap{"e": {ref.ID}}}
}

// named is an event as an input, if it is the one meant. Listen has checked
// its signature.
func named(ref receipts.Reference, ev nostr.Event, provider string) (receipts.Event, bool) {
	raw, err := json.Marshal(ev)
	if err != nil {
		return receipts.Event{}, false
	}
	input, err := receipts.ParseEvent(raw, len(raw))
	return input, err == nil && ref.Names(input, provider)
}
