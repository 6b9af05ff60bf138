package schemas

import "slices"

// A Document describes a job type in the form of OA-3.1. [Schema.InputSchema] and
// [Schema.OutputSchema] describe it in full.
type Document struct {
	SchemaID         ID                     `json:"schema_id"`
	Inputs           map[string]InputField  `json:"inputs"`
	Outputs          map[string]OutputField `json:"outputs"`
	VerificationMode Mode                   `json:"verification_mode"`
	HashRules        HashRules              `json:"hash_rules"`
	Provenance       ProvenanceRules        `json:"provenance"`
}

// InputField describes one top-level field of a request. Type is a JSON type.
// A field with a default is not required.
type InputField struct {
	Type        string `json:"type"`
	Required    bool   `json:"required"`
	Description string `json:"description"`
}

// OutputField describes one top-level field of a result.
type OutputField struct {
	Type        string `json:"type"`
	Description string `json:"description"`
}

// HashRules say how a result is hashed.
type HashRules struct {
	Algorithm        string `json:"algorithm"`
	Canonicalization string `json:"canonicalization"`
	Scope            string `json:"scope"`
}

// ProvenanceRules say what a result must state about its origin.
type ProvenanceRules struct {
	Model          string `json:"model"`
	ProviderID     string `json:"provider_id"`
	TokenCounts    string `json:"token_counts"`
	SamplingParams string `json:"sampling_params"`
}

// Document returns the description that the command line prints.
func (s *Schema) Document() Document {
	d := Document{
		SchemaID:         s.ID,
		Inputs:           map[string]InputField{},
		Outputs:          map[string]OutputField{},
		VerificationMode: s.VerificationMode,
		HashRules: HashRules{
			Algorithm:        "sha256",
			Canonicalization: "json_canonical",
			Scope:            "full_output",
		},
		Provenance: ProvenanceRules{
			Model:          "required",
			ProviderID:     "required",
			TokenCounts:    "recommended",
			SamplingParams: "optional",
		},
	}
	for name, p := range s.input.Properties {
		d.Inputs[name] = InputField{p.Type, slices.Contains(s.input.Required, name), p.Description}
	}
	for name, p := range s.output.Properties {
		d.Outputs[name] = OutputField{p.Type, p.Description}
	}
	return d
}
