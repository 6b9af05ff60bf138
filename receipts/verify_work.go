package receipts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/replay"
	"github.com/lightwork-market/lightwork/schemas"
)

// result: 3. The result is what the provider delivered for this job.
func (v *verifier) result(g grader) {
	rec := v.receipt
	// 3.1, 3.2
	ev := g.event("3.1", "3.2", FileResultEvent, v.bundle.ResultEvent)
	if ev == nil {
		return
	}
	// 3.3, 3.4
	g.step("3.3", "its id is result_event_id", match("id", ev.ID, rec.ResultEventID))
	var commitment *hashing.Digest
	if rec.Delivery == DeliverySealed {
		if v.bundle.Seal == nil {
			g.step("3.4", "the event commits to "+FileSeal, lacking("it is not in the bundle"))
			return
		}
		sum := hashing.Bytes(v.bundle.Seal)
		commitment = &sum
	}
	g.step("3.4", "author, kind and tags are those of this job and this receipt",
		CheckResultEvent(*ev, v.provider, v.buyer, rec.RequestEventID, v.requestKind, rec.resultTerms(commitment)))
	// 3.5
	switch {
	case len(ev.Values("encrypted")) > 0:
		g.step("3.5", "the result was delivered in the clear", lacking("this verifier opens no encrypted result"))
		return
	case commitment != nil:
		g.step("3.5", "what the event commits to is what the receipt says", v.sealed())
	default:
		g.step("3.5", "the result was delivered in the clear", v.unsealed())
	}
	// 3.6 to 3.12
	result := v.resultDocument(g, ev.Content)
	if result == nil {
		return
	}
	v.artifacts(g, result)
	// 3.13
	g.step("3.13", "it was signed before the settlement", v.beforeSettlement(time.Unix(ev.CreatedAt, 0)))
	reason := "valid under " + rec.SchemaID + ", delivered and hashed as the receipt says"
	if run, ok := result.Value.(*schemas.SandboxRunResult); ok {
		reason += "; its status is " + string(run.Status)
	}
	g.prove(reason)
}

// sealed holds SEAL.json, whose hash the result event commits to, against the
// receipt and the files of the bundle.
func (v *verifier) sealed() error {
	s, err := ParseSeal(v.bundle.Seal)
	if err != nil {
		return err
	}
	rec := v.receipt
	return firstMismatch(
		match("output_hash", s.OutputHash.String(), rec.OutputHash.String()),
		match("agreement_hash", digestOrNull(s.AgreementHash), digestOrNull(rec.AgreementHash)),
		match("plan_hash", s.PlanHash.String(), rec.PlanHash.String()),
		match("trajectory_hash", s.TrajectoryHash.String(), rec.TrajectoryHash.String()),
		match("redacted_trajectory_hash", s.RedactedTrajectoryHash.String(), rec.RedactedTrajectoryHash.String()),
		match("replay_hash", s.ReplayHash.String(), rec.ReplayHash.String()),
	)
}

// unsealed refuses a file that no claim would cover.
func (v *verifier) unsealed() error {
	if v.bundle.Seal != nil {
		return fmt.Errorf("%w: %s beside a result that was not sealed", ErrMismatch, FileSeal)
	}
	return nil
}

// answered holds a result against its request, and against what the request
// wanted it to be before it is paid for.
func answered(request *schemas.Request, result *schemas.Result) error {
	if err := request.CheckResult(result); err != nil {
		return err
	}
	asked, ok := request.Value.(*schemas.SandboxRunRequest)
	if !ok {
		return nil
	}
	run, ok := result.Value.(*schemas.SandboxRunResult)
	if !ok {
		return nil
	}
	if met, why := asked.ExpectationMet(run); !met {
		return errors.New("not what is paid for: " + why)
	}
	return nil
}

// resultDocument takes RESULT.json through steps 3.6 to 3.10.
func (v *verifier) resultDocument(g grader, content string) *schemas.Result {
	doc := v.bundle.Result
	if doc == nil {
		g.step("3.6", FileResult+" is in the bundle", lacking("it is not"))
		return nil
	}
	// 3.6
	var err error
	if content != "" && content != string(doc) {
		err = fmt.Errorf("%w: it differs from the event's content", ErrMismatch)
	}
	g.step("3.6", FileResult+" is in the bundle and is what the event carries", err)
	// 3.7
	schema, known := schemas.Lookup(v.receipt.SchemaID)
	if !known {
		g.step("3.7", "it is valid under its schema", lacking("this verifier does not know the schema "+quoted(v.receipt.SchemaID)))
		return nil
	}
	result, err := schema.ParseResult(doc)
	if err == nil && !bytes.Equal(result.Canonical, doc) {
		err = errors.New("not in canonical form")
	}
	if !g.step("3.7", "it is valid under its schema", escaped(err)) {
		return nil
	}
	// 3.8
	g.step("3.8", "its hash is output_hash", match("output_hash", result.OutputHash.String(), v.receipt.OutputHash.String()))
	// 3.9
	g.step("3.9", "its agreement hash is agreement_hash, and its provenance the provider", firstMismatch(
		v.agreement(result), match("provenance.provider_pubkey", provenanceKey(doc), v.provider)))
	// 3.10
	if v.request == nil {
		g.step("3.10", "it answers the request", lacking("there is no proved request to hold it against"))
		return result
	}
	g.step("3.10", "it answers the request, and is what it expects where it expects something", escaped(answered(v.request, result)))
	return result
}

