package store

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/outbox"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestNamesOfASoldJob: names and events that other tables hold are the job's, though
// none has its request id written beside it.
func TestNamesOfASoldJob(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	j := testJob("x", "hold")
	toState(t, s, j, job.StateDelivering)
	acks := acksOf(t, s)
	must(t, s.AddAcks(t.Context(), acks...))
	must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, settled(j), issuer(j)))
	toState(t, s, testJob("another", "hold"), job.StateDelivering)

	d := directiveOf(j)
	done, err := s.Job(t.Context(), j.RequestID)
	must(t, err)
	var found []journal.Names
	var open []outbox.Pending
	k.view(t, func(tx *Tx) (err error) {
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
		journal.NameThread: {threadOf(j)}, journal.NameDirective: {d.ID}, journal.NameSession: {done.Result.SessionID},
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
