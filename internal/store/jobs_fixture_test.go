package store

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/sales"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

func preimage(name string) payments.Preimage { return payments.Preimage(digest("preimage " + name)) }

func testJob(name string, mode receipts.Mode) job.Job {
	j := job.Job{
		RequestID: hexID("job %s", name), Kind: 5050, Buyer: hexID("buyer"), SchemaID: "oa.sandbox_run.v1",
		JobHash: digest("job " + name), Request: []byte(`{"id":"` + name + `"}`), Input: []byte(`{}`),
		Relays: []string{"wss://a", "wss://b"}, Mode: mode, PolicyID: digest("policy"), AddedAt: start,
		Charge: job.Charge{
			Purpose: receipts.PurposeResult, PriceMsats: 21_000, Quote: []byte("quote " + name), QuoteHash: digest("quote " + name),
			PaymentHash: preimage(name).Hash(), Nonce: []byte("0123456789abcdef"), ExpiresAt: start.Add(time.Hour),
		},
	}
	if mode == receipts.ModeFree {
		j.PriceMsats, j.PaymentHash = 0, payments.Hash{}
	}
	return j
}

func threadOf(j job.Job) string { return "root.job[" + j.RequestID + "]" }

func deadlineOf(j job.Job) time.Time { return j.AddedAt.Add(time.Hour) }

func planOf(j job.Job) job.Plan {
	return job.Plan{Deadline: deadlineOf(j), Hash: digest("plan")}
}

func directiveOf(j job.Job) job.Directive {
	return job.Directive{ID: "dir_" + j.RequestID, Key: j.RequestID + "/result", ApprovedBy: "test"}
}

func eventFor(j job.Job, what string) job.OutEvent {
	return job.OutEvent{
		EventID: hexID("event %s %s", j.RequestID, what), Event: []byte(`{"what":"` + what + `"}`),
		RequestID: j.RequestID, Relays: j.Relays, Required: 1,
	}
}

func held(j job.Job) job.Payment {
	return job.Payment{Hash: j.PaymentHash, State: payments.InvoiceHeld, PaidMsats: j.PriceMsats, SettleBy: start.Add(time.Hour), RecordedAt: start}
}

func settled(j job.Job) job.Payment {
	return job.Payment{Hash: j.PaymentHash, State: payments.InvoiceSettled, PaidMsats: j.PriceMsats, RecordedAt: start}
}

func arrived(j job.Job) job.Payment {
	if j.Mode == receipts.ModeHold {
		return held(j)
	}
	return settled(j)
}

func resultOf(j job.Job, run int) (job.Result, [][]byte) {
	output, replay, artifact := []byte("output "+j.RequestID), []byte("replay "+j.RequestID), []byte("artifact")
	agreement := digest("agreement")
	return job.Result{
		SessionID: fmt.Sprintf("sess-%s-%d", j.RequestID, run), Output: output, OutputHash: hashing.Bytes(output),
		AgreementHash: &agreement, PlanHash: digest("plan"), Trajectory: digest("trajectory"), Redacted: digest("redacted"),
		Replay: hashing.Bytes(replay), EventID: hexID("6050 %s", j.RequestID), Event: []byte("6050 of " + j.RequestID),
		Artifacts: []hashing.Digest{hashing.Bytes(artifact)}, StartedAt: start, FinishedAt: start.Add(time.Second),
	}, [][]byte{replay, artifact}
}

// shorterFor is the result's event again, in a shorter form.
func shorterFor(j job.Job) job.OutEvent { return eventFor(j, "6050, shorter") }

func issuer(j job.Job) func(job.Issue) (job.Issued, error) {
	return func(in job.Issue) (job.Issued, error) {
		return job.Issued{
			ReceiptID: "rcpt_" + j.RequestID,
			Receipt:   fmt.Appendf(nil, "receipt %d of %s after %v", in.Sequence, j.RequestID, in.Previous),
			Out:       []job.OutEvent{eventFor(j, "receipt")},
		}, nil
	}
}

// step is one method of the store that moves a job.
type step struct {
	name string
	do   func(ctx context.Context, s *sales.Store, j job.Job) error
}

