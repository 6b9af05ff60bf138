package schemas

import (
	"math"

	"github.com/lightwork-market/lightwork/hashing"
)

// An Adjudication says how several results of a subjective job become one.
type Adjudication string

// The adjudications.
const (
	NoAdjudication Adjudication = "none"
	MajorityVote   Adjudication = "majority_vote"
	JudgeModel     Adjudication = "judge_model"
	Merge          Adjudication = "merge"
)

// Verification is how the buyer wants the result judged. Its defaults differ
// from job type to job type.
type Verification struct {
	Mode         Mode         `json:"mode" jsonschema:"objective or subjective" rule:"enum=objective|subjective"`
	Redundancy   int64        `json:"redundancy" jsonschema:"how many providers run the job" rule:"min=1;max=16;default=1"`
	Adjudication Adjudication `json:"adjudication" jsonschema:"how several results become one" rule:"enum=none|majority_vote|judge_model|merge;default=none"`
	JudgeModel   string       `json:"judge_model,omitempty" jsonschema:"model that judges" rule:"minlen=1;maxlen=128"`
}

// Tiers say what a buyer's trust in a result rests on.
const (
	TierObjective  = "objective"            // exit codes and artifact hashes, which anybody can compare
	TierReputation = "reputation_only"      // the reputation of one provider
	TierConsensus  = "redundancy_consensus" // the agreement of several providers
	TierJudge      = "judge"                // a judge's choice among several results
)

// Tier returns the tier of a result that is verified this way.
func (v Verification) Tier() string {
	switch {
	case v.Adjudication == MajorityVote || v.Adjudication == Merge:
		return TierConsensus
	case v.Adjudication == JudgeModel:
		return TierJudge
	case v.Mode == Objective:
		return TierObjective
	}
	return TierReputation
}

// Verification returns how the request wants its result judged, with the job type's
// defaults filled in.
func (r *Request) Verification() Verification {
	switch v := r.Value.(type) {
	case *CodeChunkRequest:
		return v.Verification
	case *RerankRequest:
		return v.Verification
	case *SandboxRunRequest:
		return v.Verification.Verification
	case *EmbeddingRequest:
		return v.Verification
	case *TextRequest:
		return v.Verification
	}

	return Verification{}
}

// Provenance says who made a result and how (OA-3.5).
type Provenance struct {
	ModelID        string          `json:"model_id" jsonschema:"model or program that produced the output" rule:"minlen=1;maxlen=128"`
	Sampling       *Sampling       `json:"sampling,omitempty" jsonschema:"sampling parameters, where the agent knows them"`
	InputSHA256    *hashing.Digest `json:"input_sha256,omitempty" jsonschema:"digest of the input the agent saw"`
	OutputSHA256   *hashing.Digest `json:"output_sha256,omitempty" jsonschema:"digest of the output the agent made"`
	ProviderPubkey string          `json:"provider_pubkey" jsonschema:"x-only public key of the provider, hex" rule:"pattern=pubkey"`
	ExecutedAt     int64           `json:"executed_at,omitempty" jsonschema:"unix seconds" rule:"min=1;max=9007199254740991"`
	DurationMS     *int64          `json:"duration_ms,omitempty" jsonschema:"milliseconds the agent worked" rule:"min=0;max=9007199254740991"`
	Tokens         *Tokens         `json:"tokens,omitempty" jsonschema:"token counts, where the agent knows them"`
}

// Sampling holds a model's sampling parameters.
type Sampling struct {
	Temperature float64  `json:"temperature" jsonschema:"sampling temperature" rule:"min=0;max=100;default=0"`
	TopP        *float64 `json:"top_p,omitempty" jsonschema:"nucleus mass" rule:"min=0;max=1"`
	TopK        *int64   `json:"top_k,omitempty" jsonschema:"candidate count" rule:"min=0;max=9007199254740991"`
	Seed        *int64   `json:"seed,omitempty" jsonschema:"random seed" rule:"min=-9007199254740991;max=9007199254740991"`
	MaxTokens   *int64   `json:"max_tokens,omitempty" jsonschema:"output limit, tokens" rule:"min=0;max=9007199254740991"`
	Stop        []string `json:"stop,omitempty" jsonschema:"stop sequences" rule:"maxitems=16;each.maxlen=256"`
}

// Tokens counts the tokens of one model run.
type Tokens struct {
	Input  int64 `json:"input" jsonschema:"tokens read" rule:"min=0;max=9007199254740991"`
	Output int64 `json:"output" jsonschema:"tokens written" rule:"min=0;max=9007199254740991"`
}

// Provenance says who made the result and how.
func (r *Result) Provenance() Provenance {
	switch v := r.Value.(type) {
	case *CodeChunkResult:
		return v.Provenance
	case *RerankResult:
		return v.Provenance
	case *SandboxRunResult:
		return v.Provenance
	case *EmbeddingResult:
		return v.Provenance
	case *TextResult:
		return v.Provenance
	}

	return Provenance{}
}

// Confidence returns the provider's confidence in a result, in whole per cent, rounded
// down. An objective result is either right or wrong, so it has 100. A subjective
// result without a statement has 0; relevance scores of passages are no such
// statement (K-21).
func (r *Result) Confidence() int {
	if c, ok := r.Value.(*CodeChunkResult); ok {
		return int(math.Floor(c.Confidence*100 + 1e-9)) // 0.29*100 is a little below 29
	}
	if s, ok := Lookup(string(r.SchemaID)); ok && s.VerificationMode == Objective {
		return 100
	}
	return 0
}
