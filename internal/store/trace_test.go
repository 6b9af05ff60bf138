package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/outbox"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestNamesOfASoldJob: names and events that other tables hold are the job's, though
// none has its request id written beside it.
func TestNamesOfASoldJob(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Job("x", "hold")
	storetest.ToState(t, s, j, job.StateDelivering)
	acks := storetest.AcksOf(t, s)
	storetest.Must(t, s.AddAcks(t.Context(), acks...))
	storetest.Must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, storetest.Settled(j), storetest.Issuer(j)))
	storetest.ToState(t, s, storetest.Job("another", "hold"), job.StateDelivering)

	d := storetest.DirectiveOf(j)
	done, err := s.Job(t.Context(), j.RequestID)
	storetest.Must(t, err)
	var found []journal.Names
	var open []outbox.Pending
	k.Read(t, func(tx *store.Tx) (err error) {
		if found, err = tx.Lookup(d.ID); err != nil {
			return err
		}
		open, err = tx.Pending(time.Time{}, 100)
		return err
	})
	if len(found) != 1 || found[0].RequestID != j.RequestID {
		t.Fatalf("by the directive: %+v", found)
	}
	want := map[journal.NameKind][]string{
		journal.NameJobHash: {j.JobHash.String()}, journal.NamePaymentHash: {j.PaymentHash.String()},
		journal.NameThread: {storetest.ThreadOf(j)}, journal.NameDirective: {d.ID}, journal.NameSession: {done.Result.SessionID},
		journal.NameResultEvent: {done.Result.EventID}, journal.NameReceipt: {done.ReceiptID},
	}
	if diff := cmp.Diff(want, found[0].Names); diff != "" {
		t.Error(diff)
	}
	if len(open) == 0 || slices.ContainsFunc(open, func(e outbox.Pending) bool { return e.RequestID == "" }) {
		t.Errorf("events of no job: %+v", open)
	}
	if got, err := s.Acks(t.Context(), j.RequestID); err != nil || len(got) != len(acks) || len(got) == 0 {
		t.Errorf("answers of relays: %v, %v", got, err)
	}
}
