package store

import (
	"slices"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/store/outbox"
)

func (k *testStore) due(t *testing.T, limit int) (ids []string) {
	t.Helper()
	k.view(t, func(tx *Tx) error {
		list, err := tx.Due(start.Add(-time.Hour), limit)
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
	k := open(t)
	e := outbox.OutEvent{EventID: hexID("e"), Event: []byte("{}"), Relays: []string{"wss://a", "wss://dead"}, Required: 1}
	k.update(t, func(tx *Tx) error { return tx.Enqueue(e) })
	if got := k.due(t, 10); len(got) != 1 {
		t.Fatalf("due at once: %v", got)
	}
	wait := 5 * time.Second
	for i := range 14 {
		ok := i%2 == 0
		k.update(t, func(tx *Tx) error { return tx.AddAck(outbox.Ack{EventID: e.EventID, Relay: "wss://a", OK: ok}) })
		k.now = k.now.Add(wait - time.Millisecond)
		if got := k.due(t, 10); len(got) != 0 {
			t.Errorf("after %d answers: due again before %v", i+1, wait)
		}
		k.now = k.now.Add(time.Millisecond)
		k.reopen(t)
		if got := k.due(t, 10); len(got) != 1 {
			t.Errorf("after %d answers: not due after %v", i+1, wait)
		}
		wait = min(2*wait, 2560*time.Second)
	}
	k.update(t, func(tx *Tx) error { return tx.AddAck(outbox.Ack{EventID: e.EventID, Relay: "wss://dead", OK: true}) })
	k.now = k.now.Add(time.Hour)
	if got := k.due(t, 10); len(got) != 0 {
		t.Errorf("confirmed by all and due: %v", got)
	}
}

// TestUnsent: events that enough relays took are no longer waited for, however many
// of them a dead relay keeps open before one that nobody took.
func TestUnsent(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	const taken = 300
	k.update(t, func(tx *Tx) error {
		for i := range taken + 2 {
			e := outbox.OutEvent{EventID: hexID("%d", i), Event: []byte("{}"), Relays: []string{"wss://a", "wss://dead"}, Required: 1}
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
	k.now = k.now.Add(time.Hour)
	if n, err := s.Unsent(t.Context(), time.Hour); n != 0 || err != nil {
		t.Errorf("%d unsent of those that are too old, %v", n, err)
	}
}

// TestOldEventsDoNotStandBeforeNew: events that one relay has confirmed and a
// dead one has not are more than a look at the queue takes; what nobody has
// confirmed is found all the same.
func TestOldEventsDoNotStandBeforeNew(t *testing.T) {
	k := open(t)
	const limit = 4
	add := func(name string) (id string) {
		id = hexID("%s", name)
		k.update(t, func(tx *Tx) error {
			return tx.Enqueue(outbox.OutEvent{EventID: id, Event: []byte("{}"), Relays: []string{"wss://a", "wss://dead"}, Required: 1})
		})
		k.now = k.now.Add(time.Millisecond)
		return id
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		id := add(name)
		k.update(t, func(tx *Tx) error { return tx.AddAck(outbox.Ack{EventID: id, Relay: "wss://a", OK: true}) })
	}
	fresh := add("fresh")
	if got := k.due(t, limit); !slices.Equal(got, []string{fresh}) {
		t.Errorf("due: %v, want %v alone", got, fresh)
	}
	k.now = k.now.Add(time.Minute)
	if got := k.due(t, limit); len(got) != limit || got[0] != fresh {
		t.Errorf("a minute later: %v, want %v first", got, fresh)
	}
}
