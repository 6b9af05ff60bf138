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
	"github.com/lightwork-market/lightwork/schemas"
)

// result: 3. The result is what the provider delivered for this job.
func (v *verifier) result(g grader) {
	// 3.0
	if v.noWork(g, "3.0", "the receipt is for a result", FileResultEvent, FileResult, FileSeal, FilePRSummary) {
		return
	}

	// 3.1, 3.2
	ev := g.event("3.1", "3.2", FileResultEvent, v.bundle.ResultEvent, demands(domain.Result))
	if ev != nil {
		// 3.3 to 3.5
		g.step("3.3", "its id is result_event_id", match("id", ev.ID, v.receipt.ResultEventID))
		g.step("3.4", "author, kind and tags are those of this job and this receipt", v.resultTags(*ev))
		g.step("3.5", "it was delivered as the receipt says", v.deliveredAs(*ev))
	}

	// 3.6
	var result *schemas.Result
	if g.step("3.6", FileResult+" is in the bundle and is what the event carries", v.carried(ev)) {
		// 3.7 to 3.12
		result = v.resultDocument(g)
	}

	// 3.13
	if ev != nil {
		g.step("3.13", "it was signed before the settlement", v.beforeSettlement(time.Unix(ev.CreatedAt, 0)))
	}
	reason := "valid under " + v.receipt.SchemaID + ", delivered and hashed as the receipt says"
	if result != nil {
		if run, ok := result.Value.(*schemas.SandboxRunResult); ok {
			reason += "; its status is " + string(run.Status)
		}
	}

	g.prove(reason)
}

// resultTags is step 3.4. Without SEAL.json a sealed result's event is still
// held against everything that does not depend on it.
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

	err := boundBy(ev, v.provider, v.buyer, v.receipt.RequestEventID, v.requestKind, v.receipt.resultTerms(commitment))
	if err == nil && unseen {
		return lacking(FileSeal + ", which it commits to, is not in the bundle")
	}
	return err
}

// deliveredAs is step 3.5.
func (v *verifier) deliveredAs(ev Event) error {
	switch {
	case isEncrypted(ev):
		return lacking("it is encrypted, and this verifier opens no encrypted result")
	case v.receipt.Delivery != DeliverySealed:
		return v.unsealed()
	case v.bundle.Seal == nil:
		return lacking(FileSeal + " is not in the bundle")
	}
	return v.sealed()
}

func isEncrypted(ev Event) bool { return len(ev.Values("encrypted")) > 0 }

// wordsOf is the text of a text generation, which is all that a client of NIP-90
// alone looks at.
func wordsOf(doc []byte) string {
	var r schemas.TextResult
	if err := hashing.Unmarshal(doc, &r); err != nil {
		return ""
	}
	return r.Text
}

// carried is step 3.6. An event that is absent, has no content or is encrypted
// carries nothing that could differ.
func (v *verifier) carried(ev *Event) error {
	switch doc := v.bundle.Result; {
	case doc == nil:
		return lacking(FileResult + " is not in the bundle")
	case ev != nil && !isEncrypted(*ev) && ev.Content != "" && ev.Content != string(doc) && !(v.untyped && ev.Content == wordsOf(doc)):
		return fmt.Errorf("%w: it differs from the event's content", ErrMismatch)
	}
	return nil
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
		match("output_hash", s.OutputHash, rec.OutputHash),
		match("agreement_hash", digestOrNull(s.AgreementHash), digestOrNull(rec.AgreementHash)),
		match("plan_hash", s.PlanHash, rec.PlanHash),
		match("trajectory_hash", s.TrajectoryHash, rec.TrajectoryHash),
		match("redacted_trajectory_hash", s.RedactedTrajectoryHash, rec.RedactedTrajectoryHash),
		match("replay_hash", s.ReplayHash, rec.ReplayHash),
		v.sealedContents(s),
	)
}

// sealedContents: result and replay in the boxes are those of the receipt, and
// each file of the bundle that a box held has the size that the seal says.
func (v *verifier) sealedContents(s Seal) error {
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

// resultDocument takes RESULT.json through steps 3.7 to 3.12. It returns nil
// where the document is none.
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
	err = lacking("there is no proved request to hold it against")
	if v.request != nil {
		err = escaped(answered(v.request, result))
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

	// What is wrong with the text comes before what is wrong with what it says.
	canonical, formErr := hashing.Canonical(doc)
	switch {
	case formErr != nil:
		return nil, escaped(formErr)
	case !bytes.Equal(canonical, doc):
		return nil, fmt.Errorf("%w: not in canonical form", ErrInvalid)
	case !known:
		return nil, lacking("this verifier does not know the schema " + quoted(v.receipt.SchemaID))
	}

	return result, escaped(err)
}

func (v *verifier) agreement(result *schemas.Result) error {
	want := v.receipt.AgreementHash
	if want == nil {
		return nil // nothing is claimed
	}
	if v.request != nil {
		got, err := v.request.AgreementHash(result)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrMismatch, err)
		}
		return match("agreement_hash", got, *want)
	}

	// Without the request nobody can say what was to count.
	possible, err := result.AgreementHashes()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	if slices.Contains(possible, *want) {
		return nil
	}

	return match("agreement_hash", possible[0], *want)
}

// artifacts takes the files beside the result through steps 3.11 and 3.12.
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

// artifactsError prefers a contradiction to a lack.
func (v *verifier) artifactsError(listed map[string]schemas.SandboxArtifact) error {
	// In order, so that the report of a bundle with two faults is always the same.
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
		// The least name, so that the report does not depend on map order.
		return lacking(fmt.Sprintf("%d of %d are not in the bundle, such as %s", len(absent), len(listed), slices.Min(absent)))
	}
	return nil
}
