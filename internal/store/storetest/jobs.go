package storetest

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

// Owe brings a prepaid job to its failure, with a refund of msats; 0 is none.
func Owe(t testing.TB, s *sales.Store, name string, msats int64) job.Job {
	t.Helper()
	j := Job(name, "prepay")
	ToState(t, s, j, job.StatePaid)
	Must(t, s.Close(t.Context(), j.RequestID, job.StateFailed, job.Reason{Code: "code"}, DebtOf(j, msats)))
	return j
}

// DebtOf is what a failed job leaves owed, with its refund if that is above 0.
func DebtOf(j job.Job, refundMsats int64) *job.Credit {
	c := &job.Credit{RequestID: j.RequestID, Buyer: j.Buyer, Msats: j.PriceMsats}
	if refundMsats > 0 {
		c.Refund = &job.Refund{
			RequestID: j.RequestID, Attempt: 1, Buyer: j.Buyer, BOLT11: "lnplay" + j.RequestID, PaymentHash: RefundSecret(j).Hash(),
			Msats: refundMsats, FeeLimitMsats: 5, Wallet: "play 02aa",
		}
	}
	return c
}

// RefundSecret proves that the refund of a job arrived.
func RefundSecret(j job.Job) payments.Preimage { return Preimage("refund " + j.RequestID) }

// RefundedFor is the end of a refund that arrived.
func RefundedFor(j job.Job) job.RefundEnd {
	return job.RefundEnd{Attempt: 1, State: payments.PaymentSucceeded, FeeMsats: 3, Preimage: RefundSecret(j)}
}

// CheckCredit compares what is owed to the buyer of all jobs.
func CheckCredit(t testing.TB, s *sales.Store, want int64) {
	t.Helper()
	if got, err := s.CreditOf(t.Context(), HexID("buyer")); got != want || err != nil {
		t.Errorf("credit is %d msats, want %d; %v", got, want, err)
	}
}

// Preimage is the secret of a payment of that name.
func Preimage(name string) payments.Preimage { return payments.Preimage(Digest("preimage " + name)) }

// Job is a quoted job of that name.
func Job(name string, mode receipts.Mode) job.Job {
	j := job.Job{
		RequestID: HexID("job %s", name), Kind: 5050, Buyer: HexID("buyer"), SchemaID: "oa.sandbox_run.v1",
		JobHash: Digest("job " + name), Request: []byte(`{"id":"` + name + `"}`), Input: []byte(`{}`),
		Relays: []string{"wss://a", "wss://b"}, Mode: mode, PolicyID: Digest("policy"), AddedAt: Start,
		Charge: job.Charge{
			Purpose: receipts.PurposeResult, PriceMsats: 21_000, Quote: []byte("quote " + name), QuoteHash: Digest("quote " + name),
			PaymentHash: Preimage(name).Hash(), Nonce: []byte("0123456789abcdef"), ExpiresAt: Start.Add(time.Hour),
		},
	}
	if mode == receipts.ModeFree {
		j.PriceMsats, j.PaymentHash = 0, payments.Hash{}
	}
	return j
}

// ThreadOf is the thread that a job runs on.
func ThreadOf(j job.Job) string { return "root.job[" + j.RequestID + "]" }

// DeadlineOf is when all work on a job ends.
func DeadlineOf(j job.Job) time.Time { return j.AddedAt.Add(time.Hour) }

// PlanOf is what the runs of a job do.
func PlanOf(j job.Job) job.Plan {
	return job.Plan{Deadline: DeadlineOf(j), Hash: Digest("plan")}
}

// DirectiveOf is the go-ahead for a job.
func DirectiveOf(j job.Job) job.Directive {
	return job.Directive{ID: "dir_" + j.RequestID, Key: j.RequestID + "/result", ApprovedBy: "test"}
}

// EventFor is an event of a job that goes to its relays.
func EventFor(j job.Job, what string) job.OutEvent {
	return job.OutEvent{
		EventID: HexID("event %s %s", j.RequestID, what), Event: []byte(`{"what":"` + what + `"}`),
		RequestID: j.RequestID, Relays: j.Relays, Required: 1,
	}
}

