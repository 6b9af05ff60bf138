package sales_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestEveryStepInEveryState calls every step in every state of every mode.
// What the table does not allow must be ErrConflict and write nothing.
func TestEveryStepInEveryState(t *testing.T) {
	requirements.Covers(t, "K-36")
	states := []job.State{
		job.StateRefused, job.StateQuoted, job.StatePaid, job.StateRunning, job.StateDelivering,
		job.StateSucceeded, job.StateFailed, job.StateCanceled, job.StateExpired,
	}
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay, receipts.ModeFree} {
		table := storetest.Allowed(mode)
		k := storetest.Open(t)
		s := k.Sales("p")
		for _, from := range states {
			if _, ok := table[from]; !ok && from == job.StatePaid {
				continue // a mode without that state
			}
			for _, st := range storetest.Steps() {
				name := fmt.Sprintf("%s/%s/%s", mode, from, st.Name)
				j := storetest.Job(name, mode)
				storetest.ToState(t, s, j, from)
				before := k.Stats()
				err := st.Do(t.Context(), s, j)
				want, ok := table[from][st.Name]
				if !ok {
					want = from
					if !errors.Is(err, job.ErrConflict) {
						t.Errorf("%s: %v, want row.ErrConflict", name, err)
					}
					if k.Stats() != before {
						t.Errorf("%s committed something", name)
					}
				} else if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				got, err := s.Job(t.Context(), j.RequestID)
				if err != nil || got.State != want {
					t.Errorf("%s: now %s, %v, want %s", name, got.State, err, want)
				}
			}
		}
		storetest.CheckProvider(t, k)
	}
}

// TestPaidJobFromQuoteToReceipt reads the job back after every step, each time
// from a database that was closed and opened.
func TestPaidJobFromQuoteToReceipt(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay} {
		t.Run(string(mode), func(t *testing.T) {
			k := storetest.Open(t)
			s := k.Sales("p")
			want := storetest.Job("x", mode)
			want.State, want.StateAt = job.StateQuoted, storetest.Start
			storetest.Must(t, s.AddJob(t.Context(), want))
			check := func(step string) {
				t.Helper()
				k.Reopen(t)
				s = k.Sales("p")
				got, err := s.Job(t.Context(), want.RequestID)
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Fatalf("after %s: %v\n%s", step, err, diff)
				}
				byHash, err := s.JobByPaymentHash(t.Context(), want.PaymentHash)
				if err != nil || byHash.RequestID != want.RequestID {
					t.Fatalf("after %s: by payment hash: %v", step, err)
				}
			}
			check("add")
			want.BOLT11, want.Acceptance = "lnbc"+want.RequestID, []byte("acceptance")
			storetest.Must(t, storetest.DoStep(t, s, want, "invoice"))
			storetest.Must(t, storetest.DoStep(t, s, want, "accept"))
			check("invoice and acceptance")

			k.Now = storetest.Start.Add(time.Second)
			started := k.Now
			begin := "start by policy"
			want.DirectiveID, want.Thread = storetest.DirectiveOf(want).ID, storetest.ThreadOf(want)
			if mode != receipts.ModePostpay {
				storetest.Must(t, storetest.DoStep(t, s, want, "pay"))
				p := storetest.Arrived(want)
				p.RecordedAt = k.Now
				want.Payment, want.State, want.StateAt, begin = &p, job.StatePaid, k.Now, "start"
				check("payment")
			}
			storetest.Must(t, storetest.DoStep(t, s, want, begin))
			want.State, want.StateAt, want.Run = job.StateRunning, started, 1
			want.Deadline, want.PlanHash = storetest.DeadlineOf(want), storetest.Digest("plan")
			check("start")

			k.Now = storetest.Start.Add(3 * time.Second)
			storetest.Must(t, storetest.DoStep(t, s, want, "finish"))
			r, contents := storetest.ResultOf(want, 1)
			want.State, want.StateAt, want.Result = job.StateDelivering, k.Now, &r
			check("finish")
			for _, c := range contents {
				if got, err := s.Content(t.Context(), hashing.Bytes(c)); err != nil || string(got) != string(c) {
					t.Errorf("content: %q, %v", got, err)
				}
			}

			k.Now = storetest.Start.Add(4 * time.Second)
			storetest.Must(t, storetest.DoStep(t, s, want, "settle"))
			if mode != receipts.ModePrepay { // prepaid money was recorded when it came
				p := storetest.Settled(want)
				p.RecordedAt = k.Now
				want.Payment = &p
			}
			issued, _ := storetest.Issuer(want)(job.Issue{Sequence: 1})
			want.State, want.StateAt, want.Receipt, want.ReceiptID = job.StateSucceeded, k.Now, issued.Receipt, issued.ReceiptID
			check("settle")

			k.Read(t, func(tx *store.Tx) error {
				th, err := tx.Thread(want.Thread)
				if err != nil || th.State != journal.ThreadCompleted || th.Result == nil || *th.Result != r.OutputHash || th.Parent != "root" {
					t.Errorf("thread %+v, %v", th, err)
				}
				for _, name := range []string{want.RequestID, want.JobHash.String(), want.PaymentHash.String(), want.Thread, want.DirectiveID, r.SessionID, r.EventID, want.ReceiptID} {
					names, err := tx.Lookup(name)
					if err != nil || len(names) != 1 || names[0].RequestID != want.RequestID || len(names[0].Names) != 7 {
						t.Errorf("Lookup(%s) = %+v, %v", name, names, err)
					}
				}
				return nil
			})
			st, err := s.Stats(t.Context())
			if diff := cmp.Diff(job.Stats{Succeeded: 1, AvgLatencyMs: 2000}, st); err != nil || diff != "" {
				t.Errorf("stats: %v\n%s", err, diff)
			}
		})
	}
}

