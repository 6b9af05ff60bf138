package sandbox

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// summaryName is the artifact that lists a job's changes to its repository. If the
// commands write a file of this name themselves, theirs is delivered instead.
const summaryName = "PR_SUMMARY.md"

// Bounds of a summary: rows of each table, and characters of a name in it.
const (
	summaryRows = 500
	summaryCell = 200
)

// change is one changed file.
type change struct {
	path          string
	before, after *treeFile // nil: does not exist
	plus, minus   int       // lines
	counted       bool
}

func (c change) what() string {
	switch {
	case c.before == nil:
		return "added"
	case c.after == nil:
		return "removed"
	}
	return "changed"
}

// changes lists the changed files, ordered by path.
func changes(before, after tree) []change {
	all := maps.Clone(before)
	maps.Copy(all, after)

	var list []change
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := change{path: name}
		if f, ok := before[name]; ok {
			c.before = &f
		}
		if f, ok := after[name]; ok {
			c.after = &f
		}
		if c.before != nil && c.after != nil && c.before.same(*c.after) {
			continue
		}
		c.count()
		list = append(list, c)
	}

	return list
}

// count counts the changed lines if both versions are short texts.
func (c *change) count() {
	var old, now []byte
	if c.before != nil {
		old = c.before.text
	}
	if c.after != nil {
		now = c.after.text
	}
	if c.before != nil && old == nil || c.after != nil && now == nil {
		return
	}
	c.counted = true

	body := false // the lines before the first @@ are file names
	for line := range bytes.Lines(diff.Diff("before", old, "after", now)) {
		switch {
		case line[0] == '@':
			body = true
		case body && line[0] == '+':
			c.plus++
		case body && line[0] == '-':
			c.minus++
		}
	}
}

// summarize writes the changes and the exit codes so that equal files give equal
// bytes on every machine; nil if nothing changed.
func summarize(p *plan, codes []int, before, after tree) []byte {
	list := changes(before, after)
	if len(list) == 0 {
		return nil
	}
	kinds, plus, minus, whole := map[string]int{}, 0, 0, true
	for _, c := range list {
		kinds[c.what()]++
		plus, minus, whole = plus+c.plus, minus+c.minus, whole && c.counted
	}

	var b bytes.Buffer
	fmt.Fprintf(&b, "# Changes to the repository\n\nWritten by the sandbox from the files before and after the commands, not by the commands.\n\n")
	fmt.Fprintf(&b, "%d added, %d changed, %d removed; +%d -%d lines", kinds["added"], kinds["changed"], kinds["removed"], plus, minus)
	if !whole {
		b.WriteString(", besides files that are no short text")
	}
	b.WriteString("\n\n## Files\n\n| | file | + | - | SHA-256 before | SHA-256 after |\n|---|---|---|---|---|---|\n")

	for i, c := range list {
		if i == summaryRows {
			fmt.Fprintf(&b, "\nand %d more\n", len(list)-i)
			break
		}
		plus, minus := "", ""
		if c.counted {
			plus, minus = strconv.Itoa(c.plus), strconv.Itoa(c.minus)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", c.what(), cell(c.path), plus, minus, c.before.cell(), c.after.cell())
	}

	b.WriteString("\n## Commands\n\n| | command | exit code |\n|---|---|---|\n")
	for i, code := range codes {
		verdict := "PASS"
		if code != 0 {
			verdict = "FAIL"
		}
		fmt.Fprintf(&b, "| %s | %s | %d |\n", verdict, cell(p.Commands[i].Cmd), code)
	}

	return b.Bytes()
}

// cell formats one version of a changed file.
func (f *treeFile) cell() string {
	switch {
	case f == nil:
		return ""
	case f.kind == '?':
		return "cannot be read"
	case f.kind == 'l':
		return f.digest.Hex() + " (symlink)"
	case f.kind == 'x':
		return f.digest.Hex() + " (executable)"
	}
	return f.digest.Hex()
}

// cell formats untrusted text as one table cell without markup.
func cell(text string) string {
	quoted := strconv.QuoteToASCII(text)
	if len(quoted) > summaryCell {
		quoted = strings.TrimRight(quoted[:summaryCell], "\\") + "...\""
	}
	return "`" + strings.NewReplacer("|", `\x7c`, "`", `\x60`).Replace(quoted) + "`"
}

// sendSummary sends the list of changes as one more artifact. It is optional: if
// the files cannot be compared, it is left out and the job is not affected.
func sendSummary(p *plan, codes []int, before tree, found []artifactHeader, w *frameWriter) error {
	if before == nil || len(found) == maxArtifacts {
		return nil
	}

	room := int64(maxArtifactBytes)
	for _, a := range found {
		if path.Base(a.Path) == summaryName {
			return nil
		}
		room -= a.Size
	}

	after, err := readTree(p.MountPath)
	if err != nil {
		return nil
	}
	doc := summarize(p, codes, before, after)
	if len(doc) == 0 || int64(len(doc)) > room {
		return nil
	}
	if err := w.writeJSON(frameArtifact, artifactHeader{Path: summaryName, Size: int64(len(doc))}); err != nil {
		return err
	}

	for piece := range slices.Chunk(doc, chunkSize) {
		if err := w.write(frameData, piece); err != nil {
			return err
		}
	}

	return w.write(frameData, nil)
}
