package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lightwork-market/lightwork/hashing"
)

// A Request is a parsed job request.
type Request struct {
	SchemaID  ID
	Canonical []byte         // canonical JSON of Value: what JobHash covers
	JobHash   hashing.Digest // canonical hash of the typed request after defaults
	// Value is *CodeChunkRequest, *RerankRequest, *SandboxRunRequest,
	// *EmbeddingRequest or *TextRequest, with defaults filled.
	Value any
}

// A Result is a parsed job result.
type Result struct {
	SchemaID ID
	// Canonical is the canonical JSON of the document as received, without
	// defaults, so that any RFC 8785 implementation computes the same hash.
	Canonical  []byte
	OutputHash hashing.Digest // hash of Canonical, the full output
	// Value is *CodeChunkResult, *RerankResult, *SandboxRunResult,
	// *EmbeddingResult or *TextResult.
	Value any
}

// checker is implemented by every request and result type.
type checker interface{ check() error }

// ParseRequest reads a request from outside. It refuses unknown fields, because a
// misspelled optional field would cost the buyer money. Every refusal is a
// *[FieldError].
func (s *Schema) ParseRequest(doc []byte) (*Request, error) {
	text, err := strict(doc, MaxRequestBytes, hashing.Strict)
	if err != nil {
		return nil, err
	}
	value, err := parse(text, s.input, s.inputValidator, s.request)
	if err != nil {
		return nil, err
	}
	canonical, err := hashing.CanonicalValue(value)
	if err != nil {
		return nil, &FieldError{"", err.Error()}
	}

	return &Request{
		SchemaID:  s.ID,
		Canonical: canonical,
		JobHash:   hashing.Bytes(canonical),
		Value:     value,
	}, nil
}

// ParseResult reads a result from outside. It checks everything that can be
// checked without the request; [Request.CheckResult] does the rest. Every
// refusal is a *[FieldError].
func (s *Schema) ParseResult(doc []byte) (*Result, error) {
	canonical, err := strict(doc, MaxResultBytes, hashing.Canonical)
	if err != nil {
		return nil, err
	}
	value, err := parse(canonical, s.output, s.outputValidator, s.result)
	if err != nil {
		return nil, err
	}

	return &Result{
		SchemaID:   s.ID,
		Canonical:  canonical,
		OutputHash: hashing.Bytes(canonical),
		Value:      value,
	}, nil
}

// FinishResult makes a result of an agent's output. It writes the provider's x-only
// public key (64 hex digits) into the provenance, where an agent may leave it out
// (OA-3.5), and then parses the document. It refuses an output that names another
// provider.
func (s *Schema) FinishResult(output []byte, providerPubkey string) (*Result, error) {
	text, err := strict(output, MaxResultBytes, hashing.Strict)
	if err != nil {
		return nil, err
	}
	tree, err := decodeTree(text)
	if err != nil {
		return nil, err
	}
	const field = "provider_pubkey"
	object, _ := tree.(map[string]any)
	provenance, ok := object["provenance"].(map[string]any)
	if !ok {
		return nil, &FieldError{"provenance", "is required"}
	}
	if named, present := provenance[field]; present && named != providerPubkey {
		return nil, &FieldError{child("provenance", field), "names another provider"}
	}

	provenance[field] = providerPubkey
	finished, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	return s.ParseResult(finished)
}

// strict checks the size of a document and runs decode on it, one of the strict
// decoders of package hashing.
func strict(doc []byte, limit int, decode func([]byte) ([]byte, error)) ([]byte, error) {
	if len(doc) > limit {
		return nil, tooLong("", len(doc), limit)
	}

	text, err := decode(doc)
	var syntax *hashing.SyntaxError
	switch {
	case err == nil:
		return text, nil
	case errors.As(err, &syntax) && syntax.Reason == hashing.ReasonDuplicateKey:
		return nil, &FieldError{child("", syntax.Key), fmt.Sprintf("is given twice (byte %d)", syntax.Offset)}
	}

	return nil, &FieldError{"", "not acceptable: " + err.Error()}
}

// parse checks canonical JSON by the schema and by the type's own checks, and
// returns a pointer to a new t.
func parse(text []byte, s *jsonschema.Schema, v *validator.Schema, t reflect.Type) (any, error) {
	complete, ok := conform(s, text)
	if !ok {
		var err error
		if complete, err = fill(text, s, v); err != nil {
			return nil, err
		}
	}

	value := reflect.New(t).Interface()
	if err := hashing.UnmarshalStrict(complete, value); err != nil {
		return nil, &FieldError{"", err.Error()}
	}
	if err := value.(checker).check(); err != nil {
		return nil, err
	}

	return value, nil
}

// fill is the slow twin of conform. It finds the rule that the text breaks, in the
// shape or with the validator, and fills defaults if there is none.
func fill(text []byte, s *jsonschema.Schema, v *validator.Schema) ([]byte, error) {
	tree, err := decodeTree(text)
	if err != nil {
		return nil, err
	}
	var f filler
	if err := f.shape(s, tree, nil); err != nil {
		return nil, err
	}
	if err := v.Validate(tree); err != nil {
		return nil, fieldError(err)
	}
	if !f.changed {
		return text, nil
	}
	if text, err = json.Marshal(tree); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}

	return text, nil
}

// CheckResult checks a result against the request it answers: the commands that were
// ordered, the number of vectors, the ids of candidates. The error is a
// *[FieldError].
func (r *Request) CheckResult(result *Result) error {
	if r.SchemaID != result.SchemaID {
		return &FieldError{"", fmt.Sprintf("result of %s answers a request of %s", result.SchemaID, r.SchemaID)}
	}

	switch req := r.Value.(type) {
	case *CodeChunkRequest:
		return result.Value.(*CodeChunkResult).checkAgainst(req)
	case *RerankRequest:
		return result.Value.(*RerankResult).checkAgainst(req)
	case *SandboxRunRequest:
		return result.Value.(*SandboxRunResult).checkAgainst(req)
	case *EmbeddingRequest:
		return result.Value.(*EmbeddingResult).checkAgainst(req)
	case *TextRequest:
		return nil // any words answer a prompt
	}

	return fmt.Errorf("check result: %T is no request", r.Value)
}
