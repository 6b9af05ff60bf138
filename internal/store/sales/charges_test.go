package sales_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

func TestOncePerPaymentHash(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	a, b := storetest.Job("a", receipts.ModeHold), storetest.Job("b", receipts.ModeHold)
	b.PaymentHash = a.PaymentHash
	storetest.Must(t, s.AddJob(t.Context(), a))
	before := k.Dump(t)
	if err := s.AddJob(t.Context(), b); !errors.Is(err, job.ErrConflict) {
		t.Errorf("second job with the payment hash: %v", err)
	}
	if diff := cmp.Diff(before, k.Dump(t)); diff != "" {
		t.Errorf("it wrote:\n%s", diff)
	}
	for range 2 { // free jobs have none, any number of them
		storetest.Must(t, s.AddJob(t.Context(), storetest.Job(fmt.Sprint("free", len(before["jobs"])), receipts.ModeFree)))
		before = k.Dump(t)
	}
}

// TestChosenPaymentHash: the payment hash that the wallet chose is the job's from its
// invoice on; it is no other payment's, whoever chose that, and comes with a preimage.
func TestChosenPaymentHash(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j, secret := storetest.Job("chosen", receipts.ModePrepay), storetest.Preimage("of the wallet")
	storetest.Must(t, storetest.ChosenJob(t, s, "chosen", receipts.ModePrepay, secret.Hash()))
	storetest.Must(t, s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeResult, "lnbc"+j.RequestID, secret.Hash())) // again
	got, err := s.Job(t.Context(), j.RequestID)
	if err != nil || got.PaymentHash != secret.Hash() {
		t.Errorf("job %+v, %v", got, err)
	}
	if got, err = s.JobByPaymentHash(t.Context(), secret.Hash()); err != nil || got.RequestID != j.RequestID {
		t.Errorf("found job %q, %v", got.RequestID, err)
	}

	named := storetest.Job("named", receipts.ModePrepay)
	storetest.Must(t, s.AddJob(t.Context(), named))
	fee := storetest.WithFee(storetest.Job("fee", receipts.ModeHold))
	storetest.Must(t, s.AddJob(t.Context(), fee))
	for name, tt := range map[string]struct {
		mode   receipts.Mode
		chosen payments.Hash
	}{
		"of another chosen": {receipts.ModePrepay, secret.Hash()},
		"of a quote":        {receipts.ModePostpay, named.PaymentHash},
		"of a fee":          {receipts.ModePrepay, fee.Engagement.PaymentHash},
		"none":              {receipts.ModePrepay, payments.Hash{}},
		"held":              {receipts.ModeHold, storetest.Preimage("held").Hash()},
		"free":              {receipts.ModeFree, storetest.Preimage("free").Hash()},
	} {
		if err := storetest.ChosenJob(t, s, name, tt.mode, tt.chosen); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
	if err := s.SetInvoice(t.Context(), named.RequestID, receipts.PurposeResult, "lnbcnamed", storetest.Preimage("another").Hash()); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a second hash for a quote that names one: %v", err)
	}
	late := storetest.Job("late", receipts.ModeHold)
	late.PaymentHash = secret.Hash()
	if err := s.AddJob(t.Context(), late); err == nil {
		t.Error("a quote names the hash that the wallet chose for another")
	}

	j.PaymentHash = secret.Hash()
	pay := storetest.Settled(j)
	pay.Preimage = secret
	storetest.Must(t, s.SetPaid(t.Context(), j.RequestID, pay, storetest.DirectiveOf(j), storetest.ThreadOf(j)))
	k.Reopen(t)
	s = k.Sales("p")
	if got, err = s.Job(t.Context(), j.RequestID); err != nil || got.Payment.Preimage != secret || got.Payment.Hash != secret.Hash() {
		t.Errorf("payment %+v, %v", got.Payment, err)
	}
}

