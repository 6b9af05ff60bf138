package receipts

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/replay"
	"github.com/lightwork-market/lightwork/schemas"
)

// result grades claim 3: the result is what the provider delivered for this job.
func (v *verifier) result(g grader) {
	// 3.0
	if v.noWork(g, "3.0", "the receipt is for a result", FileResultEvent, FileResult, FileSeal, FilePRSummary) {
		return
	}

	// 3.1, 3.2
	ev := g.event("3.1", "3.2", FileResultEvent, v.bundle.ResultEvent, requireDomain(domain.Result))
	if ev != nil {
		// 3.3 to 3.5
		g.step("3.3", "its id is result_event_id", match("id", ev.ID, v.receipt.ResultEventID))
		g.step("3.4", "author, kind and tags are those of this job and this receipt", v.resultTags(*ev))
		g.step("3.5", "it was delivered as the receipt says", v.checkDelivery(*ev))
	}

	// 3.6
	var result *schemas.Result
	if g.step("3.6", FileResult+" is in the bundle and is what the event carries", v.checkContent(ev)) {
		// 3.7 to 3.12
		result = v.resultDocument(g)
	}

	// 3.13
	if ev != nil {
		g.step("3.13", "it was signed before the settlement", v.checkBeforeSettlement(time.Unix(ev.CreatedAt, 0)))
	}
	reason := "valid under " + v.receipt.SchemaID + ", delivered and hashed as the receipt says"
	if result != nil {
		if run, ok := result.Value.(*schemas.SandboxRunResult); ok {
			reason += "; its status is " + string(run.Status)
		}
	}

	g.prove(reason)
}

// resultTags is step 3.4. If a sealed result comes without SEAL.json, the event is still
// compared with all terms that do not depend on it.
func (v *verifier) resultTags(ev Event) error {
	var commitment *hashing.Digest
	unseen := false
	if v.receipt.Delivery == DeliverySealed {
		sum := hashing.Bytes(v.bundle.Seal)
		if unseen = v.bundle.Seal == nil; unseen {
			var err error
			if sum, err = CommitmentOf(ev); err != nil {
				return err
			}
		}
		commitment = &sum
	}

	err := checkResultEvent(ev, v.provider, v.buyer, v.receipt.RequestEventID, v.requestKind, v.receipt.resultTerms(commitment))
	if err == nil && unseen {
		return missing(FileSeal + ", which it commits to, is not in the bundle")
	}
	return err
}

// checkDelivery is step 3.5: the event is sealed or plain as the receipt says.
func (v *verifier) checkDelivery(ev Event) error {
	switch {
	case isEncrypted(ev):
		return missing("it is encrypted, and this verifier opens no encrypted result")
	case v.receipt.Delivery != DeliverySealed:
		return v.checkNoSeal()
	case v.bundle.Seal == nil:
		return missing(FileSeal + " is not in the bundle")
	}
	return v.checkSeal()
}

func isEncrypted(ev Event) bool { return len(ev.Values("encrypted")) > 0 }

// wordsOf is the text of a text generation: plain NIP-90 clients get nothing else.
func wordsOf(doc []byte) string {
	var r schemas.TextResult
	if err := hashing.Unmarshal(doc, &r); err != nil {
		return ""
	}
	return r.Text
}

// checkContent is step 3.6: the event's content is the result. Events without readable
// content pass.
func (v *verifier) checkContent(ev *Event) error {
	switch doc := v.bundle.Result; {
	case doc == nil:
		return v.lacking(PartResults, FileResult+" is not in the bundle")
	case ev != nil && !isEncrypted(*ev) && ev.Content != "" && ev.Content != string(doc) && !(v.untyped && ev.Content == wordsOf(doc)):
		return fmt.Errorf("%w: it differs from the event's content", ErrMismatch)
	}
	return nil
}

