package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

func TestSetSignature(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	out := eventFor(testJob("x", receipts.ModeHold), "a")
	must(t, s.Enqueue(t.Context(), out))
	first, other := strings.Repeat("1", 128), strings.Repeat("2", 128)
	must(t, s.SetSignature(t.Context(), out.EventID, first))
	must(t, s.SetSignature(t.Context(), out.EventID, other)) // of a signer that was asked twice
	k.reopen(t)
	pending, err := k.Sales("p").PendingEvents(t.Context(), time.Hour, 10)
	if err != nil || len(pending) != 1 || pending[0].Sig != first || string(pending[0].Event) != string(out.Event) {
		t.Errorf("pending %+v, %v", pending, err)
	}
	if err := k.Sales("p").SetSignature(t.Context(), hexID("unknown"), first); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("of an event that was never queued: %v", err)
	}
	if err := k.Sales("p").SetSignature(t.Context(), out.EventID, "short"); err == nil {
		t.Error("a signature of 5 digits was taken")
	}
}
