package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table is columns for a person. On a terminal no line is wider than it: what
// is last, and can be long, is cut. Elsewhere lines are whole.
type table struct {
	*tabwriter.Writer
	out  io.Writer
	text bytes.Buffer
}

func newTable(out io.Writer) *table {
	t := &table{out: out}
	t.Writer = tabwriter.NewWriter(&t.text, 2, 8, 2, ' ', 0)
	return t
}

// Flush writes what was collected.
func (t *table) Flush() error {
	if err := t.Writer.Flush(); err != nil {
		return err
	}
	width, _, isScreen := screenSize(t.out)
	for line := range strings.Lines(t.text.String()) {
		line = strings.TrimRight(line, " \n")
		if isScreen {
			line = clipTo(line, width)
		}
		if _, err := fmt.Fprintln(t.out, line); err != nil {
			return err
		}
	}
	return nil
}

// wrapped breaks a text at spaces, so that with the indent before each line
// none is wider than width; a word that is longer stays whole.
func wrapped(text, indent string, width int) string {
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