// checkSeal compares SEAL.json, to whose hash the result event commits, with the receipt
// and the files of the bundle.
func (v *verifier) checkSeal() error {
	s, err := ParseSeal(v.bundle.Seal)
	if err != nil {
		return err
	}
	rec := v.receipt
	return firstMismatch(
		match("output_hash", s.OutputHash, rec.OutputHash),
		match("agreement_hash", digestOrNull(s.AgreementHash), digestOrNull(rec.AgreementHash)),
		match("plan_hash", s.PlanHash, rec.PlanHash),
		match("trajectory_hash", s.TrajectoryHash, rec.TrajectoryHash),
		match("redacted_trajectory_hash", s.RedactedTrajectoryHash, rec.RedactedTrajectoryHash),
		match("replay_hash", s.ReplayHash, rec.ReplayHash),
		v.checkSealedContents(s),
	)
}

// checkSealedContents checks that the sealed result and replay are those of the receipt,
// and that each file of the bundle has the size that the seal names.
func (v *verifier) checkSealedContents(s Seal) error {
	sizes := map[hashing.Digest]int{}
	for _, data := range v.bundle.Files() {
		sizes[hashing.Bytes(data)] = len(data)
	}

	for _, c := range s.Contents {
		want := c.Digest
		switch c.Role {
		case RoleResult:
			want = v.receipt.OutputHash
		case RoleReplay:
			want = v.receipt.ReplayHash
		}

		if err := match("digest of the sealed "+c.Role, c.Digest, want); err != nil {
			return err
		}
		if size, here := sizes[c.Digest]; here && int64(size) != c.Size {
			return &MismatchError{"size of the sealed " + c.Role, fmt.Sprint(c.Size), fmt.Sprint(size)}
		}
	}

	return nil
}

// checkNoSeal refuses SEAL.json beside a plain result, because no claim would cover it.
func (v *verifier) checkNoSeal() error {
	if v.bundle.Seal != nil {
		return fmt.Errorf("%w: %s beside a result that was not sealed", ErrMismatch, FileSeal)
	}
	return nil
}

// checkAnswer compares a result with its request and with the conditions that the
// request sets for payment.
func checkAnswer(request *schemas.Request, result *schemas.Result) error {
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

// resultDocument makes steps 3.7 to 3.12 on RESULT.json. It returns nil if the document
// is not a valid result.
func (v *verifier) resultDocument(g grader) *schemas.Result {
	doc := v.bundle.Result
	// 3.7
	result, err := v.parseResult(doc)
	g.step("3.7", "it is valid under its schema, and its own canonical form", err)

	// 3.8
	g.step("3.8", "its hash is output_hash", match("the hash of "+FileResult, hashing.Bytes(doc), v.receipt.OutputHash))
	if result == nil {
		return nil
	}

	// 3.9
	g.step("3.9", "its agreement hash is agreement_hash, and its provenance the provider", firstMismatch(
		v.agreement(result), match("provenance.provider_pubkey", result.Provenance().ProviderPubkey, v.provider)))

	// 3.10
	err = missing("there is no proved request to hold it against")
	if v.request != nil {
		err = escapeError(checkAnswer(v.request, result))
	}
	g.step("3.10", "it answers the request, and is what it expects where it expects something", err)

	// 3.11, 3.12
	v.artifacts(g, result)
	return result
}

func (v *verifier) parseResult(doc []byte) (*schemas.Result, error) {
	var result *schemas.Result
	var err error
	schema, known := schemas.Lookup(v.receipt.SchemaID)
	if known {
		if result, err = schema.ParseResult(doc); err == nil && bytes.Equal(result.Canonical, doc) {
			return result, nil
		}
	}

	// Errors in the form are reported before errors in the content.
	canonical, formErr := hashing.Canonical(doc)
	switch {
	case formErr != nil:
		return nil, escapeError(formErr)
	case !bytes.Equal(canonical, doc):
		return nil, fmt.Errorf("%w: not in canonical form", ErrInvalid)
	case !known:
		return nil, missing("this verifier does not know the schema " + quoted(v.receipt.SchemaID))
	}

	return result, escapeError(err)
}

func (v *verifier) agreement(result *schemas.Result) error {
	want := v.receipt.AgreementHash
	if want == nil {
		return nil // the receipt names no agreement
	}
	if v.request != nil {
		got, err := v.request.AgreementHash(result)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrMismatch, err)
		}
		return match("agreement_hash", got, *want)
	}

	// Only the request says which part of the result counts for the agreement.
	possible, err := result.AgreementHashes()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	if slices.Contains(possible, *want) {
		return nil
	}

	return match("agreement_hash", possible[0], *want)
}

