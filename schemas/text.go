package schemas

// TextRequest is the input of oa.text_generation.v1. An untyped NIP-90 request of
// kind 5050 becomes one as well, with its inputs as the prompt.
type TextRequest struct {
	Prompt       string       `json:"prompt" jsonschema:"what to answer" rule:"minlen=1;maxlen=524288"`
	System       string       `json:"system,omitempty" jsonschema:"how to answer" rule:"minlen=1;maxlen=65536"`
	MaxTokens    int64        `json:"max_tokens,omitempty" jsonschema:"output limit, tokens" rule:"min=1;max=1000000"`
	Temperature  *float64     `json:"temperature,omitempty" jsonschema:"sampling temperature" rule:"min=0;max=2"`
	TopP         *float64     `json:"top_p,omitempty" jsonschema:"nucleus mass" rule:"min=0;max=1"`
	Seed         *int64       `json:"seed,omitempty" jsonschema:"random seed" rule:"min=-9007199254740991;max=9007199254740991"`
	Verification Verification `json:"verification" jsonschema:"how the result is judged"`
}

// TextResult is the output of oa.text_generation.v1.
type TextResult struct {
	Text         string     `json:"text" jsonschema:"the answer" rule:"minlen=1;maxlen=1048576"`
	FinishReason string     `json:"finish_reason,omitempty" jsonschema:"why it ends, as length where it was cut" rule:"maxlen=64"`
	Provenance   Provenance `json:"provenance" jsonschema:"who made the result and how"`
}

func (r *TextRequest) check() error { return nil }

func (r *TextResult) check() error { return nil }
