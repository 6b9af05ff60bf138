package publish

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/nbd-wtf/go-nostr"
)

// ackStore keeps each commit of answers, as the ids of their events.
type ackStore struct {
	Store
	commits [][]string
}

func (s *ackStore) DueEvents(context.Context, time.Duration, int) ([]job.Pending, error) {
	return nil, nil
}

func (s *ackStore) AddAcks(_ context.Context, acks ...job.Ack) error {
	var ids []string
	for _, a := range acks {
		ids = append(ids, a.EventID)
	}
	s.commits = append(s.commits, ids)
	return nil
}

// willing is a market of one relay that takes everything.
type willing struct{ Market }

func (willing) Publish(_ context.Context, ev nostr.Event) []job.Ack {
	return []job.Ack{{EventID: ev.ID, Relay: "wss://relay.example", OK: true}}
}

// TestAnswersAreGathered: what is said of events that no job waits for, and of the
// result of a free job, is committed with the answers to another result, or a while
// later, or as the outbox stops; until then its event is not offered again.
func TestAnswersAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &ackStore{}
		var told []job.Ack
		o := New(Config{
			Store: store, Market: willing{}, Log: slog.New(slog.DiscardHandler), OnAck: func(_ string, acks []job.Ack) { told = append(told, acks...) },
			OnStoreError: func(err error) { t.Error(err) }, OnPublished: func(job.PublicationEvent) {},
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = o.Serve(ctx) }()
		offer := func(id string, kind int, of ...func(*job.OutEvent)) {
			out := job.OutEvent{EventID: id, RequestID: "job", Event: []byte(nostr.Event{ID: id, Kind: kind, Sig: "signed"}.String()), Required: 1}
			for _, set := range of {
				set(&out)
			}
			o.Send(out)
			synctest.Wait()
		}
		wants := func(want ...[]string) {
			t.Helper()
			if !slices.EqualFunc(store.commits, want, slices.Equal) {
				t.Fatalf("commits %v, want %v", store.commits, want)
			}
		}
		offer("processing", 7000)
		wants()
		if !o.inflight["processing"] {
			t.Error("an event whose answer waits to be recorded may be offered again")
		}
		offer("result", 6050)
		wants([]string{"result", "processing"})
		if len(told) != 1 || told[0].EventID != "result" {
			t.Errorf("told %v", told)
		}
		time.Sleep(2 * gatherFor)
		offer("success", 7000)
		time.Sleep(gatherFor)
		synctest.Wait()
		wants([]string{"result", "processing"}, []string{"success"})
		if len(o.inflight) > 0 {
			t.Errorf("%v stay in flight", o.inflight)
		}
		unpaid := func(out *job.OutEvent) { out.Unpaid = true }
		offer("free", 6050, unpaid)
		if len(told) != 2 || told[1].EventID != "free" || !o.inflight["free"] {
			t.Errorf("told %v, in flight %v", told, o.inflight)
		}
		wants([]string{"result", "processing"}, []string{"success"})
		// Of a relay that was not enough the store is asked later.
		offer("part", 6050, unpaid, func(out *job.OutEvent) { out.Required = 2 })
		wants([]string{"result", "processing"}, []string{"success"}, []string{"part", "free"})
		offer("last", 7000)
		stop()
		<-ended
		wants([]string{"result", "processing"}, []string{"success"}, []string{"part", "free"}, []string{"last"})
	})
}