func TestInvoiceAndAcceptanceStay(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Job("x", receipts.ModeHold)
	storetest.ToState(t, s, j, job.StateQuoted)
	storetest.Must(t, s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeResult, "lnbc1", payments.Hash{}, storetest.EventFor(j, "first")))
	storetest.Must(t, s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeResult, "lnbc1", payments.Hash{}, storetest.EventFor(j, "again"))) // queues nothing
	if err := s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeResult, "lnbc2", payments.Hash{}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("another invoice: %v", err)
	}
	storetest.Must(t, s.SetAcceptance(t.Context(), j.RequestID, receipts.PurposeResult, []byte("first")))
	storetest.Must(t, s.SetAcceptance(t.Context(), j.RequestID, receipts.PurposeResult, []byte("second")))
	got, err := s.Job(t.Context(), j.RequestID)
	if err != nil || got.BOLT11 != "lnbc1" || string(got.Acceptance) != "first" {
		t.Errorf("%q, %q, %v", got.BOLT11, got.Acceptance, err)
	}
	if n := k.Count(t, "SELECT count(*) FROM outbox"); n != 1 {
		t.Errorf("%d events queued", n)
	}
	other := storetest.Job("other", receipts.ModeHold)
	storetest.ToState(t, s, other, job.StateQuoted)
	if err := s.SetInvoice(t.Context(), other.RequestID, receipts.PurposeResult, "lnbc1", payments.Hash{}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("the invoice of another job: %v", err)
	}
}

func TestWrongPayment(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Job("x", receipts.ModeHold)
	storetest.ToState(t, s, j, job.StateQuoted)
	wrong := storetest.Held(j)
	wrong.Hash = storetest.Preimage("other").Hash()
	if err := s.SetPaid(t.Context(), j.RequestID, wrong, storetest.DirectiveOf(j), storetest.ThreadOf(j)); !errors.Is(err, job.ErrConflict) {
		t.Errorf("payment of another invoice: %v", err)
	}
	storetest.Must(t, storetest.DoStep(t, s, j, "pay"))
	storetest.Must(t, storetest.DoStep(t, s, j, "start"))
	storetest.Must(t, storetest.DoStep(t, s, j, "finish"))
	other := storetest.Settled(j)
	other.Hash = wrong.Hash
	for name, p := range map[string]job.Payment{"still held": storetest.Held(j), "another hash": other} {
		if err := s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, p, storetest.Issuer(j)); !errors.Is(err, job.ErrConflict) {
			t.Errorf("settle, %s: %v", name, err)
		}
	}
	pre := storetest.Job("pre", receipts.ModePrepay)
	storetest.ToState(t, s, pre, job.StateDelivering)
	more := storetest.Settled(pre)
	more.PaidMsats++
	if err := s.Settle(t.Context(), pre.RequestID, receipts.PurposeResult, more, storetest.Issuer(pre)); !errors.Is(err, job.ErrConflict) {
		t.Errorf("settle with another amount: %v", err)
	}
	storetest.CheckProvider(t, k)
}

func TestDirectiveKeyIsConsumed(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	a, b := storetest.Job("a", receipts.ModeHold), storetest.Job("b", receipts.ModeHold)
	storetest.ToState(t, s, a, job.StatePaid)
	storetest.ToState(t, s, b, job.StateQuoted)
	d := storetest.DirectiveOf(b)
	d.Key = storetest.DirectiveOf(a).Key
	if err := s.SetPaid(t.Context(), b.RequestID, storetest.Held(b), d, storetest.ThreadOf(b)); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a used key: %v", err)
	}
	if err := s.SetPaid(t.Context(), b.RequestID, storetest.Held(b), storetest.DirectiveOf(b), storetest.ThreadOf(a)); !errors.Is(err, job.ErrConflict) {
		t.Errorf("another job's thread: %v", err)
	}
	storetest.Must(t, storetest.DoStep(t, s, b, "pay"))
}