// steps are all of them, each as it is called for the job's mode.
func steps() []step {
	closing := func(to job.State) func(context.Context, *sales.Store, job.Job) error {
		return func(ctx context.Context, s *sales.Store, j job.Job) error {
			return s.Close(ctx, j.RequestID, to, job.Reason{Code: "code", Detail: "detail"}, nil, eventFor(j, string(to)))
		}
	}
	return []step{
		{"invoice", func(ctx context.Context, s *sales.Store, j job.Job) error {
			return s.SetInvoice(ctx, j.RequestID, receipts.PurposeResult, "lnbc"+j.RequestID, payments.Hash{}, eventFor(j, "payment-required"))
		}},
		{"accept", func(ctx context.Context, s *sales.Store, j job.Job) error {
			return s.SetAcceptance(ctx, j.RequestID, receipts.PurposeResult, []byte("acceptance"))
		}},
		{"pay", func(ctx context.Context, s *sales.Store, j job.Job) error {
			return s.SetPaid(ctx, j.RequestID, arrived(j), directiveOf(j), threadOf(j))
		}},
		{"start", func(ctx context.Context, s *sales.Store, j job.Job) error {
			_, err := s.Start(ctx, j.RequestID, nil, threadOf(j), planOf(j), eventFor(j, "processing"))
			return err
		}},
		{"start by policy", func(ctx context.Context, s *sales.Store, j job.Job) error {
			d := directiveOf(j)
			_, err := s.Start(ctx, j.RequestID, &d, threadOf(j), planOf(j), eventFor(j, "processing"))
			return err
		}},
		{"finish", func(ctx context.Context, s *sales.Store, j job.Job) error {
			r, contents := resultOf(j, 1)
			return s.Finish(ctx, j.RequestID, 1, r, contents, eventFor(j, "6050"))
		}},
		{"reword", func(ctx context.Context, s *sales.Store, j job.Job) error {
			return s.SetResultEvent(ctx, j.RequestID, hexID("6050 %s", j.RequestID), shorterFor(j).EventID, shorterFor(j))
		}},
		{"settle", func(ctx context.Context, s *sales.Store, j job.Job) error {
			return s.Settle(ctx, j.RequestID, receipts.PurposeResult, settled(j), issuer(j))
		}},
		{"fail", func(ctx context.Context, s *sales.Store, j job.Job) error {
			var owed *job.Credit
			if j.Mode == receipts.ModePrepay {
				owed = &job.Credit{RequestID: j.RequestID, Buyer: j.Buyer, Msats: j.PriceMsats, RefundTo: "me@example.com"}
			}
			return s.Close(ctx, j.RequestID, job.StateFailed, job.Reason{Code: "code"}, owed)
		}},
		{"cancel", closing(job.StateCanceled)},
		{"expire", closing(job.StateExpired)},
		{"succeed", closing(job.StateSucceeded)},
		{"close as paid", closing(job.StatePaid)},
		{"close as refused", closing(job.StateRefused)},
	}
}

func doStep(t testing.TB, s *sales.Store, j job.Job, name string) error {
	t.Helper()
	i := slices.IndexFunc(steps(), func(s step) bool { return s.name == name })
	return steps()[i].do(context.Background(), s, j)
}

// pathTo lists the steps from nothing to a state.
func pathTo(mode receipts.Mode, state job.State) []string {
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
	case job.StateQuoted:
		return nil
	case job.StatePaid:
		return path
	case job.StateRunning:
		return append(path, first)
	case job.StateDelivering:
		return append(path, first, "finish")
	case job.StateSucceeded:
		return append(path, first, "finish", last)
	}
	end := map[job.State]string{job.StateFailed: "fail", job.StateCanceled: "cancel", job.StateExpired: "expire"}
	return append(path, end[state])
}

func toState(t testing.TB, s *sales.Store, j job.Job, state job.State) {
	t.Helper()
	if state == job.StateRefused {
		must(t, s.Refuse(t.Context(), j.RequestID, j.Buyer, job.Reason{Code: "bid_too_low"}, eventFor(j, "refused")))
		return
	}
	must(t, s.AddJob(t.Context(), j))
	for _, name := range pathTo(j.Mode, state) {
		if err := doStep(t, s, j, name); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func acksOf(t testing.TB, s *sales.Store) (acks []job.Ack) {
	t.Helper()
	pending, err := s.PendingEvents(t.Context(), time.Hour, 100)
	must(t, err)
	for _, p := range pending {
		acks = append(acks, job.Ack{EventID: p.EventID, Relay: p.Relays[0], OK: true, At: start})
	}
	return acks
}

// allowed says which step leads where; what is not here must be refused. The
// steps that end an open job are added by the test.
func allowed(mode receipts.Mode) map[job.State]map[string]job.State {
	m := map[job.State]map[string]job.State{
		job.StateQuoted:     {},
		job.StatePaid:       {"start": job.StateRunning},
		job.StateRunning:    {"start": job.StateRunning, "finish": job.StateDelivering},
		job.StateDelivering: {"settle": job.StateSucceeded, "reword": job.StateDelivering},
	}
	switch mode {
	case receipts.ModeHold, receipts.ModePrepay:
		m[job.StateQuoted]["pay"] = job.StatePaid
	case receipts.ModeFree:
		m[job.StateDelivering] = map[string]job.State{"succeed": job.StateSucceeded, "reword": job.StateDelivering}
		fallthrough
	default:
		delete(m, job.StatePaid)
		m[job.StateQuoted]["start by policy"] = job.StateRunning
	}
	for state, to := range m {
		to["accept"] = state
		to["fail"], to["cancel"], to["expire"] = job.StateFailed, job.StateCanceled, job.StateExpired
		if mode != receipts.ModeFree {
			to["invoice"] = state
		}
	}
	return m
}

// checkProvider holds what must be true of the tables at any time.
func checkProvider(t testing.TB, k *testStore) {
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
		"settled without result":    "SELECT count(*) FROM receipts r WHERE r.purpose = 'result' AND r.request_id NOT IN (SELECT request_id FROM job_results)",
		"receipts without success":  "SELECT count(*) FROM receipts JOIN job_current USING (request_id) WHERE purpose = 'result' AND state <> 'succeeded'",
		"successes without receipt": "SELECT count(*) FROM job_current c JOIN jobs USING (request_id) WHERE state = 'succeeded' AND mode <> 'free' AND request_id NOT IN (SELECT request_id FROM receipts WHERE purpose = 'result')",
		"gaps in the chain":         "SELECT coalesce(max(sequence), 0) - count(*) FROM receipts",
		"broken links": `SELECT count(*) FROM receipts r WHERE r.sequence > 1
			AND r.previous_hash IS NOT (SELECT receipt_hash FROM receipts p WHERE p.sequence = r.sequence - 1)`,
	} {
		if n := k.count(t, query); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
	checkTotals(t, k)
}
