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
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

type runFunc = func(context.Context, provider.Run) (provider.Outcome, error)

// breaks says how a run can go wrong, and what the buyer is told.
func breaks(r *markettest.Runner) map[string]struct {
	do    runFunc
	input string // more members of the order
	want  provider.Code
} {
	changed := func(change func(*schemas.SandboxRunResult)) runFunc {
		return func(context.Context, provider.Run) (provider.Outcome, error) { return r.Good(change) }
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
			out, err := r.Good(nil)
			out.Call = &provider.Call{Asked: time.Now(), Answered: time.Now(), Params: hashing.Bytes([]byte("other")), Output: hashing.Bytes(out.Output)}
			return out, err
		}, want: provider.CodeInternal},
		"another command": {do: changed(func(res *schemas.SandboxRunResult) { res.Runs[0].Cmd = "rm -rf" }), want: provider.CodeInvalidOutput},
		"another image": {do: changed(func(res *schemas.SandboxRunResult) {
			res.EnvInfo.ImageDigest = hashing.Bytes(nil)
		}), want: provider.CodeInvalidOutput},
		"success without success": {do: changed(func(res *schemas.SandboxRunResult) { res.Runs[0].ExitCode = 1 }), want: provider.CodeInvalidOutput},
		"artifact missing": {do: func(context.Context, provider.Run) (provider.Outcome, error) {
			out, err := r.Good(nil)
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
				w := markettest.New(t)
				tt := breaks(w.Runner)[name]
				w.Runner.Do = tt.do
				w.Serve(t, nil)
				c := w.NewCustomer(t, nil)
				p := w.Follow(t, c, w.Place(t, c, mode, markettest.SandboxInput(tt.input)).RequestID, nil).Failed(t, heard(tt.want))
				w.Unsold(t, c, p, tt.want)
				w.Moved(t, c.Party, 0, 0)
				if strings.Contains(p.Reason, "secret") {
					t.Errorf("the buyer was told %q", p.Reason)
				}
			})
		}
	}
}

// TestFailedPrepaidJobIsOwed: the debt is recorded with where it should go.
func TestFailedPrepaidJobIsOwed(t *testing.T) {
	requirements.Covers(t, "K-48")
	w := markettest.New(t)
	w.Runner.Do = breaks(w.Runner)["agent fails"].do
	w.Serve(t, nil)
	c := w.NewCustomer(t, nil)
	p := w.Follow(t, c, w.Place(t, c, receipts.ModePrepay, markettest.SandboxInput("")).RequestID, nil).Failed(t, provider.CodeAgentFailed)
	w.Unsold(t, c, p, provider.CodeAgentFailed)
	w.Moved(t, c.Party, markettest.RateMsats, markettest.RateMsats+markettest.FeeMsats)
	if !strings.Contains(p.Reason, "21000 msats are owed") {
		t.Errorf("the buyer was told %q", p.Reason)
	}
	if got := w.Store.Owed(); len(got) != 1 || got[0].Msats != markettest.RateMsats || got[0].Buyer != c.Key.PublicKey() || got[0].RequestID != p.RequestID {
		t.Errorf("credits %+v", got)
	}
}

// TestPrepayErrorBeforeTheWalletSpeaks: the provider's last word may be here
// before our own wallet's; the purchase ends all the same.
func TestPrepayErrorBeforeTheWalletSpeaks(t *testing.T) {
	w := markettest.New(t)
	w.Runner.Do = breaks(w.Runner)["agent fails"].do
	w.Serve(t, nil)
	c := w.NewCustomer(t, nil)
	heard := make(chan struct{})
	c.Client = c.Open(t, func(cfg *buyer.Config) {
		cfg.Wallet = &markettest.GatedWallet{Client: c.Wallet, BeforeTrack: func() { <-heard }}
	})
	p := w.Place(t, c, receipts.ModePrepay, markettest.SandboxInput(""))
	w.Follow(t, c, p.RequestID, func(pr buyer.Progress) {
		if pr.What == "error" {
			close(heard)
		}
	}).Failed(t, provider.CodeAgentFailed)
}