func (v *verifier) agreement(result *schemas.Result) error {
	want := v.receipt.AgreementHash
	got, err := result.AgreementHash()
	switch {
	case want == nil:
		return nil // nothing is claimed
	case err != nil:
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	return match("agreement_hash", got.String(), want.String())
}

// provenanceKey reads the one provenance field that all result types share;
// the document has passed its schema.
func provenanceKey(doc []byte) string {
	var result struct {
		Provenance struct {
			Key string `json:"provider_pubkey"`
		} `json:"provenance"`
	}
	if err := json.Unmarshal(doc, &result); err != nil {
		return ""
	}
	return result.Provenance.Key
}

// artifacts takes the files beside the result through steps 3.11 and 3.12.
func (v *verifier) artifacts(g grader, result *schemas.Result) {
	listed := map[string]schemas.SandboxArtifact{}
	summaries := map[string]bool{}
	if run, ok := result.Value.(*schemas.SandboxRunResult); ok {
		for _, a := range run.Artifacts {
			if other, twice := listed[a.SHA256.Hex()]; twice && other.SizeBytes != a.SizeBytes {
				g.step("3.11", "the artifacts are those that the result lists", fmt.Errorf("%w: one hash with two sizes", ErrMismatch))
			}
			listed[a.SHA256.Hex()] = a
			summaries[a.SHA256.Hex()] = summaries[a.SHA256.Hex()] || path.Base(a.Path) == FilePRSummary
		}
	}
	// 3.11
	g.step("3.11", "the artifacts are those that the result lists", v.artifactsError(listed))
	// 3.12
	if v.bundle.PRSummary != nil {
		var err error
		if !summaries[hashing.Bytes(v.bundle.PRSummary).Hex()] {
			err = fmt.Errorf("%w: no artifact of that name has this content", ErrMismatch)
		}
		g.step("3.12", FilePRSummary+" is an artifact of the result", err)
	}
}

// artifactsError prefers a contradiction to a lack.
func (v *verifier) artifactsError(listed map[string]schemas.SandboxArtifact) error {
	for hash, data := range v.bundle.Artifacts {
		a, ok := listed[hash]
		switch {
		case !ok:
			return fmt.Errorf("%w: the result does not list artifact %s", ErrMismatch, quoted(hash))
		case hashing.Bytes(data) != a.SHA256:
			return fmt.Errorf("%w: artifact %s has other content", ErrMismatch, hash)
		case int64(len(data)) != a.SizeBytes:
			return fmt.Errorf("%w: artifact %s has %d bytes, the result says %d", ErrMismatch, hash, len(data), a.SizeBytes)
		}
	}
	var absent []string
	for hash, a := range listed {
		if _, ok := v.bundle.Artifacts[hash]; !ok {
			absent = append(absent, quoted(a.Path))
		}
	}
	if len(absent) > 0 {
		// The least name, so that the report does not depend on map order.
		return lacking(fmt.Sprintf("%d of %d are not in the bundle, such as %s", len(absent), len(listed), slices.Min(absent)))
	}
	return nil
}

// trajectory: 4. The record of the work is complete and is this job's.
func (v *verifier) trajectory(g grader) {
	rec := v.receipt
	if v.bundle.Replay == nil {
		g.step("4.1", FileReplay+" is in the bundle and well-formed", lacking("it is not in the bundle"))
		return
	}
	// 4.1
	s, err := replay.Check(bytes.NewReader(v.bundle.Replay), replay.Limits{})
	if !g.step("4.1", FileReplay+" is in the bundle and well-formed", escaped(err)) {
		return
	}
	// 4.2
	how := "the complete session"
	if s.IsRedacted {
		how = "a redacted session, by redacted_trajectory_hash: params and payloads are seen only as hashes"
		g.step("4.2", "its hashes are the receipt's", match("redacted_trajectory_hash", s.Redacted.String(), rec.RedactedTrajectoryHash.String()))
	} else {
		g.step("4.2", "its hashes are the receipt's", firstMismatch(
			match("trajectory_hash", s.Trajectory.String(), rec.TrajectoryHash.String()),
			match("redacted_trajectory_hash", s.Redacted.String(), rec.RedactedTrajectoryHash.String()),
			match("replay_hash", s.Replay.String(), rec.ReplayHash.String()),
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

// replayPayment: a session that is paid first says so once, and how, before any
// work; one that is paid afterwards cannot know.
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
		match("rail", p.Rail, rec.Rail),
		match("asset_id", p.AssetID, rec.AssetID),
		match("amount_msats", fmt.Sprint(p.AmountMsats), fmt.Sprint(rec.AmountMsats)),
		match("status", p.Status, want),
		match("payment_proof", string(p.PaymentProof), "null"),
	)
}
