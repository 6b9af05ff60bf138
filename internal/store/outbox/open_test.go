package outbox_test

import (
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestOpenEventsAreOfferedAgain: an event counts as open until its last relay took it; it
// is due at once, and after a refusal later, also where the node was killed meanwhile.
func TestOpenEventsAreOfferedAgain(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	out := storetest.EventFor(storetest.Job("x", receipts.ModeHold), "a")
	want := func(when string, open, due int) {
		t.Helper()
		n, err := s.PendingCount(t.Context())
		storetest.Must(t, err)
		list, err := s.DueEvents(t.Context(), time.Hour, 10)
		storetest.Must(t, err)
		if n != open || len(list) != due {
			t.Errorf("%s: %d events are open and %d due, want %d and %d", when, n, len(list), open, due)
		}
		if due == 1 && (list[0].EventID != out.EventID || string(list[0].Event) != string(out.Event)) {
			t.Errorf("%s: due is %+v", when, list[0])
		}
	}

	want("before", 0, 0)
	storetest.Must(t, s.Enqueue(t.Context(), out))
	want("queued", 1, 1)
	refused := job.Ack{EventID: out.EventID, Relay: out.Relays[0], Message: "error: full"}
	storetest.Must(t, s.AddAcks(t.Context(), refused))
	want("refused", 1, 0)

	k.Reopen(t)
	s = k.Sales("p")
	want("after a restart", 1, 0)
	k.Now = k.Now.Add(time.Minute)
	want("a minute later", 1, 1)

	for _, relay := range out.Relays {
		storetest.Must(t, s.AddAcks(t.Context(), job.Ack{EventID: out.EventID, Relay: relay, OK: true}))
	}
	want("taken by all", 0, 0)
	k.Now = k.Now.Add(2 * time.Hour)
	want("too old", 0, 0)
}
