package app

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
		if got := Wrapped(text, "--", 9); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A pipe gets all of a table; only a terminal has a width.
func TestTableElsewhereIsWhole(t *testing.T) {
	var out bytes.Buffer
	w := NewTable(&out)
	fmt.Fprintln(w, "A\tB")
	fmt.Fprintln(w, "long\t"+strings.Repeat("x", 200))
	if err := w.Flush(); err != nil || out.String() != "A     B\nlong  "+strings.Repeat("x", 200)+"\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// What became of a job is seen on a narrow terminal too: what can be missed
// makes room for it, the first that is named first, and no more than is needed.
func TestTableLeavesOutWhatCanBeMissed(t *testing.T) {
	const cells = "REQUEST\tADDED\tSTATE\tREASON\n0123456789\t2026-01-01 10:00:00\tfailed\tdeadline: too slow\n"
	for width, want := range map[int]string{
		80: "REQUEST     ADDED                STATE   REASON\n0123456789  2026-01-01 10:00:00  failed  deadline: too slow\n",
		58: "REQUEST     STATE   REASON\n0123456789  failed  deadline: too slow\n",
		36: "STATE   REASON\nfailed  deadline: too slow\n",
		20: "STATE   REASON\nfailed  deadline: t…\n",
	} {
		if got := fitted(cells, []int{1, 0}, width); got != want {
			t.Errorf("%d wide:\n%swant\n%s", width, got, want)
		}
	}
	if got := fitted("A\tB\nx\tyyyy\n", []int{1}, 4); got != "A\nx\n" {
		t.Errorf("without its last column: %q", got)
	}
}