// Held is the payment of a job that is not settled yet.
func Held(j job.Job) job.Payment {
	return job.Payment{Hash: j.PaymentHash, State: payments.InvoiceHeld, PaidMsats: j.PriceMsats, SettleBy: Start.Add(time.Hour), RecordedAt: Start}
}

// Settled is the payment of a job that is final.
func Settled(j job.Job) job.Payment {
	return job.Payment{Hash: j.PaymentHash, State: payments.InvoiceSettled, PaidMsats: j.PriceMsats, RecordedAt: Start}
}

// Arrived is the payment of a job as it comes in the job's mode.
func Arrived(j job.Job) job.Payment {
	if j.Mode == receipts.ModeHold {
		return Held(j)
	}
	return Settled(j)
}

// ResultOf is what a run of a job gives, and the bytes that it refers to.
func ResultOf(j job.Job, run int) (job.Result, [][]byte) {
	output, replay, artifact := []byte("output "+j.RequestID), []byte("replay "+j.RequestID), []byte("artifact")
	agreement := Digest("agreement")
	return job.Result{
		SessionID: fmt.Sprintf("sess-%s-%d", j.RequestID, run), Output: output, OutputHash: hashing.Bytes(output),
		AgreementHash: &agreement, PlanHash: Digest("plan"), Trajectory: Digest("trajectory"), Redacted: Digest("redacted"),
		Replay: hashing.Bytes(replay), EventID: HexID("6050 %s", j.RequestID), Event: []byte("6050 of " + j.RequestID),
		Artifacts: []hashing.Digest{hashing.Bytes(artifact)}, StartedAt: Start, FinishedAt: Start.Add(time.Second),
	}, [][]byte{replay, artifact}
}

// ShorterFor is the result's event again, in a shorter form.
func ShorterFor(j job.Job) job.OutEvent { return EventFor(j, "6050, shorter") }

// Issuer makes the receipt of a job's result.
func Issuer(j job.Job) func(job.Issue) (job.Issued, error) {
	return func(in job.Issue) (job.Issued, error) {
		return job.Issued{
			ReceiptID: "rcpt_" + j.RequestID,
			Receipt:   fmt.Appendf(nil, "receipt %d of %s after %v", in.Sequence, j.RequestID, in.Previous),
			Out:       []job.OutEvent{EventFor(j, "receipt")},
		}, nil
	}
}

// Step is one method of the store that moves a job.
type Step struct {
	Name string
	Do   func(ctx context.Context, s *sales.Store, j job.Job) error
}