func TestRefusedRequest(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Job("x", receipts.ModeHold)
	storetest.ToState(t, s, j, job.StateRefused)
	for name, err := range map[string]error{
		"refuse again": s.Refuse(t.Context(), j.RequestID, j.Buyer, job.Reason{}),
		"add":          s.AddJob(t.Context(), j),
	} {
		if !errors.Is(err, job.ErrDuplicate) {
			t.Errorf("%s: %v", name, err)
		}
	}
	got, err := s.Job(t.Context(), j.RequestID)
	want := job.Job{
		RequestID: j.RequestID, Buyer: j.Buyer, State: job.StateRefused,
		Reason: job.Reason{Code: "bid_too_low"}, StateAt: storetest.Start, AddedAt: storetest.Start,
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	jobs, err := s.Jobs(t.Context(), 0)
	open, err2 := s.OpenJobs(t.Context())
	if len(jobs)+len(open) != 0 || err != nil || err2 != nil {
		t.Errorf("listed: %v %v %v %v", jobs, open, err, err2)
	}
}

func TestUnknownJob(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Job("x", receipts.ModeHold)
	for _, st := range storetest.Steps() {
		if err := st.Do(t.Context(), s, j); !errors.Is(err, job.ErrNotFound) && !errors.Is(err, job.ErrConflict) {
			t.Errorf("%s: %v", st.Name, err)
		}
	}
	_, err := s.Job(t.Context(), j.RequestID)
	_, err2 := s.JobByPaymentHash(t.Context(), j.PaymentHash)
	_, err3 := s.JobByPaymentHash(t.Context(), payments.Hash{})
	_, err4 := s.Content(t.Context(), storetest.Digest("nothing"))
	for i, err := range []error{err, err2, err3, err4} {
		if !errors.Is(err, job.ErrNotFound) {
			t.Errorf("read %d: %v", i, err)
		}
	}
}

func TestOnlyTheCurrentRunFinishes(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Job("x", receipts.ModeHold)
	storetest.ToState(t, s, j, job.StateRunning)
	k.Reopen(t) // the crash that makes the rerun
	s = k.Sales("p")
	run, err := s.Start(t.Context(), j.RequestID, nil, storetest.ThreadOf(j), job.Plan{Deadline: storetest.DeadlineOf(j).Add(time.Hour), Hash: storetest.Digest("plan")}, storetest.EventFor(j, "again"))
	if run != 2 || err != nil {
		t.Fatalf("rerun = %d, %v", run, err)
	}
	if _, err := s.Start(t.Context(), j.RequestID, nil, "root.elsewhere", storetest.PlanOf(j)); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a run on another thread: %v", err)
	}
	for run, want := range map[int]error{1: job.ErrConflict, 3: job.ErrConflict, 0: job.ErrConflict} {
		r, contents := storetest.ResultOf(j, run)
		if err := s.Finish(t.Context(), j.RequestID, run, r, contents); !errors.Is(err, want) {
			t.Errorf("run %d: %v", run, err)
		}
	}
	r, contents := storetest.ResultOf(j, 2)
	other := r
	other.PlanHash = storetest.Digest("another plan")
	if err := s.Finish(t.Context(), j.RequestID, 2, other, contents); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a result of another plan: %v", err)
	}
	storetest.Must(t, s.Finish(t.Context(), j.RequestID, 2, r, contents))
	if got, err := s.Job(t.Context(), j.RequestID); err != nil || !got.Deadline.Equal(storetest.DeadlineOf(j)) {
		t.Errorf("the rerun moved the deadline to %v (%v)", got.Deadline, err)
	}
}

