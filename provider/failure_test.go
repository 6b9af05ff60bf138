package provider_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/faults"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

type runFunc = func(context.Context, provider.Run) (provider.Outcome, error)

// breaks says how a run can go wrong, and what the buyer is told.
func breaks(r *runner) map[string]struct {
	do    runFunc
	input string // more members of the order
	want  provider.Code
} {
	changed := func(change func(*schemas.SandboxRunResult)) runFunc {
		return func(context.Context, provider.Run) (provider.Outcome, error) { return r.good(change) }
	}
	fails := func(err error) runFunc {
		return func(context.Context, provider.Run) (provider.Outcome, error) { return provider.Outcome{}, err }
	}
	return map[string]struct {
		do    runFunc
		input string
		want  provider.Code
	}{
		"agent fails": {do: fails(&provider.RunError{Reason: provider.Reason{Code: provider.CodeAgentFailed, Detail: "as told"}}), want: provider.CodeAgentFailed},
		"node fails":  {do: fails(errors.New("secret path /var/x")), want: provider.CodeInternal},
		"no source":   {do: fails(&provider.RunError{Reason: provider.Reason{Code: provider.CodeInvalidInput, Detail: "repo.source"}}), want: provider.CodeInvalidInput},
		"own timeout": {do: fails(context.DeadlineExceeded), want: provider.CodeDeadline},
		"not JSON": {do: func(context.Context, provider.Run) (provider.Outcome, error) {
			return provider.Outcome{Output: []byte("garbage")}, nil
		}, want: provider.CodeInvalidOutput},
		"no output": {do: func(context.Context, provider.Run) (provider.Outcome, error) {
			return provider.Outcome{}, nil
		}, want: provider.CodeInvalidOutput},
		"the journal has another call": {do: func(context.Context, provider.Run) (provider.Outcome, error) {
			out, err := r.good(nil)
			out.Call = &provider.Call{Asked: time.Now(), Answered: time.Now(), Params: hashing.Bytes([]byte("other")), Output: hashing.Bytes(out.Output)}
			return out, err
		}, want: provider.CodeInternal},
		"another command": {do: changed(func(res *schemas.SandboxRunResult) { res.Runs[0].Cmd = "rm -rf" }), want: provider.CodeInvalidOutput},
		"another image": {do: changed(func(res *schemas.SandboxRunResult) {
			res.EnvInfo.ImageDigest = hashing.Bytes(nil)
		}), want: provider.CodeInvalidOutput},
		"success without success": {do: changed(func(res *schemas.SandboxRunResult) { res.Runs[0].ExitCode = 1 }), want: provider.CodeInvalidOutput},
		"artifact missing": {do: func(context.Context, provider.Run) (provider.Outcome, error) {
			out, err := r.good(nil)
			out.Artifacts = nil
			return out, err
		}, want: provider.CodeInvalidOutput},
		"sandbox broke": {do: changed(func(res *schemas.SandboxRunResult) {
			res.Runs, res.Artifacts, res.Status, res.Error = []schemas.SandboxRunInfo{}, []schemas.SandboxArtifact{}, schemas.StatusError, "no cgroup"
		}), want: provider.CodeStopped},
		"too much output": {do: changed(func(res *schemas.SandboxRunResult) {
			res.Runs[0].ExitCode, res.Artifacts, res.Status, res.Error = 137, []schemas.SandboxArtifact{}, schemas.StatusError, "output_limit"
		}), want: provider.CodeStopped},
		"not what was expected": {
			do: changed(nil), input: `,"verification":{"expected":{"exit_codes":[3]}}`, want: provider.CodeExpectationNotMet,
		},
	}
}

// heard is the code that a buyer reads of a job that ended so once a run had begun.
func heard(code provider.Code) provider.Code {
	switch code {
	case provider.CodeCanceled, provider.CodeDeadline, provider.CodeStopped, provider.CodeExpectationNotMet, provider.CodeUnpaid:
		return code
	case provider.CodePaymentLost:
		return provider.CodeUnpaid
	}
	return provider.CodeAgentFailed
}

// TestFailedRunIsNotCharged: in hold the payment comes back whole, in prepay it
// is recorded as owed; no result, no receipt.
func TestFailedRunIsNotCharged(t *testing.T) {
	requirements.Covers(t, "K-47")
	for name := range breaks(nil) {
		for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePostpay} {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				tt := breaks(w.runner)[name]
				w.runner.do = tt.do
				w.serve(t, nil)
				c := w.customer(t, nil)
				p := w.follow(t, c, w.place(t, c, mode, order(tt.input)).RequestID, nil).failed(t, heard(tt.want))
				w.unsold(t, c, p, tt.want)
				w.moved(t, c.party, 0, 0)
				if strings.Contains(p.Reason, "secret") {
					t.Errorf("the buyer was told %q", p.Reason)
				}
			})
		}
	}
}

