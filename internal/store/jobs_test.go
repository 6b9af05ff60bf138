package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
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
		table := allowed(mode)
		k := open(t)
		s := k.Sales("p")
		for _, from := range states {
			if _, ok := table[from]; !ok && from == job.StatePaid {
				continue // a mode without that state
			}
			for _, st := range steps() {
				name := fmt.Sprintf("%s/%s/%s", mode, from, st.name)
				j := testJob(name, mode)
				toState(t, s, j, from)
				before := k.Stats()
				err := st.do(t.Context(), s, j)
				want, ok := table[from][st.name]
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
		checkProvider(t, k)
	}
}

// TestPaidJobFromQuoteToReceipt reads the job back after every step, each time
// from a database that was closed and opened.
func TestPaidJobFromQuoteToReceipt(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay} {
		t.Run(string(mode), func(t *testing.T) {
			k := open(t)
			s := k.Sales("p")
			want := testJob("x", mode)
			want.State, want.StateAt = job.StateQuoted, start
			must(t, s.AddJob(t.Context(), want))
			check := func(step string) {
				t.Helper()
				k.reopen(t)
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
			must(t, doStep(t, s, want, "invoice"))
			must(t, doStep(t, s, want, "accept"))
			check("invoice and acceptance")

			k.now = start.Add(time.Second)
			started := k.now
			begin := "start by policy"
			want.DirectiveID, want.Thread = directiveOf(want).ID, threadOf(want)
			if mode != receipts.ModePostpay {
				must(t, doStep(t, s, want, "pay"))
				p := arrived(want)
				p.RecordedAt = k.now
				want.Payment, want.State, want.StateAt, begin = &p, job.StatePaid, k.now, "start"
				check("payment")
			}
			must(t, doStep(t, s, want, begin))
			want.State, want.StateAt, want.Run = job.StateRunning, started, 1
			want.Deadline, want.PlanHash = deadlineOf(want), digest("plan")
			check("start")

			k.now = start.Add(3 * time.Second)
			must(t, doStep(t, s, want, "finish"))
			r, contents := resultOf(want, 1)
			want.State, want.StateAt, want.Result = job.StateDelivering, k.now, &r
			check("finish")
			for _, c := range contents {
				if got, err := s.Content(t.Context(), hashing.Bytes(c)); err != nil || string(got) != string(c) {
					t.Errorf("content: %q, %v", got, err)
				}
			}

			k.now = start.Add(4 * time.Second)
			must(t, doStep(t, s, want, "settle"))
			if mode != receipts.ModePrepay { // prepaid money was recorded when it came
				p := settled(want)
				p.RecordedAt = k.now
				want.Payment = &p
			}
			issued, _ := issuer(want)(job.Issue{Sequence: 1})
			want.State, want.StateAt, want.Receipt, want.ReceiptID = job.StateSucceeded, k.now, issued.Receipt, issued.ReceiptID
			check("settle")

			k.view(t, func(tx *Tx) error {
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
	k := open(t)
	s := k.Sales("p")
	j := testJob("x", receipts.ModeHold)
	toState(t, s, j, job.StateRefused)
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
		Reason: job.Reason{Code: "bid_too_low"}, StateAt: start, AddedAt: start,
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
	k := open(t)
	s := k.Sales("p")
	j := testJob("x", receipts.ModeHold)
	for _, st := range steps() {
		if err := st.do(t.Context(), s, j); !errors.Is(err, job.ErrNotFound) && !errors.Is(err, job.ErrConflict) {
			t.Errorf("%s: %v", st.name, err)
		}
	}
	_, err := s.Job(t.Context(), j.RequestID)
	_, err2 := s.JobByPaymentHash(t.Context(), j.PaymentHash)
	_, err3 := s.JobByPaymentHash(t.Context(), payments.Hash{})
	_, err4 := s.Content(t.Context(), digest("nothing"))
	for i, err := range []error{err, err2, err3, err4} {
		if !errors.Is(err, job.ErrNotFound) {
			t.Errorf("read %d: %v", i, err)
		}
	}
}

func TestOnlyTheCurrentRunFinishes(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	j := testJob("x", receipts.ModeHold)
	toState(t, s, j, job.StateRunning)
	k.reopen(t) // the crash that makes the rerun
	s = k.Sales("p")
	run, err := s.Start(t.Context(), j.RequestID, nil, threadOf(j), job.Plan{Deadline: deadlineOf(j).Add(time.Hour), Hash: digest("plan")}, eventFor(j, "again"))
	if run != 2 || err != nil {
		t.Fatalf("rerun = %d, %v", run, err)
	}
	if _, err := s.Start(t.Context(), j.RequestID, nil, "root.elsewhere", planOf(j)); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a run on another thread: %v", err)
	}
	for run, want := range map[int]error{1: job.ErrConflict, 3: job.ErrConflict, 0: job.ErrConflict} {
		r, contents := resultOf(j, run)
		if err := s.Finish(t.Context(), j.RequestID, run, r, contents); !errors.Is(err, want) {
			t.Errorf("run %d: %v", run, err)
		}
	}
	r, contents := resultOf(j, 2)
	other := r
	other.PlanHash = digest("another plan")
	if err := s.Finish(t.Context(), j.RequestID, 2, other, contents); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a result of another plan: %v", err)
	}
	must(t, s.Finish(t.Context(), j.RequestID, 2, r, contents))
	if got, err := s.Job(t.Context(), j.RequestID); err != nil || !got.Deadline.Equal(deadlineOf(j)) {
		t.Errorf("the rerun moved the deadline to %v (%v)", got.Deadline, err)
	}
}

func TestResultNeedsItsBytes(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	j := testJob("x", receipts.ModeHold)
	toState(t, s, j, job.StateRunning)
	r, contents := resultOf(j, 1)
	before := k.dump(t)
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
	if diff := cmp.Diff(before, k.dump(t)); diff != "" {
		t.Errorf("it wrote:\n%s", diff)
	}
}

func TestProviderOutbox(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	j := testJob("x", receipts.ModeHold)
	out := eventFor(j, "a")
	must(t, s.Enqueue(t.Context(), out))
	k.now = start.Add(time.Minute)
	must(t, s.AddAcks(t.Context(), job.Ack{EventID: out.EventID, Relay: "wss://a", OK: true, Message: "ok", At: start},
		job.Ack{EventID: out.EventID, Relay: "wss://b", Message: "error: no", At: start}))
	pending, err := s.PendingEvents(t.Context(), time.Hour, 10)
	want := []job.Pending{{OutEvent: out, Confirmed: []string{"wss://a"}, Attempts: 2, QueuedAt: start}}
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
	if len(acks) != 2 || acks[1].Message != "error: no" || !acks[0].At.Equal(start) || err != nil {
		t.Errorf("acks %+v, %v", acks, err)
	}
}

func BenchmarkPaidJob(b *testing.B) {
	k := open(b)
	s := k.Sales("p")
	for i := 0; b.Loop(); i++ {
		toState(b, s, testJob(fmt.Sprint(i), receipts.ModeHold), job.StateSucceeded)
	}
	b.ReportMetric(float64(k.Stats().Commits)/float64(b.N), "commits/job")
}

// TestResultEventThatRelaysRefused: the last form of a result's event is the one that
// counts and is offered, once; none is offered of a job that failed.
func TestResultEventThatRelaysRefused(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	j := testJob("refused", receipts.ModeHold)
	must(t, s.AddJob(t.Context(), j))
	for _, name := range pathTo(j.Mode, job.StateRunning) {
		must(t, doStep(t, s, j, name))
	}
	r, contents := resultOf(j, 1)
	full := eventFor(j, "6050")
	full.EventID, full.Event = r.EventID, r.Event
	must(t, s.Finish(t.Context(), j.RequestID, 1, r, contents, full))

	must(t, doStep(t, s, j, "reword"))
	if err := doStep(t, s, j, "reword"); !errors.Is(err, job.ErrConflict) {
		t.Errorf("the first form was replaced twice: %v", err)
	}
	k.reopen(t)
	s = k.Sales("p")
	got, err := s.Job(t.Context(), j.RequestID)
	must(t, err)
	if want := shorterFor(j); got.Result.EventID != want.EventID || string(got.Result.Event) != string(want.Event) {
		t.Errorf("the result's event is %s: %s", got.Result.EventID, got.Result.Event)
	}
	offered := func(id string) bool {
		list, err := s.PendingEvents(t.Context(), time.Hour, 100)
		must(t, err)
		return slices.ContainsFunc(list, func(p job.Pending) bool { return p.EventID == id })
	}
	if offered(full.EventID) || !offered(shorterFor(j).EventID) {
		t.Errorf("offered: the first form %v, the last %v", offered(full.EventID), offered(shorterFor(j).EventID))
	}
	must(t, doStep(t, s, j, "fail"))
	if offered(shorterFor(j).EventID) {
		t.Error("the result of a failed job is offered")
	}
}
