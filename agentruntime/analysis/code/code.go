// Package code analyses chunks of source files without a model. It finds symbols,
// complexity, suspicious constructs and places to look next.
//
// Go is parsed with go/parser. Python, JavaScript, TypeScript and Rust are split
// into tokens by the rules of each language, including comments, strings, templates
// and regular expressions, and are read as declarations and blocks. That also works
// for chunks that begin or end in the middle of a construct. For other languages
// the package relies on braces and common keywords.
//
// The result is a pure function of the request. Time and memory are proportional to
// the chunk: every lookahead is bounded, and only the Go parser recurses on the
// input, which is checked to be shallow before.
package code

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/analysis"
	"github.com/lightwork-market/lightwork/schemas"
)

// Model is the model name in results. Any change of a result requires a new
// version.
const Model = "lightwork/code-analyser@1"

// Bounds of a result if the request has none, or higher ones.
const (
	maxItems   = 1024 // of each list, as in the schema
	maxSummary = 4096 // characters
	maxName    = 512  // bytes
	maxProbes  = 32
)

// Confidence of a result by its basis. The values only rank results; they are not
// measured frequencies.
const (
	sureParsed  = 0.7 // a grammar accepted the chunk
	sureWhole   = 0.6 // a known language, with all brackets and literals paired
	sureCut     = 0.4 // a known language, but the chunk is incomplete
	sureUnknown = 0.25
	sureEmpty   = 0.1 // there is nothing to analyse
)

// Analyse answers a request that the schema has accepted. Lines of the content
// after end_line are ignored.
func Analyse(req *schemas.CodeChunkRequest) *schemas.CodeChunkResult {
	content := linesOf(req.Chunk)
	u := &unit{path: req.Chunk.Path, language: languageOf(req.Chunk.Language, req.Chunk.Path, content)}
	u.source = lex(content, u.language.syntax)
	u.language.scan(u, content)
	u.common(content)
	u.bound(req)
	faults := u.worst(req.OutputConstraints.MaxFaults)
	r := &schemas.CodeChunkResult{
		Summary:               u.summary(req),
		Symbols:               u.choose(req),
		SuspectedFaults:       faults,
		RecommendedNextProbes: u.probes(req),
		Confidence:            u.confidence(),
		Provenance: schemas.Provenance{
			ModelID: Model,
			Tokens:  &schemas.Tokens{Input: int64(len(u.tokens) + len(u.comments))},
		},
	}
	return r
}

// linesOf returns the content as valid UTF-8, with at most as many lines as the
// chunk declares.
func linesOf(c schemas.CodeChunk) string {
	content := strings.ToValidUTF8(c.Content, "\uFFFD")
	left := c.EndLine - c.StartLine + 1
	at := 0
	for ; left > 0 && at < len(content); left-- {
		n := strings.IndexByte(content[at:], '\n')
		if n < 0 {
			return content
		}
		at += n + 1
	}
	return content[:at]
}

// bound cuts names to the schema's lengths, drops items outside the chunk, converts
// the lines of faults to lines of the file, and sorts them.
func (u *unit) bound(req *schemas.CodeChunkRequest) {
	last := int(min(req.Chunk.EndLine-req.Chunk.StartLine, int64(u.lines-1)))
	u.symbols = slices.DeleteFunc(u.symbols, func(s symbol) bool { return s.name == "" || s.line < 0 || s.line > last })

	for i := range u.symbols {
		s := &u.symbols[i]
		s.name = cut(s.name, maxName)
		s.last = max(s.line, min(s.last, last))
	}

	u.faults = slices.DeleteFunc(u.faults, func(f schemas.SuspectedFault) bool { return f.Line < 0 || f.Line > int64(last) })
	for i := range u.faults {
		u.faults[i].Line += req.Chunk.StartLine
	}
	slices.SortStableFunc(u.faults, func(a, b schemas.SuspectedFault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), strings.Compare(a.Description, b.Description))
	})
	u.faults = slices.Compact(u.faults)
}

// limit returns the limit of the request, or that of the schema if it is lower.
func limit(ordered int64, most int) int {
	if ordered > 0 && ordered < int64(most) {
		return int(ordered)
	}
	return most
}

// worst keeps the most severe faults, ordered by line.
func (u *unit) worst(ordered int64) []schemas.SuspectedFault {
	all := slices.Clone(u.faults)
	slices.SortStableFunc(all, func(a, b schemas.SuspectedFault) int { return rank(a.Severity) - rank(b.Severity) })
	all = all[:min(len(all), limit(ordered, maxItems))]
	slices.SortStableFunc(all, func(a, b schemas.SuspectedFault) int { return cmp.Compare(a.Line, b.Line) })
	return append([]schemas.SuspectedFault{}, all...)
}

// choose keeps the symbols closest to the task, ordered by line.
func (u *unit) choose(req *schemas.CodeChunkRequest) []schemas.CodeSymbol {
	order := u.byTask(req)
	order = order[:min(len(order), limit(req.OutputConstraints.MaxSymbols, maxItems))]
	slices.Sort(order)
	all := []schemas.CodeSymbol{}
	for _, i := range order {
		s := &u.symbols[i]
		all = append(all, schemas.CodeSymbol{
			Name: s.name, Kind: s.kind, Line: req.Chunk.StartLine + int64(s.line), Description: s.describe(req.Chunk.StartLine),
		})
	}
	return all
}

// byTask orders the symbols: first those that share most words with the task, then
// public ones, then by line.
func (u *unit) byTask(req *schemas.CodeChunkRequest) []int {
	words := taskWords(req)
	score := make([]int, len(u.symbols))
	order := make([]int, len(u.symbols))
	for i, s := range u.symbols {
		order[i] = i
		score[i] = 2 * shared(words, s.name+" "+s.doc)
		if s.public {
			score[i]++
		}
	}

	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(score[b], score[a]), cmp.Compare(u.symbols[a].line, u.symbols[b].line))
	})
	return order
}

func taskWords(req *schemas.CodeChunkRequest) map[string]bool {
	words := map[string]bool{}
	for _, s := range analysis.Subjects(req.Task + " " + req.UserTask) {
		words[s] = true
	}
	return words
}

// shared counts the words of s that also occur in the task.
func shared(words map[string]bool, s string) int {
	n := 0
	seen := map[string]bool{}
	for _, w := range analysis.Subjects(s) {
		if words[w] && !seen[w] {
			n++
		}
		seen[w] = true
	}
	return n
}

func (u *unit) confidence() float64 {
	switch {
	case len(u.tokens) == 0:
		return sureEmpty
	case u.parsed:
		return sureParsed
	case !u.language.hasRules:
		return sureUnknown
	case !u.whole():
		return sureCut
	}
	return sureWhole
}
