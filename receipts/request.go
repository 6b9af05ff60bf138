package receipts

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/schemas"
)

// TypedRequest is a typed job from the tags of an event. It is not yet validated
// against its schema.
type TypedRequest struct {
	SchemaID string
	Input    []byte // the request document
}

// RequestOf reads the typed job from the tags of a request event. It needs a
// ["param","schema",id] (or schema_id or job_type; several must agree) and exactly one
// ["i", document, "text"], whose type may also be prompt, empty or absent. Errors wrap
// [ErrInvalid].
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

// isText reports whether the tag itself contains the input. Clients call this type
// text, prompt, or nothing at all.
func isText(tag []string) bool {
	return len(tag) < 3 || isOneOf(tag[2], "", "text", "prompt")
}

// ResultTerms are the facts that a result event binds in its tags, besides e and p.
type ResultTerms struct {
	// Commitment is the hash of SEAL.json, in place of all terms that would tell
	// something of the output; nil if the result is delivered in the clear.
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

// Tags are the terms as tags of a result event, in a fixed order. [Verify] demands each
// of them exactly once.
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

// resultTerms are the terms that the receipt names, with the commitment if the result
// was sealed.
func (r Receipt) resultTerms(commitment *hashing.Digest) ResultTerms {
	return ResultTerms{
		Commitment: commitment,
		SchemaID:   r.SchemaID, JobHash: r.JobHash, OutputHash: r.OutputHash, AgreementHash: r.AgreementHash,
		PlanHash: r.PlanHash, TrajectoryHash: r.TrajectoryHash, RedactedTrajectoryHash: r.RedactedTrajectoryHash,
		ReplayHash: r.ReplayHash, QuoteHash: r.QuoteHash, PolicyBundleID: r.PolicyBundleID, SessionID: r.SessionID,
	}
}

// checkResultEvent checks a result event whose signature is known to be valid: author,
// kind, its one e tag, the buyer's p tag, and a tag for every term. If requestKind is 0,
// the kind is not compared with the request's. Errors wrap ErrInvalid or ErrMismatch.
func checkResultEvent(ev Event, provider, buyer, requestID string, requestKind int, t ResultTerms) error {
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

// CommitmentOf reads the one commitment tag of a sealed result's event. Errors wrap
// [ErrInvalid] or [ErrMismatch].
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

// MaxUntypedInputs bounds the inputs of an untyped request.
const MaxUntypedInputs = 16

// UntypedOf reads a request without a schema, as ordinary NIP-90 clients send it. Its
// inputs become the prompt of a text generation, its params the sampling parameters.
// Unknown params are ignored, as NIP-90 demands. Errors wrap [ErrInvalid].
func UntypedOf[Tag ~[]string](tags []Tag) (TypedRequest, error) {
	doc := map[string]any{}
	var prompt []string
	for _, tag := range tags {
		switch {
		case len(tag) >= 3 && tag[0] == "param" && isOneOf(tag[1], "schema", "schema_id", "job_type"):
			return TypedRequest{}, fmt.Errorf("%w: request names a schema", ErrInvalid)
		case len(tag) >= 3 && tag[0] == "param":
			if err := sampling(doc, tag[1], tag[2]); err != nil {
				return TypedRequest{}, err
			}
		case len(tag) >= 1 && tag[0] == "i":
			switch {
			case len(tag) < 2:
				return TypedRequest{}, fmt.Errorf("%w: tag i: an input has no content", ErrInvalid)
			case !isText(tag):
				return TypedRequest{}, fmt.Errorf("%w: tag i: an input of type %s is not taken here: send text", ErrInvalid, quoted(tag[2]))
			}
			prompt = append(prompt, tag[1])
		}
	}

	if len(prompt) == 0 || len(prompt) > MaxUntypedInputs {
		return TypedRequest{}, fmt.Errorf("%w: request has %d inputs, not 1 to %d", ErrInvalid, len(prompt), MaxUntypedInputs)
	}
	doc["prompt"] = strings.Join(prompt, "\n\n")
	input, err := json.Marshal(doc)
	if err != nil {
		return TypedRequest{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return TypedRequest{SchemaID: string(schemas.TextGeneration), Input: input}, nil
}

// sampling adds a param of NIP-90's text generation to the document.
func sampling(doc map[string]any, name, value string) error {
	form := fraction
	switch name {
	case "max_tokens", "seed":
		form = whole
	case "temperature", "top_p":
	default:
		return nil
	}

	if _, twice := doc[name]; twice {
		return fmt.Errorf("%w: tag param %s: it is there twice", ErrInvalid, name)
	}
	if !form.MatchString(value) {
		return fmt.Errorf("%w: tag param %s: %s is not a number", ErrInvalid, name, quoted(value))
	}

	doc[name] = json.Number(value)
	return nil
}

// The types of sampling parameters.
var (
	whole    = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,15})$`)
	fraction = regexp.MustCompile(`^[0-9](\.[0-9]{1,9})?$`)
)

// UntypedTags makes the tags of a text generation for any NIP-90 provider; [UntypedOf]
// reads them back. A system prompt becomes an input before the prompt.
func UntypedTags(r *schemas.TextRequest) [][]string {
	var tags [][]string
	if r.System != "" {
		tags = append(tags, []string{"i", r.System, "text"})
	}
	tags = append(tags, []string{"i", r.Prompt, "text"}, []string{"output", "text/plain"})
	param := func(name, value string) { tags = append(tags, []string{"param", name, value}) }
	if r.MaxTokens > 0 {
		param("max_tokens", strconv.FormatInt(r.MaxTokens, 10))
	}
	if r.Temperature != nil {
		param("temperature", strconv.FormatFloat(*r.Temperature, 'f', -1, 64))
	}
	if r.TopP != nil {
		param("top_p", strconv.FormatFloat(*r.TopP, 'f', -1, 64))
	}
	if r.Seed != nil {
		param("seed", strconv.FormatInt(*r.Seed, 10))
	}
	return tags
}
