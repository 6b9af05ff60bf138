package store

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/sales"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

func TestOncePerPaymentHash(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	a, b := testJob("a", receipts.ModeHold), testJob("b", receipts.ModeHold)
	b.PaymentHash = a.PaymentHash
	must(t, s.AddJob(t.Context(), a))
	before := k.dump(t)
	if err := s.AddJob(t.Context(), b); !errors.Is(err, job.ErrConflict) {
		t.Errorf("second job with the payment hash: %v", err)
	}
	if diff := cmp.Diff(before, k.dump(t)); diff != "" {
		t.Errorf("it wrote:\n%s", diff)
	}
	for range 2 { // free jobs have none, any number of them
		must(t, s.AddJob(t.Context(), testJob(fmt.Sprint("free", len(before["jobs"])), receipts.ModeFree)))
		before = k.dump(t)
	}
}

// chosenJob adds a job whose quote names no payment hash, and the invoice with the hash
// that the wallet chose.
func chosenJob(t *testing.T, s *sales.Store, name string, mode receipts.Mode, chosen payments.Hash) error {
	t.Helper()
	j := testJob(name, mode)
	j.PaymentHash = payments.Hash{}
	if err := s.AddJob(t.Context(), j); err != nil {
		return err
	}
	return s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeResult, "lnbc"+j.RequestID, chosen, eventFor(j, "payment-required"))
}

// TestChosenPaymentHash: the payment hash that the wallet chose is the job's from its
// invoice on; it is no other payment's, whoever chose that, and comes with a preimage.
func TestChosenPaymentHash(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	j, secret := testJob("chosen", receipts.ModePrepay), preimage("of the wallet")
	must(t, chosenJob(t, s, "chosen", receipts.ModePrepay, secret.Hash()))
	must(t, s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeResult, "lnbc"+j.RequestID, secret.Hash())) // again
	got, err := s.Job(t.Context(), j.RequestID)
	if err != nil || got.PaymentHash != secret.Hash() {
		t.Errorf("job %+v, %v", got, err)
	}
	if got, err = s.JobByPaymentHash(t.Context(), secret.Hash()); err != nil || got.RequestID != j.RequestID {
		t.Errorf("found job %q, %v", got.RequestID, err)
	}

	named := testJob("named", receipts.ModePrepay)
	must(t, s.AddJob(t.Context(), named))
	fee := withFee(testJob("fee", receipts.ModeHold))
	must(t, s.AddJob(t.Context(), fee))
	for name, tt := range map[string]struct {
		mode   receipts.Mode
		chosen payments.Hash
	}{
		"of another chosen": {receipts.ModePrepay, secret.Hash()},
		"of a quote":        {receipts.ModePostpay, named.PaymentHash},
		"of a fee":          {receipts.ModePrepay, fee.Engagement.PaymentHash},
		"none":              {receipts.ModePrepay, payments.Hash{}},
		"held":              {receipts.ModeHold, preimage("held").Hash()},
		"free":              {receipts.ModeFree, preimage("free").Hash()},
	} {
		if err := chosenJob(t, s, name, tt.mode, tt.chosen); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
	if err := s.SetInvoice(t.Context(), named.RequestID, receipts.PurposeResult, "lnbcnamed", preimage("another").Hash()); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a second hash for a quote that names one: %v", err)
	}
	late := testJob("late", receipts.ModeHold)
	late.PaymentHash = secret.Hash()
	if err := s.AddJob(t.Context(), late); err == nil {
		t.Error("a quote names the hash that the wallet chose for another")
	}

	j.PaymentHash = secret.Hash()
	pay := settled(j)
	pay.Preimage = secret
	must(t, s.SetPaid(t.Context(), j.RequestID, pay, directiveOf(j), threadOf(j)))
	k.reopen(t)
	s = k.Sales("p")
	if got, err = s.Job(t.Context(), j.RequestID); err != nil || got.Payment.Preimage != secret || got.Payment.Hash != secret.Hash() {
		t.Errorf("payment %+v, %v", got.Payment, err)
	}
}

func TestInvoiceAndAcceptanceStay(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	j := testJob("x", receipts.ModeHold)
	toState(t, s, j, job.StateQuoted)
	must(t, s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeResult, "lnbc1", payments.Hash{}, eventFor(j, "first")))
	must(t, s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeResult, "lnbc1", payments.Hash{}, eventFor(j, "again"))) // queues nothing
	if err := s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeResult, "lnbc2", payments.Hash{}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("another invoice: %v", err)
	}
	must(t, s.SetAcceptance(t.Context(), j.RequestID, receipts.PurposeResult, []byte("first")))
	must(t, s.SetAcceptance(t.Context(), j.RequestID, receipts.PurposeResult, []byte("second")))
	got, err := s.Job(t.Context(), j.RequestID)
	if err != nil || got.BOLT11 != "lnbc1" || string(got.Acceptance) != "first" {
		t.Errorf("%q, %q, %v", got.BOLT11, got.Acceptance, err)
	}
	if n := k.count(t, "SELECT count(*) FROM outbox"); n != 1 {
		t.Errorf("%d events queued", n)
	}
	other := testJob("other", receipts.ModeHold)
	toState(t, s, other, job.StateQuoted)
	if err := s.SetInvoice(t.Context(), other.RequestID, receipts.PurposeResult, "lnbc1", payments.Hash{}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("the invoice of another job: %v", err)
	}
}

