package outbox_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

func TestSetSignature(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	out := storetest.EventFor(storetest.Job("x", receipts.ModeHold), "a")
	storetest.Must(t, s.Enqueue(t.Context(), out))
	first, other := strings.Repeat("1", 128), strings.Repeat("2", 128)
	storetest.Must(t, s.SetSignature(t.Context(), out.EventID, first))
	storetest.Must(t, s.SetSignature(t.Context(), out.EventID, other)) // of a signer that was asked twice
	k.Reopen(t)
	pending, err := k.Sales("p").PendingEvents(t.Context(), time.Hour, 10)
	if err != nil || len(pending) != 1 || pending[0].Sig != first || string(pending[0].Event) != string(out.Event) {
		t.Errorf("pending %+v, %v", pending, err)
	}
	if err := k.Sales("p").SetSignature(t.Context(), storetest.HexID("unknown"), first); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("of an event that was never queued: %v", err)
	}
	if err := k.Sales("p").SetSignature(t.Context(), out.EventID, "short"); err == nil {
		t.Error("a signature of 5 digits was taken")
	}
}
