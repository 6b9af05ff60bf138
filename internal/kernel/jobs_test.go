package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

func preimage(name string) payments.Preimage { return payments.Preimage(digest("preimage " + name)) }

func testJob(name string, mode receipts.Mode) provider.Job {
	j := provider.Job{
		RequestID: hexID("job %s", name), Kind: 5050, Buyer: hexID("buyer"), SchemaID: "oa.sandbox_run.v1",
		JobHash: digest("job " + name), Request: []byte(`{"id":"` + name + `"}`), Input: []byte(`{}`),
		Relays: []string{"wss://a", "wss://b"}, Mode: mode, PriceMsats: 21_000, Quote: []byte("quote " + name),
		QuoteHash: digest("quote " + name), PaymentHash: preimage(name).Hash(), Nonce: []byte("0123456789abcdef"),
		ExpiresAt: start.Add(time.Hour), PolicyID: digest("policy"), AddedAt: start,
	}
	if mode == receipts.ModeFree {
		j.PriceMsats, j.PaymentHash = 0, payments.Hash{}
	}
	return j
}

func threadOf(j provider.Job) string { return "root.job[" + j.RequestID + "]" }

func deadlineOf(j provider.Job) time.Time { return j.AddedAt.Add(time.Hour) }

func planOf(j provider.Job) provider.Plan {
	return provider.Plan{Deadline: deadlineOf(j), Hash: digest("plan")}
}

func directiveOf(j provider.Job) provider.Directive {
	return provider.Directive{ID: "dir_" + j.RequestID, Key: j.RequestID + "/result", ApprovedBy: "test"}
}

func eventFor(j provider.Job, what string) provider.OutEvent {
	return provider.OutEvent{
		EventID: hexID("event %s %s", j.RequestID, what), Event: []byte(`{"what":"` + what + `"}`),
		RequestID: j.RequestID, Relays: j.Relays, Required: 1,
	}
}

func held(j provider.Job) provider.Payment {
	return provider.Payment{Hash: j.PaymentHash, State: payments.InvoiceHeld, PaidMsats: j.PriceMsats, SettleBy: start.Add(time.Hour), RecordedAt: start}
}

func settled(j provider.Job) provider.Payment {
	return provider.Payment{Hash: j.PaymentHash, State: payments.InvoiceSettled, PaidMsats: j.PriceMsats, RecordedAt: start}
}

func arrived(j provider.Job) provider.Payment {
	if j.Mode == receipts.ModeHold {
		return held(j)
	}
	return settled(j)
}

func resultOf(j provider.Job, run int) (provider.Result, [][]byte) {
	output, replay, artifact := []byte("output "+j.RequestID), []byte("replay "+j.RequestID), []byte("artifact")
	agreement := digest("agreement")
	return provider.Result{
		SessionID: fmt.Sprintf("sess-%s-%d", j.RequestID, run), Output: output, OutputHash: hashing.Bytes(output),
		AgreementHash: &agreement, PlanHash: digest("plan"), Trajectory: digest("trajectory"), Redacted: digest("redacted"),
		Replay: hashing.Bytes(replay), EventID: hexID("6050 %s", j.RequestID), Event: []byte("6050 of " + j.RequestID),
		Artifacts: []hashing.Digest{hashing.Bytes(artifact)}, StartedAt: start, FinishedAt: start.Add(time.Second),
	}, [][]byte{replay, artifact}
}

func issuer(j provider.Job) func(provider.Issue) (provider.Issued, error) {
	return func(in provider.Issue) (provider.Issued, error) {
		return provider.Issued{
			ReceiptID: "rcpt_" + j.RequestID,
			Receipt:   fmt.Appendf(nil, "receipt %d of %s after %v", in.Sequence, j.RequestID, in.Previous),
			Out:       []provider.OutEvent{eventFor(j, "receipt")},
		}, nil
	}
}

// step is one method of the store that moves a job.
type step struct {
	name string
	do   func(ctx context.Context, s *ProviderStore, j provider.Job) error
}