// TestRetryableFailure: the agent is tried again, as often as the limit says.
func TestRetryableFailure(t *testing.T) {
	for _, tt := range []struct{ bad, runs int }{{1, 2}, {9, 2}} {
		w := markettest.New(t)
		w.Runner.Do = func(context.Context, provider.Run) (provider.Outcome, error) {
			if w.Runner.Count() <= tt.bad {
				return provider.Outcome{}, &provider.RunError{Reason: provider.Reason{Code: provider.CodeAgentUnavailable}, Retryable: true}
			}
			return w.Runner.Good(nil)
		}
		w.Serve(t, func(cfg *provider.Config) { cfg.Limits.Runs = 2 })
		c := w.NewCustomer(t, nil)
		f := w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil)
		if tt.bad < tt.runs {
			w.Sold(t, c, f, receipts.ModeHold)
		} else {
			f.Failed(t, heard(provider.CodeAgentUnavailable))
			w.Moved(t, c.Party, 0, 0)
		}
		if got := w.Runner.Count(); got != tt.runs {
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
		"while it runs":      {hold - 12*time.Second, markettest.Hang},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			w.Runner.Do = tt.do
			w.Serve(t, func(cfg *provider.Config) { cfg.Limits.HoldMargin = tt.margin })
			c := w.NewCustomer(t, nil)
			input := markettest.SandboxInput("")
			if tt.do != nil {
				input = []byte(strings.Replace(string(input), `"timeout_secs":30`, `"timeout_secs":1`, 1))
			}
			p := w.Follow(t, c, w.Place(t, c, receipts.ModeHold, input).RequestID, nil).Failed(t, provider.CodeDeadline)
			w.Unsold(t, c, p, provider.CodeDeadline)
			w.Moved(t, c.Party, 0, 0)
			if ran := w.Runner.Count() > 0; ran != (tt.do != nil) {
				t.Errorf("ran: %v", ran)
			}
		})
	}
}

// TestUnpaidQuoteLapses: the invoice is cancelled, nothing runs, and a buyer
// that comes too late fails without loss.
func TestUnpaidQuoteLapses(t *testing.T) {
	w := markettest.New(t)
	w.Serve(t, func(cfg *provider.Config) { cfg.Limits.QuoteTTL = 2 * time.Second })
	c := w.NewCustomer(t, nil)
	gate := make(chan struct{})
	c.Client = c.Open(t, func(cfg *buyer.Config) {
		cfg.Wallet = &markettest.GatedWallet{Client: c.Wallet, BeforeSend: func() { <-gate }}
	})
	f := w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil)
	for !lapsed(t, w) {
		<-w.Store.Changed()
	}
	close(gate)
	f.Failed(t, "")
	w.Moved(t, c.Party, 0, 0)
	if w.Runner.Count() != 0 {
		t.Error("an unpaid job ran")
	}
}

func lapsed(t *testing.T, w *markettest.World) bool {
	t.Helper()
	jobs, err := w.Store.Jobs(w.Ctx, 0)
	markettest.Check(t, err)
	return len(jobs) == 1 && jobs[0].State == provider.StateExpired
}

// TestUnpaidPostpayEnds: the result was given away, the job ends unpaid.
func TestUnpaidPostpayEnds(t *testing.T) {
	w := markettest.New(t)
	w.Serve(t, func(cfg *provider.Config) { cfg.Limits.PostpayTTL = 2 * time.Second })
	c := w.NewCustomer(t, nil)
	ev := w.Request(t, c.Key, markettest.SandboxInput(""), nostr.Tag{"param", "payment_mode", "postpay"})
	markettest.Check(t, c.Market.Send(w.Ctx, ev))
	job := w.Await(t, ev.ID, provider.StateQuoted, provider.StateRunning, provider.StateDelivering)
	for !job.State.Terminal() {
		change := w.Store.Changed()
		var err error
		job, err = w.Store.Job(w.Ctx, ev.ID)
		markettest.Check(t, err)
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
	w := markettest.New(t)
	tried := make(chan struct{}, 100)
	stop := w.Serve(t, func(cfg *provider.Config) { cfg.Market = markettest.NoBlobs{Market: cfg.Market, Tried: tried} })
	c := w.NewCustomer(t, nil)
	p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
	f := w.Follow(t, c, p.RequestID, nil)
	job := w.Await(t, p.RequestID, provider.StateDelivering)
	<-tried
	stop()
	if n, err := w.Store.Confirmed(w.Ctx, job.Result.EventID); err != nil || n != 0 {
		t.Errorf("%d relays have the result, %v", n, err)
	}
	if got := w.Balance(t, w.Seller); got != markettest.FaucetMsats {
		t.Errorf("the provider has %d msats", got)
	}
	w.Serve(t, nil)
	w.Sold(t, c, f, receipts.ModeHold)
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
			w := markettest.New(t)
			w.Bank.Script(fault)
			w.Serve(t, nil)
			c := w.NewCustomer(t, nil)
			w.Sold(t, c, w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil), receipts.ModeHold)
		})
	}
}
