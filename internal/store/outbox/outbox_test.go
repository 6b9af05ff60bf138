package outbox_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/outbox"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

func TestOutbox(t *testing.T) {
	k := storetest.Open(t)
	two := outbox.OutEvent{EventID: storetest.HexID("two"), Event: []byte(`{"a":1}`), RequestID: "r", Domain: "lightwork/result/v1", Relays: []string{"wss://a", "wss://b"}, Required: 1}
	none := outbox.OutEvent{EventID: storetest.HexID("none"), Event: []byte("{}"), Required: 2}
	pending := func() map[string]outbox.Pending {
		t.Helper()
		out := map[string]outbox.Pending{}
		k.Read(t, func(tx *store.Tx) error {
			list, err := tx.Pending(storetest.Start.Add(-time.Hour), 10)
			for _, p := range list {
				out[p.EventID] = p
			}
			return err
		})
		return out
	}
	ack := func(e outbox.OutEvent, relay string, ok bool, want int) {
		t.Helper()
		k.Change(t, func(tx *store.Tx) error {
			err := tx.AddAck(outbox.Ack{EventID: e.EventID, Relay: relay, OK: ok, Message: "m\xff\x00" + strings.Repeat("x", 5000)})
			if n, nerr := tx.Confirmed(e.EventID); n != want || nerr != nil {
				t.Errorf("confirmed %d, %v, want %d", n, nerr, want)
			}
			return err
		})
	}
	k.Change(t, func(tx *store.Tx) error { return errors.Join(tx.Enqueue(two), tx.Enqueue(none)) })
	k.Now = storetest.Start.Add(time.Second)
	k.Change(t, func(tx *store.Tx) error { return tx.Enqueue(two) }) // the same again is fine
	changed := two
	changed.Event = []byte("other")
	if err := k.Update(t.Context(), func(tx *store.Tx) error { return tx.Enqueue(changed) }); !errors.Is(err, row.ErrConflict) {
		t.Errorf("other bytes with the same id: %v", err)
	}
	ack(two, "wss://a", false, 0)
	ack(two, "wss://a", true, 1)
	ack(two, "wss://a", true, 1) // one relay counts once
	k.Reopen(t)
	if diff := cmp.Diff(outbox.Pending{OutEvent: two, Confirmed: []string{"wss://a"}, Attempts: 3, QueuedAt: storetest.Start}, pending()[two.EventID]); diff != "" {
		t.Errorf("enough relays, not all:\n%s", diff)
	}
	ack(two, "wss://b", true, 2)
	if _, open := pending()[two.EventID]; open {
		t.Error("confirmed by all and still pending")
	}
	ack(none, "wss://x", true, 1)
	if _, open := pending()[none.EventID]; !open {
		t.Error("one of two confirmations and no longer pending")
	}
	ack(none, "wss://y", true, 2)
	if left := pending(); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	k.Read(t, func(tx *store.Tx) error {
		acks, err := tx.Acks("r")
		if len(acks) != 4 || acks[0].OK || !acks[3].OK || len(acks[0].Message) > outbox.MaxAckMessage || !acks[0].At.Equal(k.Now) {
			t.Errorf("acks %+v", acks)
		}
		return err
	})
	err := k.Update(t.Context(), func(tx *store.Tx) error {
		return tx.AddAck(outbox.Ack{EventID: storetest.HexID("unknown"), Relay: "r"})
	})
	if !errors.Is(err, row.ErrNotFound) {
		t.Errorf("ack of an unknown event: %v", err)
	}
}

func TestPendingOrderAndAge(t *testing.T) {
	k := storetest.Open(t)
	var ids []string
	for i := range 5 {
		k.Now = storetest.Start.Add(time.Duration(i) * time.Minute)
		ids = append(ids, storetest.HexID("e%d", i))
		k.Change(t, func(tx *store.Tx) error {
			return tx.Enqueue(outbox.OutEvent{EventID: ids[i], Event: []byte("{}"), Relays: []string{"r"}})
		})
	}
	for _, tt := range []struct {
		since time.Time
		limit int
		want  []string
	}{
		{time.Time{}, 10, ids},
		{time.Time{}, 2, ids[:2]},
		{storetest.Start.Add(2 * time.Minute), 10, ids[3:]},
	} {
		var got []string
		k.Read(t, func(tx *store.Tx) error {
			list, err := tx.Pending(tt.since, tt.limit)
			for _, p := range list {
				got = append(got, p.EventID)
			}
			return err
		})
		if !slices.Equal(got, tt.want) {
			t.Errorf("since %v, limit %d: %v", tt.since, tt.limit, got)
		}
	}
}

// FuzzAckMessage feeds a relay's words through the store.
func FuzzAckMessage(f *testing.F) {
	for _, s := range []string{"", "ok", "duplicate: \x00", "\xff\xfe", strings.Repeat("ü", outbox.MaxAckMessage), "'; DROP TABLE outbox; --"} {
		f.Add(s)
	}
	k := storetest.Open(f)
	id := storetest.HexID("fuzz")
	k.Change(f, func(tx *store.Tx) error {
		return tx.Enqueue(outbox.OutEvent{EventID: id, Event: []byte("{}"), RequestID: "r"})
	})
	f.Fuzz(func(t *testing.T, s string) {
		if err := k.Update(t.Context(), func(tx *store.Tx) error {
			return tx.AddAck(outbox.Ack{EventID: id, Relay: "wss://" + fmt.Sprint(rand.Int()), Message: s})
		}); err != nil {
			t.Fatal(err)
		}
	})
}