// steps are all of them, each as it is called for the job's mode.
func steps() []step {
	closing := func(to provider.State) func(context.Context, *ProviderStore, provider.Job) error {
		return func(ctx context.Context, s *ProviderStore, j provider.Job) error {
			return s.Close(ctx, j.RequestID, to, provider.Reason{Code: "code", Detail: "detail"}, nil, eventFor(j, string(to)))
		}
	}
	return []step{
		{"invoice", func(ctx context.Context, s *ProviderStore, j provider.Job) error {
			return s.SetInvoice(ctx, j.RequestID, "lnbc"+j.RequestID, eventFor(j, "payment-required"))
		}},
		{"accept", func(ctx context.Context, s *ProviderStore, j provider.Job) error {
			return s.SetAcceptance(ctx, j.RequestID, []byte("acceptance"))
		}},
		{"pay", func(ctx context.Context, s *ProviderStore, j provider.Job) error {
			return s.SetPaid(ctx, j.RequestID, arrived(j), directiveOf(j), threadOf(j))
		}},
		{"start", func(ctx context.Context, s *ProviderStore, j provider.Job) error {
			_, err := s.Start(ctx, j.RequestID, nil, threadOf(j), planOf(j), eventFor(j, "processing"))
			return err
		}},
		{"start by policy", func(ctx context.Context, s *ProviderStore, j provider.Job) error {
			d := directiveOf(j)
			_, err := s.Start(ctx, j.RequestID, &d, threadOf(j), planOf(j), eventFor(j, "processing"))
			return err
		}},
		{"finish", func(ctx context.Context, s *ProviderStore, j provider.Job) error {
			r, contents := resultOf(j, 1)
			return s.Finish(ctx, j.RequestID, 1, r, contents, eventFor(j, "6050"))
		}},
		{"settle", func(ctx context.Context, s *ProviderStore, j provider.Job) error {
			return s.Settle(ctx, j.RequestID, settled(j), issuer(j))
		}},
		{"fail", func(ctx context.Context, s *ProviderStore, j provider.Job) error {
			var owed *provider.Credit
			if j.Mode == receipts.ModePrepay {
				owed = &provider.Credit{RequestID: j.RequestID, Buyer: j.Buyer, Msats: j.PriceMsats, RefundTo: "me@example.com"}
			}
			return s.Close(ctx, j.RequestID, provider.StateFailed, provider.Reason{Code: "code"}, owed)
		}},
		{"cancel", closing(provider.StateCanceled)},
		{"expire", closing(provider.StateExpired)},
		{"succeed", closing(provider.StateSucceeded)},
		{"close as paid", closing(provider.StatePaid)},
		{"close as refused", closing(provider.StateRefused)},
	}
}

func doStep(t testing.TB, s *ProviderStore, j provider.Job, name string) error {
	t.Helper()
	i := slices.IndexFunc(steps(), func(s step) bool { return s.name == name })
	return steps()[i].do(context.Background(), s, j)
}

// pathTo lists the steps from nothing to a state.
func pathTo(mode receipts.Mode, state provider.State) []string {
	path := []string{}
	if mode != receipts.ModeFree {
		path = append(path, "invoice", "accept")
	}
	first, last := "start by policy", "settle"
	if mode == receipts.ModeHold || mode == receipts.ModePrepay {
		path, first = append(path, "pay"), "start"
	}
	if mode == receipts.ModeFree {
		last = "succeed"
	}
	switch state {
	case provider.StateQuoted:
		return nil
	case provider.StatePaid:
		return path
	case provider.StateRunning:
		return append(path, first)
	case provider.StateDelivering:
		return append(path, first, "finish")
	case provider.StateSucceeded:
		return append(path, first, "finish", last)
	}
	end := map[provider.State]string{provider.StateFailed: "fail", provider.StateCanceled: "cancel", provider.StateExpired: "expire"}
	return append(path, end[state])
}