func TestWrongPayment(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	j := testJob("x", receipts.ModeHold)
	toState(t, s, j, job.StateQuoted)
	wrong := held(j)
	wrong.Hash = preimage("other").Hash()
	if err := s.SetPaid(t.Context(), j.RequestID, wrong, directiveOf(j), threadOf(j)); !errors.Is(err, job.ErrConflict) {
		t.Errorf("payment of another invoice: %v", err)
	}
	must(t, doStep(t, s, j, "pay"))
	must(t, doStep(t, s, j, "start"))
	must(t, doStep(t, s, j, "finish"))
	other := settled(j)
	other.Hash = wrong.Hash
	for name, p := range map[string]job.Payment{"still held": held(j), "another hash": other} {
		if err := s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, p, issuer(j)); !errors.Is(err, job.ErrConflict) {
			t.Errorf("settle, %s: %v", name, err)
		}
	}
	pre := testJob("pre", receipts.ModePrepay)
	toState(t, s, pre, job.StateDelivering)
	more := settled(pre)
	more.PaidMsats++
	if err := s.Settle(t.Context(), pre.RequestID, receipts.PurposeResult, more, issuer(pre)); !errors.Is(err, job.ErrConflict) {
		t.Errorf("settle with another amount: %v", err)
	}
	checkProvider(t, k)
}

func TestDirectiveKeyIsConsumed(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	a, b := testJob("a", receipts.ModeHold), testJob("b", receipts.ModeHold)
	toState(t, s, a, job.StatePaid)
	toState(t, s, b, job.StateQuoted)
	d := directiveOf(b)
	d.Key = directiveOf(a).Key
	if err := s.SetPaid(t.Context(), b.RequestID, held(b), d, threadOf(b)); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a used key: %v", err)
	}
	if err := s.SetPaid(t.Context(), b.RequestID, held(b), directiveOf(b), threadOf(a)); !errors.Is(err, job.ErrConflict) {
		t.Errorf("another job's thread: %v", err)
	}
	must(t, doStep(t, s, b, "pay"))
}

func TestReceiptsFormOneChain(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	var previous *hashing.Digest
	for i := range 3 {
		j := testJob(fmt.Sprint(i), receipts.ModeHold)
		toState(t, s, j, job.StateDelivering)
		stop := errors.New("no signer")
		err := s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, settled(j), func(job.Issue) (job.Issued, error) { return job.Issued{}, stop })
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
		k.reopen(t) // a failed issue leaves no gap, nor does a restart
		s = k.Sales("p")
		must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, settled(j), func(in job.Issue) (job.Issued, error) {
			if in.Sequence != int64(i+1) || !in.At.Equal(start) {
				t.Errorf("issue %d: %+v", i, in)
			}
			if diff := cmp.Diff(previous, in.Previous); diff != "" {
				t.Errorf("issue %d:\n%s", i, diff)
			}
			out, err := issuer(j)(in)
			d := hashing.Bytes(out.Receipt)
			previous = &d
			return out, err
		}))
	}
	checkProvider(t, k)
	j := testJob("same id", receipts.ModeHold)
	toState(t, s, j, job.StateDelivering)
	if err := s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, settled(j), issuer(testJob("0", receipts.ModeHold))); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a receipt id used twice: %v", err)
	}
}

// TestDoubleSubmissions has many callers do the same step at once.
func TestDoubleSubmissions(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	j := testJob("x", receipts.ModeHold)
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
			must(t, doStep(t, s, j, name))
			continue
		}
		race(name, job.ErrConflict, func() error { return doStep(t, s, j, name) })
	}
	k.reopen(t)
	checkProvider(t, k)
	if n := k.count(t, "SELECT count(*) FROM receipts"); n != 1 {
		t.Errorf("%d receipts", n)
	}
}

func TestJobListsAndCredits(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	var ids, openIDs []string
	for i, state := range []job.State{job.StateQuoted, job.StateFailed, job.StateRunning, job.StateSucceeded} {
		j := testJob(fmt.Sprint(i), receipts.ModePrepay)
		toState(t, s, j, state)
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
	owed := job.Credit{RequestID: ids[1], Buyer: hexID("buyer"), Msats: 21_000, RefundTo: "me@example.com"}
	if diff := cmp.Diff([]job.Debt{{Credit: owed, At: start, CreditMsats: 21_000}}, debts); err != nil || diff != "" {
		t.Errorf("credits: %v\n%s", err, diff)
	}
	st, err := s.Stats(t.Context())
	if diff := cmp.Diff(job.Stats{Succeeded: 1, Failed: 1}, st); err != nil || diff != "" {
		t.Errorf("stats: %v\n%s", err, diff)
	}
}
