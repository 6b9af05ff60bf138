package outbox_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

func TestProviderOutbox(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Job("x", receipts.ModeHold)
	out := storetest.EventFor(j, "a")
	storetest.Must(t, s.Enqueue(t.Context(), out))
	k.Now = storetest.Start.Add(time.Minute)
	storetest.Must(t, s.AddAcks(t.Context(), job.Ack{EventID: out.EventID, Relay: "wss://a", OK: true, Message: "ok", At: storetest.Start},
		job.Ack{EventID: out.EventID, Relay: "wss://b", Message: "error: no", At: storetest.Start}))
	pending, err := s.PendingEvents(t.Context(), time.Hour, 10)
	want := []job.Pending{{OutEvent: out, Confirmed: []string{"wss://a"}, Attempts: 2, QueuedAt: storetest.Start}}
	if diff := cmp.Diff(want, pending, cmpopts.IgnoreUnexported(job.OutEvent{})); err != nil || diff != "" {
		t.Errorf("pending: %v\n%s", err, diff)
	}
	if old, err := s.PendingEvents(t.Context(), time.Minute, 10); len(old) != 0 || err != nil {
		t.Errorf("too old: %v, %v", old, err)
	}
	if n, err := s.Confirmed(t.Context(), out.EventID); n != 1 || err != nil {
		t.Errorf("confirmed %d, %v", n, err)
	}
	acks, err := s.Acks(t.Context(), j.RequestID)
	if len(acks) != 2 || acks[1].Message != "error: no" || !acks[0].At.Equal(storetest.Start) || err != nil {
		t.Errorf("acks %+v, %v", acks, err)
	}
}