// unsold checks what a job that failed leaves on both sides.
func (w *world) unsold(t *testing.T, c *customer, p buyer.Purchase, want provider.Code) {
	t.Helper()
	job := w.await(t, p.RequestID, provider.StateFailed, provider.StateCanceled)
	if job.Reason.Code != want || job.Receipt != nil || job.Result != nil || p.Output != nil {
		t.Errorf("job failed for %s, want %s; receipt %s, output %s", job.Reason, want, job.Receipt, p.Output)
	}
	budget := w.budget(t, c.store)
	if spent := faucetMsats - w.balance(t, c.party); budget.ReservedMsats != 0 || budget.SpentMsats != spent {
		t.Errorf("budget: %d msats spent, %d reserved; the wallet spent %d", budget.SpentMsats, budget.ReservedMsats, spent)
	}
}

// TestFailedPrepaidJobIsOwed: the debt is recorded with where it should go.
func TestFailedPrepaidJobIsOwed(t *testing.T) {
	requirements.Covers(t, "K-48")
	w := newWorld(t)
	w.runner.do = breaks(w.runner)["agent fails"].do
	w.serve(t, nil)
	c := w.customer(t, nil)
	p := w.follow(t, c, w.place(t, c, receipts.ModePrepay, order("")).RequestID, nil).failed(t, provider.CodeAgentFailed)
	w.unsold(t, c, p, provider.CodeAgentFailed)
	w.moved(t, c.party, rateMsats, rateMsats+feeMsats)
	if !strings.Contains(p.Reason, "21000 msats are owed") {
		t.Errorf("the buyer was told %q", p.Reason)
	}
	if got := w.store.credits; len(got) != 1 || got[0].Msats != rateMsats || got[0].Buyer != c.key.PublicKey() || got[0].RequestID != p.RequestID {
		t.Errorf("credits %+v", got)
	}
}

// TestPrepayErrorBeforeTheWalletSpeaks: the provider's last word may be here
// before our own wallet's; the purchase ends all the same.
func TestPrepayErrorBeforeTheWalletSpeaks(t *testing.T) {
	w := newWorld(t)
	w.runner.do = breaks(w.runner)["agent fails"].do
	w.serve(t, nil)
	c := w.customer(t, nil)
	heard := make(chan struct{})
	c.client = c.open(t, func(cfg *buyer.Config) {
		cfg.Wallet = &gated{Client: c.wallet, beforeTrack: func() { <-heard }}
	})
	p := w.place(t, c, receipts.ModePrepay, order(""))
	w.follow(t, c, p.RequestID, func(pr buyer.Progress) {
		if pr.What == "error" {
			close(heard)
		}
	}).failed(t, provider.CodeAgentFailed)
}

// TestRetryableFailure: the agent is tried again, as often as the limit says.
func TestRetryableFailure(t *testing.T) {
	for _, tt := range []struct{ bad, runs int }{{1, 2}, {9, 2}} {
		w := newWorld(t)
		w.runner.do = func(context.Context, provider.Run) (provider.Outcome, error) {
			if w.runner.count() <= tt.bad {
				return provider.Outcome{}, &provider.RunError{Reason: provider.Reason{Code: provider.CodeAgentUnavailable}, Retryable: true}
			}
			return w.runner.good(nil)
		}
		w.serve(t, func(cfg *provider.Config) { cfg.Limits.Runs = 2 })
		c := w.customer(t, nil)
		f := w.follow(t, c, w.place(t, c, receipts.ModeHold, order("")).RequestID, nil)
		if tt.bad < tt.runs {
			w.sold(t, c, f, receipts.ModeHold)
		} else {
			f.failed(t, heard(provider.CodeAgentUnavailable))
			w.moved(t, c.party, 0, 0)
		}
		if got := w.runner.count(); got != tt.runs {
			t.Errorf("%d runs, want %d", got, tt.runs)
		}
	}
}

// TestHoldDeadlines: money that cannot be held long enough, or would be lost
// while the run goes on, is given back in time.
func TestHoldDeadlines(t *testing.T) {
	const hold = time.Hour // of the ledger
	for name, tt := range map[string]struct {
		margin time.Duration
		do     runFunc
	}{
		"too short to begin": {hold - 20*time.Second, nil},
		"while it runs":      {hold - 12*time.Second, hang},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.runner.do = tt.do
			w.serve(t, func(cfg *provider.Config) { cfg.Limits.HoldMargin = tt.margin })
			c := w.customer(t, nil)
			input := order("")
			if tt.do != nil {
				input = []byte(strings.Replace(string(input), `"timeout_secs":30`, `"timeout_secs":1`, 1))
			}
			p := w.follow(t, c, w.place(t, c, receipts.ModeHold, input).RequestID, nil).failed(t, provider.CodeDeadline)
			w.unsold(t, c, p, provider.CodeDeadline)
			w.moved(t, c.party, 0, 0)
			if ran := w.runner.count() > 0; ran != (tt.do != nil) {
				t.Errorf("ran: %v", ran)
			}
		})
	}
}

