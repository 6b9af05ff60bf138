// Package code analyses chunks of source files without a model: symbols,
// complexity, suspicious constructs and where to look next.
//
// Go is parsed with go/parser. Python, JavaScript, TypeScript and Rust are
// split into tokens by the rules of each language, comments, strings, templates,
// regular expressions and all, and read as declarations and blocks; that works
// for a chunk that begins or ends in the middle of anything, too. In any other
// language what braces and the usual keywords tell is found.
//
// The result is a pure function of the request. Time and memory grow in
// proportion to the chunk: every look ahead is bounded, and nothing recurses by
// what the chunk says but the Go parser, which is given only what is shallow.
package code

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/analysis"
	"github.com/lightwork-market/lightwork/schemas"
)

// Model is the name that results carry as their model. A change of any result
// is a new version.
const Model = "lightwork/code-analyser@1"

// Bounds of a result where the request has none, or larger ones.
const (
	maxItems   = 1024 // of each list, as the schema has it
	maxSummary = 4096 // characters
	maxName    = 512  // bytes
	maxProbes  = 32
)

// How sure a result is, by what it rests on. These are ranks, not measured
// frequencies.
const (
	sureParsed  = 0.7 // a grammar accepted the chunk
	sureWhole   = 0.6 // all brackets and literals of a known language pair
	sureCut     = 0.4 // a known language, but the chunk is cut
	sureUnknown = 0.25
	sureEmpty   = 0.1 // there is nothing to analyse
)

// Analyse answers a request that the schema accepted. Lines of the content
// beyond end_line are left out.
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

// linesOf is the content in valid UTF-8, at most as many lines as the chunk
// says it has.
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

// bound cuts names to what the schema allows, drops what lies outside the
// chunk, and gives faults their lines in the file and their order.
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

// limit is what a request orders, at most what the schema allows.
func limit(ordered int64, most int) int {
	if ordered > 0 && ordered < int64(most) {
		return int(ordered)
	}
	return most
}

// worst keeps the most severe faults, in the order of their lines.
func (u *unit) worst(ordered int64) []schemas.SuspectedFault {
	all := slices.Clone(u.faults)
	slices.SortStableFunc(all, func(a, b schemas.SuspectedFault) int { return rank(a.Severity) - rank(b.Severity) })
	all = all[:min(len(all), limit(ordered, maxItems))]
	slices.SortStableFunc(all, func(a, b schemas.SuspectedFault) int { return cmp.Compare(a.Line, b.Line) })
	return append([]schemas.SuspectedFault{}, all...)
}

// choose keeps the symbols that are closest to the task, in the order of their
// lines.
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

// byTask orders the symbols: those that share most words with the task, then
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

// shared counts the words of s that the task has too.
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
	case !u.language.known:
		return sureUnknown
	case !u.whole():
		return sureCut
	}
	return sureWhole
}
