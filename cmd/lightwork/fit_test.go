package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestWrapped(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"short":                  "short",
		"one two three":          "one two\n--three",
		"abcdefghijklmnop q":     "abcdefghijklmnop\n--q",
		"a b c d e f g h i j k ": "a b c d\n--e f g h\n--i j k",
	} {
		if got := wrapped(text, "--", 9); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A pipe gets all of a table; only a terminal has a width.
func TestTableElsewhereIsWhole(t *testing.T) {
	var out bytes.Buffer
	w := newTable(&out)
	fmt.Fprintln(w, "A\tB")
	fmt.Fprintln(w, "long\t"+strings.Repeat("x", 200))
	if err := w.Flush(); err != nil || out.String() != "A     B\nlong  "+strings.Repeat("x", 200)+"\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