func TestResultNeedsItsBytes(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Job("x", receipts.ModeHold)
	storetest.ToState(t, s, j, job.StateRunning)
	r, contents := storetest.ResultOf(j, 1)
	before := k.Dump(t)
	for i := range contents {
		if err := s.Finish(t.Context(), j.RequestID, 1, r, slices.Delete(slices.Clone(contents), i, i+1)); !errors.Is(err, row.ErrInvalid) {
			t.Errorf("without content %d: %v", i, err)
		}
	}
	bad := r
	bad.Output = []byte("another output")
	if err := s.Finish(t.Context(), j.RequestID, 1, bad, contents); !errors.Is(err, row.ErrInvalid) {
		t.Errorf("with another output: %v", err)
	}
	if diff := cmp.Diff(before, k.Dump(t)); diff != "" {
		t.Errorf("it wrote:\n%s", diff)
	}
}

func BenchmarkPaidJob(b *testing.B) {
	k := storetest.Open(b)
	s := k.Sales("p")
	for i := 0; b.Loop(); i++ {
		storetest.ToState(b, s, storetest.Job(fmt.Sprint(i), receipts.ModeHold), job.StateSucceeded)
	}
	b.ReportMetric(float64(k.Stats().Commits)/float64(b.N), "commits/job")
}

// TestResultEventThatRelaysRefused: the last form of a result's event is the one that
// counts and is offered, once; none is offered of a job that failed.
func TestResultEventThatRelaysRefused(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Job("refused", receipts.ModeHold)
	storetest.Must(t, s.AddJob(t.Context(), j))
	for _, name := range storetest.PathTo(j.Mode, job.StateRunning) {
		storetest.Must(t, storetest.DoStep(t, s, j, name))
	}
	r, contents := storetest.ResultOf(j, 1)
	full := storetest.EventFor(j, "6050")
	full.EventID, full.Event = r.EventID, r.Event
	storetest.Must(t, s.Finish(t.Context(), j.RequestID, 1, r, contents, full))

	storetest.Must(t, storetest.DoStep(t, s, j, "reword"))
	if err := storetest.DoStep(t, s, j, "reword"); !errors.Is(err, job.ErrConflict) {
		t.Errorf("the first form was replaced twice: %v", err)
	}
	k.Reopen(t)
	s = k.Sales("p")
	got, err := s.Job(t.Context(), j.RequestID)
	storetest.Must(t, err)
	if want := storetest.ShorterFor(j); got.Result.EventID != want.EventID || string(got.Result.Event) != string(want.Event) {
		t.Errorf("the result's event is %s: %s", got.Result.EventID, got.Result.Event)
	}
	offered := func(id string) bool {
		list, err := s.PendingEvents(t.Context(), time.Hour, 100)
		storetest.Must(t, err)
		return slices.ContainsFunc(list, func(p job.Pending) bool { return p.EventID == id })
	}
	if offered(full.EventID) || !offered(storetest.ShorterFor(j).EventID) {
		t.Errorf("offered: the first form %v, the last %v", offered(full.EventID), offered(storetest.ShorterFor(j).EventID))
	}
	storetest.Must(t, storetest.DoStep(t, s, j, "fail"))
	if offered(storetest.ShorterFor(j).EventID) {
		t.Error("the result of a failed job is offered")
	}
}
