// Package schemas holds the job types: their Go structs, the JSON Schema
// documents derived from them, strict parsing with defaults, and the hashes
// that name a job and its result.
//
// A request or result from outside goes through three gates, cheapest first:
// its size, the strict decoder of package hashing, and one pass that checks every
// rule of its JSON Schema 2020-12 document. If that pass fails, slower code finds
// out which rule is broken: first the shape (known fields, types, counts), then a
// validator with format asserted. Rules that JSON Schema cannot express are checked
// on the typed value. Every refusal is a *[FieldError].
package schemas

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits on documents from outside, in bytes of JSON text. Larger payloads
// travel as blobs.
const (
	MaxRequestBytes = 1 << 20
	MaxResultBytes  = 4 << 20
)

// An ID names a job type, "oa.<domain>.<operation>.v<version>" (OA-1.3).
type ID string

// The job types.
const (
	CodeChunkAnalysis ID = "oa.code_chunk_analysis.v1"
	RetrievalRerank   ID = "oa.retrieval_rerank.v1"
	SandboxRun        ID = "oa.sandbox_run.v1"
	Embedding         ID = "oa.embedding.v1"
	TextGeneration    ID = "oa.text_generation.v1"
)

var idForm = regexp.MustCompile(`^oa(\.[a-z][a-z0-9_]{0,63}){1,4}\.v[1-9][0-9]{0,5}$`)

// ParseID checks the form of a schema id. To find out whether the id exists, use
// [Lookup].
func ParseID(s string) (ID, error) {
	if !idForm.MatchString(s) {
		return "", fmt.Errorf("parse schema id: not of the form oa.<domain>.<operation>.v<version>")
	}
	return ID(s), nil
}

func (id ID) String() string { return string(id) }

// A Mode says how a result is verified.
type Mode string

// The verification modes.
const (
	Objective  Mode = "objective"  // by exit codes and artifact hashes
	Subjective Mode = "subjective" // by redundancy, adjudication or a judge
)

// A Schema is one job type. Schemas are immutable and safe for concurrent use.
type Schema struct {
	ID               ID
	Title            string
	VerificationMode Mode
	// Aliases are other ids that mean this job type.
	Aliases []ID
	// Agreement says, for people, what two results must have in common to agree; ""
	// if results cannot be compared.
	Agreement string
	// Apart says, for people, in what they may differ.
	Apart string

	request, result                 reflect.Type // struct types
	input, output                   *jsonschema.Schema
	inputDoc, outputDoc             json.RawMessage
	shapeDoc                        json.RawMessage
	inputValidator, outputValidator *validator.Schema
}

// definition is what a job type declares; everything else follows from its
// two struct types.
type definition struct {
	Schema
	// verification is the default of the request's field of that name.
	verification Verification
	// publish adds to the published schema of requests the rules that check enforces
	// with better error texts. It may be nil.
	publish func(*jsonschema.Schema)
}

func definitions() []definition {
	return []definition{
		{
			Schema: Schema{
				ID:               CodeChunkAnalysis,
				Title:            "Analyse one chunk of a source file",
				VerificationMode: Subjective,
				request:          reflect.TypeFor[CodeChunkRequest](),
				result:           reflect.TypeFor[CodeChunkResult](),
			},
			verification: Verification{Mode: Subjective, Redundancy: 2, Adjudication: JudgeModel},
		},

		{
			Schema: Schema{
				ID:               RetrievalRerank,
				Title:            "Rank retrieval candidates against a task",
				VerificationMode: Subjective,
				request:          reflect.TypeFor[RerankRequest](),
				result:           reflect.TypeFor[RerankResult](),
				Agreement:        "ids of topk, in their order",
				Apart:            "scores",
			},
			verification: Verification{Mode: Subjective, Redundancy: 2, Adjudication: MajorityVote},
		},

		{
			Schema: Schema{
				ID:               SandboxRun,
				Title:            "Run commands in an isolated sandbox",
				VerificationMode: Objective,
				request:          reflect.TypeFor[SandboxRunRequest](),
				result:           reflect.TypeFor[SandboxRunResult](),
				Agreement:        "status, image digest, commands, exit codes, paths and hashes of the artifacts",
				Apart:            "what the commands print",
			},
			verification: Verification{Mode: Objective, Redundancy: 1, Adjudication: NoAdjudication},
			publish:      publishSandbox,
		},

		{
			Schema: Schema{
				ID:               Embedding,
				Title:            "Embed texts as vectors",
				VerificationMode: Objective,
				Aliases:          []ID{"oa.embeddings.v1"},
				request:          reflect.TypeFor[EmbeddingRequest](),
				result:           reflect.TypeFor[EmbeddingResult](),
				Agreement:        "model, dimensions and every number",
			},
			verification: Verification{Mode: Objective, Redundancy: 1, Adjudication: NoAdjudication},
		},

		{
			Schema: Schema{
				ID:               TextGeneration,
				Title:            "Answer a prompt in words",
				VerificationMode: Subjective,
				request:          reflect.TypeFor[TextRequest](),
				result:           reflect.TypeFor[TextResult](),
			},
			verification: Verification{Mode: Subjective, Redundancy: 1, Adjudication: NoAdjudication},
		},
	}
}

// registry derives and compiles every schema once. It panics on a failure, which
// can only be a mistake in this package's struct tags and fails its tests.
var registry = sync.OnceValue(func() []*Schema {
	var all []*Schema
	for _, d := range definitions() {
		s, err := d.build()
		if err != nil {
			panic(fmt.Sprintf("schema %s: %v", d.ID, err))
		}
		all = append(all, s)
	}
	return all
})

// All returns every job type. The caller must not change the schemas.
func All() []*Schema { return append([]*Schema(nil), registry()...) }

// Lookup finds a job type by its id or a documented alias.
func Lookup(id string) (*Schema, bool) {
	for _, s := range registry() {
		if string(s.ID) == id {
			return s, true
		}
		for _, a := range s.Aliases {
			if string(a) == id {
				return s, true
			}
		}
	}
	return nil, false
}

// InputSchema returns the JSON Schema 2020-12 document of the request.
func (s *Schema) InputSchema() json.RawMessage { return s.inputDoc }

// InputShape is InputSchema without the patterns that ParseRequest checks in Go
// anyway. Tools declare this one, because matching the patterns on a source of a
// megabyte is more work than a node allows for one call.
func (s *Schema) InputShape() json.RawMessage { return s.shapeDoc }

// OutputSchema returns the JSON Schema 2020-12 document of the result.
func (s *Schema) OutputSchema() json.RawMessage { return s.outputDoc }