func toState(t testing.TB, s *ProviderStore, j provider.Job, state provider.State) {
	t.Helper()
	if state == provider.StateRefused {
		must(t, s.Refuse(t.Context(), j.RequestID, j.Buyer, provider.Reason{Code: "bid_too_low"}, eventFor(j, "refused")))
		return
	}
	must(t, s.AddJob(t.Context(), j))
	for _, name := range pathTo(j.Mode, state) {
		if err := doStep(t, s, j, name); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func acksOf(t testing.TB, s *ProviderStore) (acks []provider.Ack) {
	t.Helper()
	pending, err := s.PendingEvents(t.Context(), time.Hour, 100)
	must(t, err)
	for _, p := range pending {
		acks = append(acks, provider.Ack{EventID: p.EventID, Relay: p.Relays[0], OK: true, At: start})
	}
	return acks
}

// allowed says which step leads where; what is not here must be refused. The
// steps that end an open job are added by the test.
func allowed(mode receipts.Mode) map[provider.State]map[string]provider.State {
	m := map[provider.State]map[string]provider.State{
		provider.StateQuoted:     {},
		provider.StatePaid:       {"start": provider.StateRunning},
		provider.StateRunning:    {"start": provider.StateRunning, "finish": provider.StateDelivering},
		provider.StateDelivering: {"settle": provider.StateSucceeded},
	}
	switch mode {
	case receipts.ModeHold, receipts.ModePrepay:
		m[provider.StateQuoted]["pay"] = provider.StatePaid
	case receipts.ModeFree:
		m[provider.StateDelivering] = map[string]provider.State{"succeed": provider.StateSucceeded}
		fallthrough
	default:
		delete(m, provider.StatePaid)
		m[provider.StateQuoted]["start by policy"] = provider.StateRunning
	}
	for state, to := range m {
		to["accept"] = state
		to["fail"], to["cancel"], to["expire"] = provider.StateFailed, provider.StateCanceled, provider.StateExpired
		if mode != receipts.ModeFree {
			to["invoice"] = state
		}
	}
	return m
}

// TestEveryStepInEveryState calls every step in every state of every mode.
// What the table does not allow must be ErrConflict and write nothing.
func TestEveryStepInEveryState(t *testing.T) {
	requirements.Covers(t, "K-36")
	states := []provider.State{
		provider.StateRefused, provider.StateQuoted, provider.StatePaid, provider.StateRunning, provider.StateDelivering,
		provider.StateSucceeded, provider.StateFailed, provider.StateCanceled, provider.StateExpired,
	}
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay, receipts.ModeFree} {
		table := allowed(mode)
		k := open(t)
		s := k.ProviderStore("p")
		for _, from := range states {
			if _, ok := table[from]; !ok && from == provider.StatePaid {
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
					if !errors.Is(err, provider.ErrConflict) {
						t.Errorf("%s: %v, want ErrConflict", name, err)
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

// checkProvider holds what must be true of the tables at any time.
func checkProvider(t testing.TB, k *testKernel) {
	t.Helper()
	for what, query := range map[string]string{
		"open index misses or exceeds": `SELECT count(*) FROM (
			SELECT request_id FROM job_current WHERE state IN ('quoted', 'paid', 'running', 'delivering')
			EXCEPT SELECT request_id FROM open_jobs UNION ALL
			SELECT request_id FROM open_jobs EXCEPT
			SELECT request_id FROM job_current WHERE state IN ('quoted', 'paid', 'running', 'delivering'))`,
		"ended jobs with a live thread": `SELECT count(*) FROM job_current c JOIN job_orders o USING (request_id)
			JOIN thread_current t USING (thread_id)
			WHERE (c.state IN ('paid', 'running', 'delivering')) <> (t.state = 'Active')`,
		"settled without result":    "SELECT count(*) FROM receipts r WHERE r.request_id NOT IN (SELECT request_id FROM job_results)",
		"receipts without success":  "SELECT count(*) FROM receipts JOIN job_current USING (request_id) WHERE state <> 'succeeded'",
		"successes without receipt": "SELECT count(*) FROM job_current c JOIN jobs USING (request_id) WHERE state = 'succeeded' AND mode <> 'free' AND request_id NOT IN (SELECT request_id FROM receipts)",
		"gaps in the chain":         "SELECT coalesce(max(sequence), 0) - count(*) FROM receipts",
		"broken links": `SELECT count(*) FROM receipts r WHERE r.sequence > 1
			AND r.previous_hash IS NOT (SELECT receipt_hash FROM receipts p WHERE p.sequence = r.sequence - 1)`,
	} {
		if n := k.count(t, query); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
}

// TestPaidJobFromQuoteToReceipt reads the job back after every step, each time
// from a database that was closed and opened.
func TestPaidJobFromQuoteToReceipt(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay} {
		t.Run(string(mode), func(t *testing.T) {
			k := open(t)
			s := k.ProviderStore("p")
			want := testJob("x", mode)
			want.State, want.StateAt = provider.StateQuoted, start
			must(t, s.AddJob(t.Context(), want))
			check := func(step string) {
				t.Helper()
				k.reopen(t)
				s = k.ProviderStore("p")
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
				want.Payment, want.State, want.StateAt, begin = &p, provider.StatePaid, k.now, "start"
				check("payment")
			}
			must(t, doStep(t, s, want, begin))
			want.State, want.StateAt, want.Run = provider.StateRunning, started, 1
			want.Deadline, want.PlanHash = deadlineOf(want), digest("plan")
			check("start")

			k.now = start.Add(3 * time.Second)
			must(t, doStep(t, s, want, "finish"))
			r, contents := resultOf(want, 1)
			want.State, want.StateAt, want.Result = provider.StateDelivering, k.now, &r
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
			issued, _ := issuer(want)(provider.Issue{Sequence: 1})
			want.State, want.StateAt, want.Receipt, want.ReceiptID = provider.StateSucceeded, k.now, issued.Receipt, issued.ReceiptID
			check("settle")

			k.view(t, func(tx *Tx) error {
				th, err := tx.Thread(want.Thread)
				if err != nil || th.State != ThreadCompleted || th.Result == nil || *th.Result != r.OutputHash || th.Parent != "root" {
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
			if diff := cmp.Diff(provider.Stats{Succeeded: 1, AvgLatencyMs: 2000}, st); err != nil || diff != "" {
				t.Errorf("stats: %v\n%s", err, diff)
			}
		})
	}
}

func TestRefusedRequest(t *testing.T) {
	k := open(t)
	s := k.ProviderStore("p")
	j := testJob("x", receipts.ModeHold)
	toState(t, s, j, provider.StateRefused)
	for name, err := range map[string]error{
		"refuse again": s.Refuse(t.Context(), j.RequestID, j.Buyer, provider.Reason{}),
		"add":          s.AddJob(t.Context(), j),
	} {
		if !errors.Is(err, provider.ErrDuplicate) {
			t.Errorf("%s: %v", name, err)
		}
	}
	got, err := s.Job(t.Context(), j.RequestID)
	want := provider.Job{
		RequestID: j.RequestID, Buyer: j.Buyer, State: provider.StateRefused,
		Reason: provider.Reason{Code: "bid_too_low"}, StateAt: start, AddedAt: start,
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
	s := k.ProviderStore("p")
	j := testJob("x", receipts.ModeHold)
	for _, st := range steps() {
		if err := st.do(t.Context(), s, j); !errors.Is(err, provider.ErrNotFound) && !errors.Is(err, provider.ErrConflict) {
			t.Errorf("%s: %v", st.name, err)
		}
	}
	_, err := s.Job(t.Context(), j.RequestID)
	_, err2 := s.JobByPaymentHash(t.Context(), j.PaymentHash)
	_, err3 := s.JobByPaymentHash(t.Context(), payments.Hash{})
	_, err4 := s.Content(t.Context(), digest("nothing"))
	for i, err := range []error{err, err2, err3, err4} {
		if !errors.Is(err, provider.ErrNotFound) {
			t.Errorf("read %d: %v", i, err)
		}
	}
}

func TestOncePerPaymentHash(t *testing.T) {
	k := open(t)
	s := k.ProviderStore("p")
	a, b := testJob("a", receipts.ModeHold), testJob("b", receipts.ModeHold)
	b.PaymentHash = a.PaymentHash
	must(t, s.AddJob(t.Context(), a))
	before := k.dump(t)
	if err := s.AddJob(t.Context(), b); !errors.Is(err, provider.ErrConflict) {
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

func TestInvoiceAndAcceptanceStay(t *testing.T) {
	k := open(t)
	s := k.ProviderStore("p")
	j := testJob("x", receipts.ModeHold)
	toState(t, s, j, provider.StateQuoted)
	must(t, s.SetInvoice(t.Context(), j.RequestID, "lnbc1", eventFor(j, "first")))
	must(t, s.SetInvoice(t.Context(), j.RequestID, "lnbc1", eventFor(j, "again"))) // queues nothing
	if err := s.SetInvoice(t.Context(), j.RequestID, "lnbc2"); !errors.Is(err, provider.ErrConflict) {
		t.Errorf("another invoice: %v", err)
	}
	must(t, s.SetAcceptance(t.Context(), j.RequestID, []byte("first")))
	must(t, s.SetAcceptance(t.Context(), j.RequestID, []byte("second")))
	got, err := s.Job(t.Context(), j.RequestID)
	if err != nil || got.BOLT11 != "lnbc1" || string(got.Acceptance) != "first" {
		t.Errorf("%q, %q, %v", got.BOLT11, got.Acceptance, err)
	}
	if n := k.count(t, "SELECT count(*) FROM outbox"); n != 1 {
		t.Errorf("%d events queued", n)
	}
	other := testJob("other", receipts.ModeHold)
	toState(t, s, other, provider.StateQuoted)
	if err := s.SetInvoice(t.Context(), other.RequestID, "lnbc1"); !errors.Is(err, provider.ErrConflict) {
		t.Errorf("the invoice of another job: %v", err)
	}
}

func TestWrongPayment(t *testing.T) {
	k := open(t)
	s := k.ProviderStore("p")
	j := testJob("x", receipts.ModeHold)
	toState(t, s, j, provider.StateQuoted)
	wrong := held(j)
	wrong.Hash = preimage("other").Hash()
	if err := s.SetPaid(t.Context(), j.RequestID, wrong, directiveOf(j), threadOf(j)); !errors.Is(err, provider.ErrConflict) {
		t.Errorf("payment of another invoice: %v", err)
	}
	must(t, doStep(t, s, j, "pay"))
	must(t, doStep(t, s, j, "start"))
	must(t, doStep(t, s, j, "finish"))
	other := settled(j)
	other.Hash = wrong.Hash
	for name, p := range map[string]provider.Payment{"still held": held(j), "another hash": other} {
		if err := s.Settle(t.Context(), j.RequestID, p, issuer(j)); !errors.Is(err, provider.ErrConflict) {
			t.Errorf("settle, %s: %v", name, err)
		}
	}
	pre := testJob("pre", receipts.ModePrepay)
	toState(t, s, pre, provider.StateDelivering)
	more := settled(pre)
	more.PaidMsats++
	if err := s.Settle(t.Context(), pre.RequestID, more, issuer(pre)); !errors.Is(err, provider.ErrConflict) {
		t.Errorf("settle with another amount: %v", err)
	}
	checkProvider(t, k)
}

func TestDirectiveKeyIsConsumed(t *testing.T) {
	k := open(t)
	s := k.ProviderStore("p")
	a, b := testJob("a", receipts.ModeHold), testJob("b", receipts.ModeHold)
	toState(t, s, a, provider.StatePaid)
	toState(t, s, b, provider.StateQuoted)
	d := directiveOf(b)
	d.Key = directiveOf(a).Key
	if err := s.SetPaid(t.Context(), b.RequestID, held(b), d, threadOf(b)); !errors.Is(err, provider.ErrConflict) {
		t.Errorf("a used key: %v", err)
	}
	if err := s.SetPaid(t.Context(), b.RequestID, held(b), directiveOf(b), threadOf(a)); !errors.Is(err, provider.ErrConflict) {
		t.Errorf("another job's thread: %v", err)
	}
	must(t, doStep(t, s, b, "pay"))
}

func TestOnlyTheCurrentRunFinishes(t *testing.T) {
	k := open(t)
	s := k.ProviderStore("p")
	j := testJob("x", receipts.ModeHold)
	toState(t, s, j, provider.StateRunning)
	k.reopen(t) // the crash that makes the rerun
	s = k.ProviderStore("p")
	run, err := s.Start(t.Context(), j.RequestID, nil, threadOf(j), provider.Plan{Deadline: deadlineOf(j).Add(time.Hour), Hash: digest("plan")}, eventFor(j, "again"))
	if run != 2 || err != nil {
		t.Fatalf("rerun = %d, %v", run, err)
	}
	if _, err := s.Start(t.Context(), j.RequestID, nil, "root.elsewhere", planOf(j)); !errors.Is(err, provider.ErrConflict) {
		t.Errorf("a run on another thread: %v", err)
	}
	for run, want := range map[int]error{1: provider.ErrConflict, 3: provider.ErrConflict, 0: provider.ErrConflict} {
		r, contents := resultOf(j, run)
		if err := s.Finish(t.Context(), j.RequestID, run, r, contents); !errors.Is(err, want) {
			t.Errorf("run %d: %v", run, err)
		}
	}
	r, contents := resultOf(j, 2)
	other := r
	other.PlanHash = digest("another plan")
	if err := s.Finish(t.Context(), j.RequestID, 2, other, contents); !errors.Is(err, provider.ErrConflict) {
		t.Errorf("a result of another plan: %v", err)
	}
	must(t, s.Finish(t.Context(), j.RequestID, 2, r, contents))
	if got, err := s.Job(t.Context(), j.RequestID); err != nil || !got.Deadline.Equal(deadlineOf(j)) {
		t.Errorf("the rerun moved the deadline to %v (%v)", got.Deadline, err)
	}
}

func TestResultNeedsItsBytes(t *testing.T) {
	k := open(t)
	s := k.ProviderStore("p")
	j := testJob("x", receipts.ModeHold)
	toState(t, s, j, provider.StateRunning)
	r, contents := resultOf(j, 1)
	before := k.dump(t)
	for i := range contents {
		if err := s.Finish(t.Context(), j.RequestID, 1, r, slices.Delete(slices.Clone(contents), i, i+1)); !errors.Is(err, ErrInvalid) {
			t.Errorf("without content %d: %v", i, err)
		}
	}
	bad := r
	bad.Output = []byte("another output")
	if err := s.Finish(t.Context(), j.RequestID, 1, bad, contents); !errors.Is(err, ErrInvalid) {
		t.Errorf("with another output: %v", err)
	}
	if diff := cmp.Diff(before, k.dump(t)); diff != "" {
		t.Errorf("it wrote:\n%s", diff)
	}
}

func TestReceiptsFormOneChain(t *testing.T) {
	k := open(t)
	s := k.ProviderStore("p")
	var previous *hashing.Digest
	for i := range 3 {
		j := testJob(fmt.Sprint(i), receipts.ModeHold)
		toState(t, s, j, provider.StateDelivering)
		stop := errors.New("no signer")
		err := s.Settle(t.Context(), j.RequestID, settled(j), func(provider.Issue) (provider.Issued, error) { return provider.Issued{}, stop })
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
		k.reopen(t) // a failed issue leaves no gap, nor does a restart
		s = k.ProviderStore("p")
		must(t, s.Settle(t.Context(), j.RequestID, settled(j), func(in provider.Issue) (provider.Issued, error) {
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
	toState(t, s, j, provider.StateDelivering)
	if err := s.Settle(t.Context(), j.RequestID, settled(j), issuer(testJob("0", receipts.ModeHold))); !errors.Is(err, provider.ErrConflict) {
		t.Errorf("a receipt id used twice: %v", err)
	}
}

// TestDoubleSubmissions has many callers do the same step at once.
func TestDoubleSubmissions(t *testing.T) {
	k := open(t)
	s := k.ProviderStore("p")
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
	race("add", provider.ErrDuplicate, func() error { return s.AddJob(t.Context(), j) })
	for _, name := range []string{"pay", "start", "finish", "settle"} {
		if name == "start" { // may be repeated: every call is a new run, and only the last may finish
			must(t, doStep(t, s, j, name))
			continue
		}
		race(name, provider.ErrConflict, func() error { return doStep(t, s, j, name) })
	}
	k.reopen(t)
	checkProvider(t, k)
	if n := k.count(t, "SELECT count(*) FROM receipts"); n != 1 {
		t.Errorf("%d receipts", n)
	}
}

func TestJobListsAndCredits(t *testing.T) {
	k := open(t)
	s := k.ProviderStore("p")
	var ids, openIDs []string
	for i, state := range []provider.State{provider.StateQuoted, provider.StateFailed, provider.StateRunning, provider.StateSucceeded} {
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
	owed := provider.Credit{RequestID: ids[1], Buyer: hexID("buyer"), Msats: 21_000, RefundTo: "me@example.com"}
	if diff := cmp.Diff([]provider.Debt{{Credit: owed, At: start, CreditMsats: 21_000}}, debts); err != nil || diff != "" {
		t.Errorf("credits: %v\n%s", err, diff)
	}
	st, err := s.Stats(t.Context())
	if diff := cmp.Diff(provider.Stats{Succeeded: 1, Failed: 1}, st); err != nil || diff != "" {
		t.Errorf("stats: %v\n%s", err, diff)
	}
}

func TestProviderOutbox(t *testing.T) {
	k := open(t)
	s := k.ProviderStore("p")
	j := testJob("x", receipts.ModeHold)
	out := eventFor(j, "a")
	must(t, s.Enqueue(t.Context(), out))
	k.now = start.Add(time.Minute)
	must(t, s.AddAcks(t.Context(), provider.Ack{EventID: out.EventID, Relay: "wss://a", OK: true, Message: "ok", At: start},
		provider.Ack{EventID: out.EventID, Relay: "wss://b", Message: "error: no", At: start}))
	pending, err := s.PendingEvents(t.Context(), time.Hour, 10)
	want := []provider.Pending{{OutEvent: out, Confirmed: []string{"wss://a"}, Attempts: 2, QueuedAt: start}}
	if diff := cmp.Diff(want, pending); err != nil || diff != "" {
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
	s := k.ProviderStore("p")
	for i := 0; b.Loop(); i++ {
		toState(b, s, testJob(fmt.Sprint(i), receipts.ModeHold), provider.StateSucceeded)
	}
	b.ReportMetric(float64(k.Stats().Commits)/float64(b.N), "commits/job")
}