// artifacts makes steps 3.11 and 3.12 on the files beside the result.
func (v *verifier) artifacts(g grader, result *schemas.Result) {
	listed := map[string]schemas.SandboxArtifact{}
	summaries := map[string]bool{}
	if run, ok := result.Value.(*schemas.SandboxRunResult); ok {
		for _, a := range run.Artifacts {
			hash := a.SHA256.Hex()
			if other, twice := listed[hash]; twice && other.SizeBytes != a.SizeBytes {
				g.step("3.11", "the artifacts are those that the result lists", fmt.Errorf("%w: one hash with two sizes", ErrMismatch))
			}
			listed[hash] = a
			summaries[hash] = summaries[hash] || path.Base(a.Path) == FilePRSummary
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

// artifactsError reports a contradiction before a missing file.
func (v *verifier) artifactsError(listed map[string]schemas.SandboxArtifact) error {
	// Sorted, so that a bundle with two faults always gives the same report.
	for _, hash := range slices.Sorted(maps.Keys(v.bundle.Artifacts)) {
		data := v.bundle.Artifacts[hash]
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
		// The first name in order, so that the report does not depend on map order.
		return v.lacking(PartArtifacts, fmt.Sprintf("%d of %d are not in the bundle, such as %s", len(absent), len(listed), slices.Min(absent)))
	}
	return nil
}

// trajectory grades claim 4: the record of the work is complete and belongs to this job.
func (v *verifier) trajectory(g grader) {
	rec := v.receipt

	// 4.0
	if v.noWork(g, "4.0", "the receipt is for work that was recorded", FileReplay) {
		return
	}
	if v.bundle.Replay == nil {
		g.step("4.1", FileReplay+" is in the bundle and well-formed", v.lacking(PartTrajectories, "it is not in the bundle"))
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

// pruning makes steps 1.8 to 1.10 on the provider's word, if it is there.
func (v *verifier) pruning(g grader) {
	if v.bundle.Pruned == nil {
		return
	}
	if ev := g.event("1.8", "1.9", FilePruned, v.bundle.Pruned, requireDomain(domain.Pruned)); ev != nil {
		g.step("1.10", "it is the provider's word on this receipt", v.readPruning(*ev))
	}
}

func (v *verifier) readPruning(ev Event) error {
	said, err := ParsePruning([]byte(ev.Content))
	if err != nil {
		return err
	}
	q, _ := v.quote() // the zero value promises nothing
	end, _ := parseTimestamp(v.receipt.Timestamp)
	if err = firstMismatch(
		match("pubkey", ev.PubKey, v.provider),
		match("receipt_id", said.ReceiptID, v.receipt.ReceiptID),
		match("request_id", said.RequestID, v.receipt.RequestEventID),
		onlyTag(ev, "e", v.receipt.RequestEventID),
	); err == nil {
		v.gone = said.whyGone(q.Retention, end, clockSkew)
	}
	return err
}

// lacking is the error of a part that is not in the bundle.
func (v *verifier) lacking(part, otherwise string) error {
	if why := v.gone[part]; why != "" {
		return missing(why)
	}
	return missing(otherwise)
}
