package receipts

import (
	"bytes"
	"fmt"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/replay"
)

// trajectory grades claim 4: the record of the work is complete and belongs to this job.
func (v *verifier) trajectory(g grader) {
	rec := v.receipt

	// 4.0
	if v.noWork(g, "4.0", "the receipt is for work that was recorded", FileReplay) {
		return
	}
	if v.bundle.Replay == nil {
		g.step("4.1", FileReplay+" is in the bundle and well-formed", missing("it is not in the bundle"))
		return
	}

	// 4.1
	s, err := replay.Check(bytes.NewReader(v.bundle.Replay), replay.Limits{})
	if err == nil && !s.IsCanonical {
		err = fmt.Errorf("%w: a line is not in canonical form", ErrInvalid)
	}
	if !g.step("4.1", FileReplay+" is in the bundle and well-formed", escapeError(err)) {
		return
	}

	// 4.2
	how := "the complete session"
	if s.IsRedacted {
		how = "a redacted session, by redacted_trajectory_hash: params and payloads are seen only as hashes"
		g.step("4.2", "its hashes are the receipt's", match("the redacted_trajectory_hash of "+FileReplay, s.Redacted, rec.RedactedTrajectoryHash))
	} else {
		g.step("4.2", "its hashes are the receipt's", firstMismatch(
			match("the trajectory_hash of "+FileReplay, s.Trajectory, rec.TrajectoryHash),
			match("the redacted_trajectory_hash of "+FileReplay, s.Redacted, rec.RedactedTrajectoryHash),
			match("the hash of "+FileReplay, s.Replay, rec.ReplayHash),
		))
	}

	// 4.3
	g.step("4.3", "session, policy, plan and output are the receipt's", firstMismatch(
		match("session_id", s.SessionID, rec.SessionID),
		match("policy_bundle_id", s.PolicyBundleID, rec.PolicyBundleID.String()),
		match("plan_hash", digestOrNull(s.Plan), rec.PlanHash.String()),
		match("output_hash of the last ToolResult", digestOrNull(s.Output), rec.OutputHash.String()),
	))

	// 4.4
	g.step("4.4", "what it says of the payment is the receipt's", v.replayPayment(s))
	reason := fmt.Sprintf("%s, %d tool calls, ended %s", how, s.ToolCalls, s.Status)
	if rec.Mode == ModePostpay {
		reason += "; " + postpayNote
	}
	g.prove(reason)
}

func digestOrNull(d *hashing.Digest) string {
	if d == nil {
		return "null"
	}
	return d.String()
}

// replayPayment checks the payment lines of the record. A job that is paid first records
// its payment once, before any work; a job that is paid afterwards records none.
func (v *verifier) replayPayment(s *replay.Summary) error {
	rec, lines := v.receipt, s.Payments
	want := map[Mode]string{ModeHold: replay.PaymentHeld, ModePrepay: replay.PaymentReceived}[rec.Mode]
	if want == "" {
		if len(lines) > 0 {
			return fmt.Errorf("%w: a payment in mode %s", ErrMismatch, rec.Mode)
		}
		return nil
	}
	if len(lines) != 1 {
		return fmt.Errorf("%w: %d payments in mode %s, not one", ErrMismatch, len(lines), rec.Mode)
	}
	if !s.PaidFirst {
		return fmt.Errorf("%w: work began before the payment in mode %s", ErrMismatch, rec.Mode)
	}

	p := lines[0]
	return firstMismatch(
		match("job_hash", digestOrNull(p.JobHash), rec.JobHash.String()),
		match("rail", payments.Rail(p.Rail), rec.Rail),
		match("asset_id", p.AssetID, rec.AssetID),
		match("amount_msats", p.AmountMsats, rec.AmountMsats),
		match("status", p.Status, want),
		match("payment_proof", string(p.PaymentProof), "null"),
	)
}