func TestReceiptsFormOneChain(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	var previous *hashing.Digest
	for i := range 3 {
		j := storetest.Job(fmt.Sprint(i), receipts.ModeHold)
		storetest.ToState(t, s, j, job.StateDelivering)
		stop := errors.New("no signer")
		err := s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, storetest.Settled(j), func(job.Issue) (job.Issued, error) { return job.Issued{}, stop })
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
		k.Reopen(t) // a failed issue leaves no gap, nor does a restart
		s = k.Sales("p")
		storetest.Must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, storetest.Settled(j), func(in job.Issue) (job.Issued, error) {
			if in.Sequence != int64(i+1) || !in.At.Equal(storetest.Start) {
				t.Errorf("issue %d: %+v", i, in)
			}
			if diff := cmp.Diff(previous, in.Previous); diff != "" {
				t.Errorf("issue %d:\n%s", i, diff)
			}
			out, err := storetest.Issuer(j)(in)
			d := hashing.Bytes(out.Receipt)
			previous = &d
			return out, err
		}))
	}
	storetest.CheckProvider(t, k)
	j := storetest.Job("same id", receipts.ModeHold)
	storetest.ToState(t, s, j, job.StateDelivering)
	if err := s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, storetest.Settled(j), storetest.Issuer(storetest.Job("0", receipts.ModeHold))); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a receipt id used twice: %v", err)
	}
}

// TestDoubleSubmissions has many callers do the same step at once.
func TestDoubleSubmissions(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Job("x", receipts.ModeHold)
	race := func(name string, loser error, do func() error) {
		t.Helper()
		var wg sync.WaitGroup
		errs := make([]error, 16)
		for i := range errs {
			wg.Go(func() { errs[i] = do() })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, loser) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if won != 1 {
			t.Errorf("%s: %d won", name, won)
		}
	}
	race("add", job.ErrDuplicate, func() error { return s.AddJob(t.Context(), j) })
	for _, name := range []string{"pay", "start", "finish", "settle"} {
		if name == "start" { // may be repeated: every call is a new run, and only the last may finish
			storetest.Must(t, storetest.DoStep(t, s, j, name))
			continue
		}
		race(name, job.ErrConflict, func() error { return storetest.DoStep(t, s, j, name) })
	}
	k.Reopen(t)
	storetest.CheckProvider(t, k)
	if n := k.Count(t, "SELECT count(*) FROM receipts"); n != 1 {
		t.Errorf("%d receipts", n)
	}
}

func TestJobListsAndCredits(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	var ids, openIDs []string
	for i, state := range []job.State{job.StateQuoted, job.StateFailed, job.StateRunning, job.StateSucceeded} {
		j := storetest.Job(fmt.Sprint(i), receipts.ModePrepay)
		storetest.ToState(t, s, j, state)
		ids = append(ids, j.RequestID)
		if !state.Terminal() {
			openIDs = append(openIDs, j.RequestID)
		}
	}
	got, err := s.OpenJobs(t.Context())
	if diff := cmp.Diff(openIDs, got); err != nil || diff != "" {
		t.Errorf("open: %v\n%s", err, diff)
	}
	for limit, want := range map[int]int{0: 4, 1: 1, 9: 4} {
		jobs, err := s.Jobs(t.Context(), limit)
		if err != nil || len(jobs) != want || jobs[0].RequestID != ids[3] {
			t.Errorf("Jobs(%d): %d, %v", limit, len(jobs), err)
		}
	}
	debts, err := s.Debts(t.Context())
	owed := job.Credit{RequestID: ids[1], Buyer: storetest.HexID("buyer"), Msats: 21_000, RefundTo: "me@example.com"}
	if diff := cmp.Diff([]job.Debt{{Credit: owed, At: storetest.Start, CreditMsats: 21_000}}, debts); err != nil || diff != "" {
		t.Errorf("credits: %v\n%s", err, diff)
	}
	st, err := s.Stats(t.Context())
	if diff := cmp.Diff(job.Stats{Succeeded: 1, Failed: 1}, st); err != nil || diff != "" {
		t.Errorf("stats: %v\n%s", err, diff)
	}
}
