package receipts

import (
	"fmt"
	"strconv"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
)

// TypedRequest is a typed job as an event's tags carry it, not yet validated
// against its schema.
type TypedRequest struct {
	SchemaID string
	Input    []byte // the request document
}

// RequestOf finds the typed job in the tags of a request event: one
// ["param","schema",id] (or schema_id, or job_type, as long as all agree) and
// exactly one ["i", document, "text"], whose type may be prompt, empty or absent.
// Errors wrap ErrInvalid.
func RequestOf[Tag ~[]string](tags []Tag) (TypedRequest, error) {
	var r TypedRequest
	inputs := 0
	for _, tag := range tags {
		switch {
		case len(tag) >= 3 && tag[0] == "param" && isOneOf(tag[1], "schema", "schema_id", "job_type") && tag[2] != "":
			if r.SchemaID != "" && r.SchemaID != tag[2] {
				return TypedRequest{}, fmt.Errorf("%w: request names two schemas", ErrInvalid)
			}
			r.SchemaID = tag[2]
		case len(tag) >= 1 && tag[0] == "i":
			inputs++
			if len(tag) < 2 || !isText(tag) {
				return TypedRequest{}, fmt.Errorf("%w: request input is not of type text", ErrInvalid)
			}
			r.Input = []byte(tag[1])
		}
	}

	switch {
	case r.SchemaID == "":
		return TypedRequest{}, fmt.Errorf("%w: request names no schema", ErrInvalid)
	case inputs != 1:
		return TypedRequest{}, fmt.Errorf("%w: request has %d inputs, not one", ErrInvalid, inputs)
	}

	return r, nil
}

// isText reports whether an input is in the tag itself: what clients call text,
// prompt, or nothing at all.
func isText(tag []string) bool {
	return len(tag) < 3 || isOneOf(tag[2], "", "text", "prompt")
}

// ResultTerms are what a result event binds in its tags, besides e and p.
type ResultTerms struct {
	// Commitment is the hash of SEAL.json, which stands for everything that
	// tells of the output; nil where the result is delivered in the clear.
	Commitment             *hashing.Digest
	SchemaID               string
	JobHash                hashing.Digest
	OutputHash             hashing.Digest
	AgreementHash          *hashing.Digest
	PlanHash               hashing.Digest
	TrajectoryHash         hashing.Digest
	RedactedTrajectoryHash hashing.Digest
	ReplayHash             hashing.Digest
	QuoteHash              hashing.Digest
	PolicyBundleID         hashing.Digest
	SessionID              string
}

// Tags are the terms as tags of a result event, in a fixed order. The verifier
// wants each of them once.
func (t ResultTerms) Tags() [][]string {
	if t.Commitment != nil {
		return [][]string{
			{"schema", t.SchemaID},
			{"job_hash", t.JobHash.String()},
			{"commitment", t.Commitment.String()},
			{"quote_hash", t.QuoteHash.String()},
			{"policy_bundle_id", t.PolicyBundleID.String()},
			{"session_id", t.SessionID},
		}
	}

	tags := [][]string{
		{"schema", t.SchemaID},
		{"job_hash", t.JobHash.String()},
		{"output_hash", t.OutputHash.String()},
		{"plan_hash", t.PlanHash.String()},
		{"trajectory_hash", t.TrajectoryHash.String()},
		{"redacted_trajectory_hash", t.RedactedTrajectoryHash.String()},
		{"replay_hash", t.ReplayHash.String()},
		{"quote_hash", t.QuoteHash.String()},
		{"policy_bundle_id", t.PolicyBundleID.String()},
		{"session_id", t.SessionID},
	}
	if t.AgreementHash != nil {
		tags = append(tags, []string{"agreement_hash", t.AgreementHash.String()})
	}
	return tags
}

// resultTerms are those that a receipt names, and the commitment where the
// result was sealed.
func (r Receipt) resultTerms(commitment *hashing.Digest) ResultTerms {
	return ResultTerms{
		Commitment: commitment,
		SchemaID:   r.SchemaID, JobHash: r.JobHash, OutputHash: r.OutputHash, AgreementHash: r.AgreementHash,
		PlanHash: r.PlanHash, TrajectoryHash: r.TrajectoryHash, RedactedTrajectoryHash: r.RedactedTrajectoryHash,
		ReplayHash: r.ReplayHash, QuoteHash: r.QuoteHash, PolicyBundleID: r.PolicyBundleID, SessionID: r.SessionID,
	}
}

// boundBy looks at a result event whose signature is known to be good: author,
// kind, its one e tag, the buyer's p tag, and every term in its tags. requestKind 0
// leaves the kind's relation to the request open. Errors wrap ErrInvalid or
// ErrMismatch.
func boundBy(ev Event, provider, buyer, requestID string, requestKind int, t ResultTerms) error {
	if err := firstMismatch(
		match("pubkey", ev.PubKey, provider),
		onlyTag(ev, "e", requestID),
		checkResultKind(ev.Kind, requestKind),
	); err != nil {
		return err
	}

	if !ev.has("p", buyer) {
		return &MismatchError{"tag p", "another key", buyer}
	}

	for _, tag := range t.Tags() {
		if err := onlyTag(ev, tag[0], tag[1]); err != nil {
			return err
		}
	}

	if t.AgreementHash == nil && len(ev.Values("agreement_hash")) > 0 {
		return &MismatchError{"tag agreement_hash", "present", "absent"}
	}
	return nil
}

func checkResultKind(kind, requestKind int) error {
	if requestKind != 0 {
		return match("kind", kind, requestKind+kinds.ResultOffset)
	}
	if kind < kinds.FirstRequest+kinds.ResultOffset || kind > kinds.LastRequest+kinds.ResultOffset {
		return &MismatchError{"kind", strconv.Itoa(kind), "6000 to 6999"}
	}
	return nil
}

// CommitmentOf reads the commitment tag of a sealed result's event: exactly
// one, a digest. Errors wrap ErrInvalid or ErrMismatch.
func CommitmentOf(ev Event) (hashing.Digest, error) {
	values := ev.Values("commitment")
	if len(values) != 1 {
		return hashing.Digest{}, &MismatchError{"tag commitment", fmt.Sprintf("%d times", len(values)), "once"}
	}
	d, err := hashing.ParseDigest(values[0])
	if err != nil {
		return hashing.Digest{}, fmt.Errorf("%w: tag commitment: %w", ErrInvalid, err)
	}
	return d, nil
}
