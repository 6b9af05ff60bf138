package app

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/internal/display"
)

// Table is columns for a person. On a terminal no line is wider than it: columns
// that spare names are left out as far as needed, then what is last, and can be
// long, is cut. Elsewhere lines are whole.
type Table struct {
	out   io.Writer
	spare []int // columns, from 0, that can be missed: the first goes first
	text  bytes.Buffer
}

// NewTable makes a table that can miss the columns in spare.
func NewTable(out io.Writer, spare ...int) *Table { return &Table{out: out, spare: spare} }

// Write takes lines of cells with tabs between them.
func (t *Table) Write(p []byte) (int, error) { return t.text.Write(p) }

// Flush writes what was collected.
func (t *Table) Flush() error {
	width, _, _ := ScreenSize(t.out)
	_, err := io.WriteString(t.out, fitted(t.text.String(), t.spare, width))
	return err
}

// fitted aligns lines of cells, no line wider than width.
func fitted(cells string, spare []int, width int) string {
	text := aligned(cells, nil)
	for n := 1; n <= len(spare) && widest(text) > width; n++ {
		text = aligned(cells, spare[:n])
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(display.Clip(strings.TrimSuffix(line, "\n"), width) + "\n")
	}
	return b.String()
}

// aligned sets lines of cells as columns, without those that are left out.
func aligned(cells string, without []int) string {
	var text, trimmed strings.Builder

	w := tabwriter.NewWriter(&text, 2, 8, 2, ' ', 0)
	for line := range strings.Lines(cells) {
		var kept []string
		for i, cell := range strings.Split(strings.TrimSuffix(line, "\n"), "\t") {
			if !slices.Contains(without, i) {
				kept = append(kept, cell)
			}
		}
		_, _ = io.WriteString(w, strings.Join(kept, "\t")+"\n") // into memory
	}

	_ = w.Flush()
	for line := range strings.Lines(text.String()) {
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return trimmed.String()
}

func widest(text string) int {
	n := 0
	for line := range strings.Lines(text) {
		n = max(n, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
	}
	return n
}

// Wrapped breaks a text at spaces, so that with the indent before each line
// none is wider than width; a word that is longer stays whole.
func Wrapped(text, indent string, width int) string {
	var b strings.Builder
	column := len(indent)
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > width:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}

	return b.String()
}

// PrintJSON writes v as indented JSON.
func PrintJSON(w io.Writer, v any) error {
	var doc bytes.Buffer
	enc := json.NewEncoder(&doc)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, display.PlainJSON(doc.Bytes()))
	return err
}