// TestUnpaidQuoteLapses: the invoice is cancelled, nothing runs, and a buyer
// that comes too late fails without loss.
func TestUnpaidQuoteLapses(t *testing.T) {
	w := newWorld(t)
	w.serve(t, func(cfg *provider.Config) { cfg.Limits.QuoteTTL = 2 * time.Second })
	c := w.customer(t, nil)
	gate := make(chan struct{})
	c.client = c.open(t, func(cfg *buyer.Config) { cfg.Wallet = &gated{Client: c.wallet, beforeSend: func() { <-gate }} })
	f := w.follow(t, c, w.place(t, c, receipts.ModeHold, order("")).RequestID, nil)
	for !w.lapsed(t) {
		<-w.store.changed()
	}
	close(gate)
	f.failed(t, "")
	w.moved(t, c.party, 0, 0)
	if w.runner.count() != 0 {
		t.Error("an unpaid job ran")
	}
}

func (w *world) lapsed(t *testing.T) bool {
	t.Helper()
	jobs, err := w.store.Jobs(w.ctx, 0)
	check(t, err)
	return len(jobs) == 1 && jobs[0].State == provider.StateExpired
}

// TestUnpaidPostpayEnds: the result was given away, the job ends unpaid.
func TestUnpaidPostpayEnds(t *testing.T) {
	w := newWorld(t)
	w.serve(t, func(cfg *provider.Config) { cfg.Limits.PostpayTTL = 2 * time.Second })
	c := w.customer(t, nil)
	ev := w.request(t, c.key, order(""), nostr.Tag{"param", "payment_mode", "postpay"})
	check(t, c.market.Send(w.ctx, ev))
	job := w.await(t, ev.ID, provider.StateQuoted, provider.StateRunning, provider.StateDelivering)
	for !job.State.Terminal() {
		change := w.store.changed()
		var err error
		job, err = w.store.Job(w.ctx, ev.ID)
		check(t, err)
		if !job.State.Terminal() {
			<-change
		}
	}
	if job.State != provider.StateFailed || job.Reason.Code != provider.CodeUnpaid || job.Result == nil || job.Receipt != nil {
		t.Errorf("job %s (%s)", job.State, job.Reason)
	}
}

// TestResultNeedsItsBlobs: while no blob server takes what the result names,
// the result is not published and the held money not taken.
func TestResultNeedsItsBlobs(t *testing.T) {
	w := newWorld(t)
	tried := make(chan struct{}, 100)
	stop := w.serve(t, func(cfg *provider.Config) { cfg.Market = noBlobs{cfg.Market, tried} })
	c := w.customer(t, nil)
	p := w.place(t, c, receipts.ModeHold, order(""))
	f := w.follow(t, c, p.RequestID, nil)
	job := w.await(t, p.RequestID, provider.StateDelivering)
	<-tried
	stop()
	if n, err := w.store.Confirmed(w.ctx, job.Result.EventID); err != nil || n != 0 {
		t.Errorf("%d relays have the result, %v", n, err)
	}
	if got := w.balance(t, w.seller); got != faucetMsats {
		t.Errorf("the provider has %d msats", got)
	}
	w.serve(t, nil)
	w.sold(t, c, f, receipts.ModeHold)
}

// TestWalletTrouble: answers that are lost after the wallet did what was asked,
// and a wallet that is away for a moment, change nothing.
func TestWalletTrouble(t *testing.T) {
	for _, fault := range []faults.Fault{
		{Method: playnet.MethodCreateInvoice, Kind: faults.DropAfter},
		{Method: playnet.MethodLookupInvoice, Kind: faults.Refuse},
		{Method: playnet.MethodSettleInvoice, Kind: faults.DropAfter},
		{Method: playnet.MethodSettleInvoice, Kind: faults.Refuse},
		{Method: playnet.MethodSendPayment, Kind: faults.DropAfter},
		{Method: playnet.MethodSendPayment, Kind: faults.Refuse},
		{Method: playnet.MethodLookupPayment, Kind: faults.Refuse},
		{Method: playnet.MethodTrackPayment, Kind: faults.DropAfter},
	} {
		t.Run(fmt.Sprint(fault.Method, fault.Kind), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.bank.Script(fault)
			w.serve(t, nil)
			c := w.customer(t, nil)
			w.sold(t, c, w.follow(t, c, w.place(t, c, receipts.ModeHold, order("")).RequestID, nil), receipts.ModeHold)
		})
	}
}
