package schemas

import "fmt"

// CodeChunkRequest is the input of oa.code_chunk_analysis.v1.
type CodeChunkRequest struct {
	Task              string            `json:"task" jsonschema:"what to look for" rule:"minlen=1;maxlen=16384"`
	UserTask          string            `json:"user_task,omitempty" jsonschema:"the larger task this serves" rule:"minlen=1;maxlen=16384"`
	Chunk             CodeChunk         `json:"chunk" jsonschema:"the text to analyse"`
	OutputConstraints OutputConstraints `json:"output_constraints" jsonschema:"limits on the answer" rule:"default={}"`
	Verification      Verification      `json:"verification" jsonschema:"how the result is judged"`
}

// CodeChunk is part of a file; lines count from 1 and both ends are included.
type CodeChunk struct {
	Path      string `json:"path" jsonschema:"path in the repository" rule:"minlen=1;maxlen=1024"`
	StartLine int64  `json:"start_line" jsonschema:"first line, from 1" rule:"min=1;max=9007199254740991"`
	EndLine   int64  `json:"end_line" jsonschema:"last line, included" rule:"min=1;max=9007199254740991"`
	Content   string `json:"content" jsonschema:"the lines" rule:"maxlen=524288"`
	Language  string `json:"language,omitempty" jsonschema:"programming language" rule:"minlen=1;maxlen=64"`
}

// OutputConstraints limit the answer; absent fields do not.
type OutputConstraints struct {
	MaxSummaryLength int64 `json:"max_summary_length,omitempty" jsonschema:"characters" rule:"min=1;max=9007199254740991"`
	MaxSymbols       int64 `json:"max_symbols,omitempty" jsonschema:"entries" rule:"min=1;max=9007199254740991"`
	MaxFaults        int64 `json:"max_faults,omitempty" jsonschema:"entries" rule:"min=1;max=9007199254740991"`
	MaxNextProbes    int64 `json:"max_next_probes,omitempty" jsonschema:"entries" rule:"min=1;max=9007199254740991"`
}

// CodeChunkResult is the output of oa.code_chunk_analysis.v1.
type CodeChunkResult struct {
	Summary               string           `json:"summary" jsonschema:"what the chunk does" rule:"maxlen=65536"`
	Symbols               []CodeSymbol     `json:"symbols" jsonschema:"symbols defined" rule:"maxitems=1024"`
	SuspectedFaults       []SuspectedFault `json:"suspected_faults" jsonschema:"suspected faults" rule:"maxitems=1024"`
	RecommendedNextProbes []NextProbe      `json:"recommended_next_probes" jsonschema:"where to look next" rule:"maxitems=1024"`
	Confidence            float64          `json:"confidence" jsonschema:"0 to 1" rule:"min=0;max=1"`
	Provenance            Provenance       `json:"provenance" jsonschema:"who made the result and how"`
}

// CodeSymbol is a symbol the chunk defines.
type CodeSymbol struct {
	Name        string `json:"name" jsonschema:"name" rule:"minlen=1;maxlen=512"`
	Kind        string `json:"kind" jsonschema:"function, type, ..." rule:"minlen=1;maxlen=64"`
	Line        int64  `json:"line" jsonschema:"line in the file" rule:"min=1;max=9007199254740991"`
	Description string `json:"description,omitempty" jsonschema:"what it is" rule:"maxlen=4096"`
}

// SuspectedFault is one suspicion.
type SuspectedFault struct {
	Line        int64  `json:"line" jsonschema:"line in the file" rule:"min=1;max=9007199254740991"`
	Severity    string `json:"severity" jsonschema:"low, medium or high" rule:"enum=low|medium|high"`
	Description string `json:"description" jsonschema:"what is wrong" rule:"minlen=1;maxlen=4096"`
	Suggestion  string `json:"suggestion,omitempty" jsonschema:"what to do" rule:"maxlen=4096"`
}

// NextProbe is a place to look next.
type NextProbe struct {
	Path     string `json:"path" jsonschema:"path in the repository" rule:"minlen=1;maxlen=1024"`
	Reason   string `json:"reason" jsonschema:"why" rule:"minlen=1;maxlen=4096"`
	Priority string `json:"priority" jsonschema:"low, medium or high" rule:"enum=low|medium|high;default=medium"`
}

func (r *CodeChunkRequest) check() error {
	if r.Chunk.EndLine < r.Chunk.StartLine {
		return &FieldError{"chunk.end_line", "is before start_line"}
	}
	return nil
}

func (r *CodeChunkResult) check() error { return nil }

func (r *CodeChunkResult) checkAgainst(req *CodeChunkRequest) error {
	limits := req.OutputConstraints
	for _, c := range []struct {
		field      string
		got, limit int64
	}{
		{"summary", int64(len([]rune(r.Summary))), limits.MaxSummaryLength},
		{"symbols", int64(len(r.Symbols)), limits.MaxSymbols},
		{"suspected_faults", int64(len(r.SuspectedFaults)), limits.MaxFaults},
		{"recommended_next_probes", int64(len(r.RecommendedNextProbes)), limits.MaxNextProbes},
	} {
		if c.limit > 0 && c.got > c.limit {
			return &FieldError{c.field, fmt.Sprintf("is %d long, at most %d was ordered", c.got, c.limit)}
		}
	}

	outside := func(line int64) bool { return line < req.Chunk.StartLine || line > req.Chunk.EndLine }
	for i, s := range r.Symbols {
		if outside(s.Line) {
			return &FieldError{child(item("symbols", i), "line"), "is outside the chunk"}
		}
	}

	for i, f := range r.SuspectedFaults {
		if outside(f.Line) {
			return &FieldError{child(item("suspected_faults", i), "line"), "is outside the chunk"}
		}
	}

	return nil
}
