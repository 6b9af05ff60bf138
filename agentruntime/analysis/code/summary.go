package code

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/schemas"
)

// maxNames bounds each list of names in a summary.
const maxNames = 8

// summary describes the findings in sentences, the most important first.
func (u *unit) summary(req *schemas.CodeChunkRequest) string {
	parts := []string{u.headline(req)}
	for _, part := range []string{u.defines(), u.uses(), u.complexest(req), u.closest(req), u.suspicions()} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return cutRunes(strings.Join(parts, " "), limit(req.OutputConstraints.MaxSummaryLength, maxSummary))
}

func (u *unit) headline(req *schemas.CodeChunkRequest) string {
	s := fmt.Sprintf("Lines %d to %d of %s, %s", req.Chunk.StartLine, req.Chunk.EndLine, req.Chunk.Path, u.language.name)
	if u.container != "" {
		s += ", package " + u.container
	}

	switch {
	case len(u.tokens) == 0 && len(u.comments) == 0:
		return s + ": empty."
	case len(u.tokens) == 0:
		return s + ": only comments."
	case u.opened > 0:
		return s + ", beginning inside a block."
	case u.closed > 0 || u.unclosed:
		return s + ", ending inside a block or literal."
	}

	return s + "."
}

// defines counts the symbols by kind, in the order of first appearance, and names
// some.
func (u *unit) defines() string {
	var kinds []string
	names := map[string][]string{}
	for _, s := range u.symbols {
		if names[s.kind] == nil {
			kinds = append(kinds, s.kind)
		}
		names[s.kind] = append(names[s.kind], s.name)
	}

	if len(kinds) == 0 {
		return "Defines nothing."
	}
	var parts []string
	for _, k := range kinds {
		parts = append(parts, fmt.Sprintf("%s (%s)", count(len(names[k]), k), enumerate(names[k])))
	}
	return "Defines " + strings.Join(parts, ", ") + "."
}

func count(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "s"):
		return fmt.Sprintf("%d %ses", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// enumerate lists the first names and counts the rest.
func enumerate(all []string) string {
	var b strings.Builder
	for i, s := range all[:min(len(all), maxNames)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(cut(s, 80))
	}
	if more := len(all) - maxNames; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

func (u *unit) uses() string {
	list := slices.Clone(u.imports)
	slices.Sort(list)
	if list = slices.Compact(list); len(list) == 0 {
		return ""
	}
	return "Imports " + enumerate(list) + "."
}

// complexest names the function with the most decisions.
func (u *unit) complexest(req *schemas.CodeChunkRequest) string {
	best := -1
	for i, s := range u.symbols {
		if s.callable() && s.decisions > 1 && (best < 0 || s.decisions > u.symbols[best].decisions) {
			best = i
		}
	}

	if best < 0 {
		return ""
	}
	s := u.symbols[best]
	return fmt.Sprintf("Most complex: %s at line %d, cyclomatic complexity %d in %s.",
		cut(s.name, 80), req.Chunk.StartLine+int64(s.line), s.decisions, count(s.lines(), "line"))
}

// closest names the symbols that share words with the task.
func (u *unit) closest(req *schemas.CodeChunkRequest) string {
	words := taskWords(req)
	var names []string
	for _, i := range u.byTask(req) {
		if s := u.symbols[i]; shared(words, s.name+" "+s.doc) > 0 && len(names) < 3 {
			names = append(names, fmt.Sprintf("%s (line %d)", cut(s.name, 80), req.Chunk.StartLine+int64(s.line)))
		}
	}
	if names == nil {
		return ""
	}
	return "Closest to the task: " + strings.Join(names, ", ") + "."
}

func (u *unit) suspicions() string {
	n := map[string]int{}
	for _, f := range u.faults {
		n[f.Severity]++
	}

	var parts []string
	for _, severity := range [...]string{high, medium, low} {
		if n[severity] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[severity], severity))
		}
	}

	if parts == nil {
		return "No fault is suspected."
	}
	return "Suspected faults: " + strings.Join(parts, ", ") + "."
}

// cutRunes shortens s to n characters.
func cutRunes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}

// probes are the places to look next: the missing parts of an incomplete chunk, the
// files that the chunk names, and the file's tests.
func (u *unit) probes(req *schemas.CodeChunkRequest) []schemas.NextProbe {
	all := []schemas.NextProbe{}
	seen := map[string]bool{}
	add := func(file, reason, priority string) {
		outside := strings.HasPrefix(file, "..") || strings.HasPrefix(file, "/") || file == "." || file == ""
		if outside || len(file) > 1024 || seen[file+reason] || seen[file] && file != req.Chunk.Path {
			return
		}
		seen[file], seen[file+reason] = true, true
		all = append(all, schemas.NextProbe{Path: file, Reason: reason, Priority: priority})
	}
	if u.opened > 0 && req.Chunk.StartLine > 1 {
		add(req.Chunk.Path, fmt.Sprintf("the block that line %d is in begins before it", req.Chunk.StartLine), high)
	}
	if u.closed > 0 || u.unclosed {
		add(req.Chunk.Path, fmt.Sprintf("what is open at line %d ends after it", req.Chunk.EndLine), high)
	}

	words := taskWords(req)
	for _, file := range u.near {
		priority := medium
		if shared(words, file) > 0 {
			priority = high
		}
		add(file, "the chunk uses it", priority)
	}

	if test := u.testFile(); test != "" {
		add(test, "tests of this file, by the usual name", low)
	}
	slices.SortStableFunc(all, func(a, b schemas.NextProbe) int { return rank(a.Priority) - rank(b.Priority) })
	return all[:min(len(all), limit(req.OutputConstraints.MaxNextProbes, maxProbes))]
}

// testFile returns the usual path of the file's tests.
func (u *unit) testFile() string {
	dir, file := path.Split(u.path)
	ext := path.Ext(file)
	stem := strings.TrimSuffix(file, ext)
	switch {
	case u.isTest() || stem == "":
	case ext == ".go":
		return dir + stem + "_test.go"
	case ext == ".py":
		return dir + "test_" + file
	case ext == ".js" || ext == ".ts" || ext == ".jsx" || ext == ".tsx":
		return dir + stem + ".test" + ext
	}

	return ""
}

// joinPath resolves a path that a file gives relative to itself.
func joinPath(file, relative string) string { return path.Join(path.Dir(file), relative) }
