package receipts

import (
	"fmt"

	"github.com/lightwork-market/lightwork/hashing"
)

// An engagement fee pays for an attempt, whatever its outcome. It has its own quote
// (PurposeEngagement, always prepaid) and is final before the work begins. Its receipt
// therefore binds the request, the quote, the payment and the policy, and its fields
// about the work are null.

// isEngagement reports whether the receipt is for an engagement fee.
func (r Receipt) isEngagement() bool { return r.Purpose == PurposeEngagement }

// PaidFor is the purpose of the payment.
func (r Receipt) PaidFor() Purpose {
	if r.isEngagement() {
		return PurposeEngagement
	}
	return PurposeResult
}

// feeReceipt is the JSON form of a receipt for an engagement fee: all fields are
// there, and those about the work are null.
type feeReceipt struct {
	Receipt
	SessionID              *string         `json:"session_id"`
	TrajectoryHash         *hashing.Digest `json:"trajectory_hash"`
	RedactedTrajectoryHash *hashing.Digest `json:"redacted_trajectory_hash"`
	ReplayHash             *hashing.Digest `json:"replay_hash"`
	PlanHash               *hashing.Digest `json:"plan_hash"`
	OutputHash             *hashing.Digest `json:"output_hash"`
	ResultEventID          *string         `json:"result_event_id"`
}

// work checks the fields about the work: all must be set, or none for an engagement
// fee.
func (c *checks) work(r Receipt) {
	if r.isEngagement() {
		none := r.SessionID == "" && r.ResultEventID == "" && r.AgreementHash == nil
		for _, d := range []hashing.Digest{r.TrajectoryHash, r.RedactedTrajectoryHash, r.ReplayHash, r.PlanHash, r.OutputHash} {
			none = none && d.IsZero()
		}
		c.that(none, "the receipt of an engagement fee names work")
		c.engagement(r.Purpose, r.Mode, r.Delivery)
		return
	}

	c.that(r.Purpose == "", "purpose is left out, or engagement")
	c.text("session_id", r.SessionID)
	c.digest("trajectory_hash", r.TrajectoryHash)
	c.digest("output_hash", r.OutputHash)
	c.digest("plan_hash", r.PlanHash)
	c.digest("replay_hash", r.ReplayHash)
	c.digest("redacted_trajectory_hash", r.RedactedTrajectoryHash)
	c.id("result_event_id", r.ResultEventID)
}

// engagement checks that a fee is prepaid and delivers nothing.
func (c *checks) engagement(p Purpose, m Mode, d Delivery) {
	c.that(p != PurposeEngagement || m == ModePrepay && d == DeliveryPlain, "an engagement fee is prepaid, with delivery plain")
}

// binds returns the result terms that a receipt binds. Those for an engagement fee
// contain only the quote's hash.
func (e Evidence) binds(quoteHash hashing.Digest) (ResultTerms, error) {
	q := e.Quote
	if q.Purpose == PurposeEngagement {
		if e.ResultEventID != "" || e.Result != (ResultTerms{}) {
			return ResultTerms{}, fmt.Errorf("%w: the receipt of an engagement fee names no result", ErrInvalid)
		}
		return ResultTerms{SchemaID: q.SchemaID, JobHash: q.JobHash, QuoteHash: quoteHash, PolicyBundleID: q.PolicyBundleID}, nil
	}

	return e.Result, firstMismatch(
		match("quote_hash", e.Result.QuoteHash, quoteHash),
		match("job_hash", e.Result.JobHash, q.JobHash),
		match("schema_id", e.Result.SchemaID, q.SchemaID),
		match("policy_bundle_id", e.Result.PolicyBundleID, q.PolicyBundleID),
	)
}

// resultsOf are the ids of result events for a receipt event's tags.
func (r Receipt) resultsOf() []string {
	if r.isEngagement() {
		return nil
	}
	return []string{r.ResultEventID}
}

// whyNoWork is the reason of the two claims about work.
const whyNoWork = "an engagement fee pays for the attempt, and is final before there is any"

// noWork is step 3.0 and 4.0. It reports whether the receipt is for an engagement fee
// and not for work. Files about work then contradict it, because no claim would cover
// them.
func (v *verifier) noWork(g grader, number, check string, files ...string) bool {
	if !v.receipt.isEngagement() {
		return false
	}

	for name := range v.bundle.Files() {
		for _, file := range files {
			if name == file {
				g.step(number, check, fmt.Errorf("%w: %s is in the bundle of an engagement fee", ErrMismatch, file))
				return true
			}
		}
	}

	if number == "3.0" && len(v.bundle.Artifacts) > 0 {
		g.step(number, check, fmt.Errorf("%w: artifacts are in the bundle of an engagement fee", ErrMismatch))
		return true
	}
	g.step(number, check, missing(whyNoWork))
	return true
}