// Steps are all of them, each as it is called for the job's mode.
func Steps() []Step {
	closing := func(to job.State) func(context.Context, *sales.Store, job.Job) error {
		return func(ctx context.Context, s *sales.Store, j job.Job) error {
			return s.Close(ctx, j.RequestID, to, job.Reason{Code: "code", Detail: "detail"}, nil, EventFor(j, string(to)))
		}
	}

	return []Step{
		{"invoice", func(ctx context.Context, s *sales.Store, j job.Job) error {
			return s.SetInvoice(ctx, j.RequestID, receipts.PurposeResult, "lnbc"+j.RequestID, payments.Hash{}, EventFor(j, "payment-required"))
		}},
		{"accept", func(ctx context.Context, s *sales.Store, j job.Job) error {
			return s.SetAcceptance(ctx, j.RequestID, receipts.PurposeResult, []byte("acceptance"))
		}},
		{"pay", func(ctx context.Context, s *sales.Store, j job.Job) error {
			return s.SetPaid(ctx, j.RequestID, Arrived(j), DirectiveOf(j), ThreadOf(j))
		}},
		{"start", func(ctx context.Context, s *sales.Store, j job.Job) error {
			_, err := s.Start(ctx, j.RequestID, nil, ThreadOf(j), PlanOf(j), EventFor(j, "processing"))
			return err
		}},
		{"start by policy", func(ctx context.Context, s *sales.Store, j job.Job) error {
			d := DirectiveOf(j)
			_, err := s.Start(ctx, j.RequestID, &d, ThreadOf(j), PlanOf(j), EventFor(j, "processing"))
			return err
		}},
		{"finish", func(ctx context.Context, s *sales.Store, j job.Job) error {
			r, contents := ResultOf(j, 1)
			return s.Finish(ctx, j.RequestID, 1, r, contents, EventFor(j, "6050"))
		}},
		{"reword", func(ctx context.Context, s *sales.Store, j job.Job) error {
			return s.SetResultEvent(ctx, j.RequestID, HexID("6050 %s", j.RequestID), ShorterFor(j).EventID, ShorterFor(j))
		}},
		{"settle", func(ctx context.Context, s *sales.Store, j job.Job) error {
			return s.Settle(ctx, j.RequestID, receipts.PurposeResult, Settled(j), Issuer(j))
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

// DoStep does the step of that name.
func DoStep(t testing.TB, s *sales.Store, j job.Job, name string) error {
	t.Helper()
	i := slices.IndexFunc(Steps(), func(s Step) bool { return s.Name == name })
	return Steps()[i].Do(context.Background(), s, j)
}

// PathTo lists the steps from nothing to a state.
func PathTo(mode receipts.Mode, state job.State) []string {
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

// ToState adds a job and takes it to a state.
func ToState(t testing.TB, s *sales.Store, j job.Job, state job.State) {
	t.Helper()
	if state == job.StateRefused {
		Must(t, s.Refuse(t.Context(), j.RequestID, j.Buyer, job.Reason{Code: "bid_too_low"}, EventFor(j, "refused")))
		return
	}
	Must(t, s.AddJob(t.Context(), j))
	for _, name := range PathTo(j.Mode, state) {
		if err := DoStep(t, s, j, name); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// AcksOf is an OK of its first relay for each queued event.
func AcksOf(t testing.TB, s *sales.Store) (acks []job.Ack) {
	t.Helper()
	pending, err := s.PendingEvents(t.Context(), time.Hour, 100)
	Must(t, err)
	for _, p := range pending {
		acks = append(acks, job.Ack{EventID: p.EventID, Relay: p.Relays[0], OK: true, At: Start})
	}
	return acks
}

// Allowed says which step leads where; what is not here must be refused. The
// steps that end an open job are added by the test.
func Allowed(mode receipts.Mode) map[job.State]map[string]job.State {
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

// CheckProvider holds what must be true of the tables at any time.
func CheckProvider(t testing.TB, k *DB) {
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
		if n := k.Count(t, query); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
	CheckTotals(t, k)
}

// ChosenJob adds a job whose quote names no payment hash, and the invoice with the hash
// that the wallet chose.
func ChosenJob(t *testing.T, s *sales.Store, name string, mode receipts.Mode, chosen payments.Hash) error {
	t.Helper()
	j := Job(name, mode)
	j.PaymentHash = payments.Hash{}
	if err := s.AddJob(t.Context(), j); err != nil {
		return err
	}
	return s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeResult, "lnbc"+j.RequestID, chosen, EventFor(j, "payment-required"))
}

// AddLate says that came msats are here for a job in all, of which owed are new.
func AddLate(t testing.TB, s *sales.Store, j job.Job, came, owed int64) {
	t.Helper()
	told := int64(0)
	got, err := s.AddLate(t.Context(), job.Credit{RequestID: j.RequestID, Buyer: j.Buyer, Msats: came}, func(msats int64) (job.OutEvent, error) {
		told = msats
		return EventFor(j, "late"), nil
	})
	if got != owed || told != owed || err != nil {
		t.Errorf("%d msats are new and %d told, want %d; %v", got, told, owed, err)
	}
}

// FailedAt is the end of an attempt to refund that failed.
func FailedAt(attempt int) job.RefundEnd {
	return job.RefundEnd{Attempt: attempt, State: payments.PaymentFailed, Reason: "no route"}
}
