package outbox_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/outbox"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

func due(t *testing.T, k *storetest.DB, limit int) (ids []string) {
	t.Helper()
	k.Read(t, func(tx *store.Tx) error {
		list, err := tx.Due(storetest.Start.Add(-time.Hour), limit)
		for _, p := range list {
			ids = append(ids, p.EventID)
		}
		return err
	})
	return ids
}

// TestAnswersPutOff: an event that a dead relay keeps open is offered ever more
// rarely, however old it is.
func TestAnswersPutOff(t *testing.T) {
	k := storetest.Open(t)
	e := outbox.OutEvent{EventID: storetest.HexID("e"), Event: []byte("{}"), Relays: []string{"wss://a", "wss://dead"}, Required: 1}
	k.Change(t, func(tx *store.Tx) error { return tx.Enqueue(e) })
	if got := due(t, k, 10); len(got) != 1 {
		t.Fatalf("due at once: %v", got)
	}
	wait := 5 * time.Second
	for i := range 14 {
		ok := i%2 == 0
		k.Change(t, func(tx *store.Tx) error { return tx.AddAck(outbox.Ack{EventID: e.EventID, Relay: "wss://a", OK: ok}) })
		k.Now = k.Now.Add(wait - time.Millisecond)
		if got := due(t, k, 10); len(got) != 0 {
			t.Errorf("after %d answers: due again before %v", i+1, wait)
		}
		k.Now = k.Now.Add(time.Millisecond)
		k.Reopen(t)
		if got := due(t, k, 10); len(got) != 1 {
			t.Errorf("after %d answers: not due after %v", i+1, wait)
		}
		wait = min(2*wait, 2560*time.Second)
	}
	k.Change(t, func(tx *store.Tx) error {
		return tx.AddAck(outbox.Ack{EventID: e.EventID, Relay: "wss://dead", OK: true})
	})
	k.Now = k.Now.Add(time.Hour)
	if got := due(t, k, 10); len(got) != 0 {
		t.Errorf("confirmed by all and due: %v", got)
	}
}

// TestUnsent: events that enough relays took are no longer waited for, however many
// of them a dead relay keeps open before one that nobody took.
func TestUnsent(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	const taken = 300
	k.Change(t, func(tx *store.Tx) error {
		for i := range taken + 2 {
			e := outbox.OutEvent{EventID: storetest.HexID("%d", i), Event: []byte("{}"), Relays: []string{"wss://a", "wss://dead"}, Required: 1}
			if err := tx.Enqueue(e); err != nil {
				return err
			}
			if err := tx.AddAck(outbox.Ack{EventID: e.EventID, Relay: "wss://a", OK: i < taken}); err != nil {
				return err
			}
		}
		return nil
	})
	if n, err := s.Unsent(t.Context(), time.Hour); n != 2 || err != nil {
		t.Errorf("%d unsent, %v", n, err)
	}
	k.Now = k.Now.Add(time.Hour)
	if n, err := s.Unsent(t.Context(), time.Hour); n != 0 || err != nil {
		t.Errorf("%d unsent of those that are too old, %v", n, err)
	}
}

// TestOldEventsDoNotStandBeforeNew: events that one relay has confirmed and a
// dead one has not are more than a look at the queue takes; what nobody has
// confirmed is found all the same.
func TestOldEventsDoNotStandBeforeNew(t *testing.T) {
	k := storetest.Open(t)
	const limit = 4
	add := func(name string) (id string) {
		id = storetest.HexID("%s", name)
		k.Change(t, func(tx *store.Tx) error {
			return tx.Enqueue(outbox.OutEvent{EventID: id, Event: []byte("{}"), Relays: []string{"wss://a", "wss://dead"}, Required: 1})
		})
		k.Now = k.Now.Add(time.Millisecond)
		return id
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		id := add(name)
		k.Change(t, func(tx *store.Tx) error { return tx.AddAck(outbox.Ack{EventID: id, Relay: "wss://a", OK: true}) })
	}
	fresh := add("fresh")
	if got := due(t, k, limit); !slices.Equal(got, []string{fresh}) {
		t.Errorf("due: %v, want %v alone", got, fresh)
	}
	k.Now = k.Now.Add(time.Minute)
	if got := due(t, k, limit); len(got) != limit || got[0] != fresh {
		t.Errorf("a minute later: %v, want %v first", got, fresh)
	}
}
