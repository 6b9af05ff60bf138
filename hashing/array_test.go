package hashing

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// Long documents grow every buffer of the engine, and cross the ends of its runs
// of plain text.
func TestLongDocuments(t *testing.T) {
	for name, doc := range map[string]string{
		"long string":        `"` + strings.Repeat("é€😀\\n", 40_000) + `"`,
		"long key":           `{"b` + strings.Repeat("x", 200_000) + `":1,"a":2}`,
		"many members":       manyMembers(5_000),
		"array of objects":   "[" + strings.TrimSuffix(strings.Repeat(`{"b":1.50,"a":[true,null]},`, 20_000), ",") + "]",
		"numbers":            "[" + strings.TrimSuffix(strings.Repeat("12345678.25, ", 20_000), ", ") + "]",
		"escapes everywhere": `"` + strings.Repeat(`\ud83d\ude00\u20ac\t`, 10_000) + `"`,
		"white space":        strings.Repeat(" ", 100_000) + "1" + strings.Repeat("\n", 100_000),
		"nested":             strings.Repeat(`{"b":1,"a":[`, 60) + strings.Repeat(`]}`, 60),
	} {
		want, err := jcsCanonical([]byte(doc))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := Strict([]byte(doc)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v, or another text than the reference's", name, err)
		}
	}
}

func TestArrayHasher(t *testing.T) {
	var a ArrayHasher
	if got, want := a.Sum(), Bytes([]byte("[]")); got != want {
		t.Errorf("empty: %v, want %v", got, want)
	}
	var doc strings.Builder
	var o Object
	for i := range 50 {
		element := fmt.Sprintf(` {"i":%d, "b":[%d.0], "a":"\u00e9"} `, i, i)
		if i > 0 {
			doc.WriteByte(',')
		}
		doc.WriteString(element)
		if err := o.Parse([]byte(element)); err != nil {
			t.Fatal(err)
		}
		a.AddObject(&o)
		want, err := Sum([]byte("[" + doc.String() + "]"))
		if err != nil {
			t.Fatal(err)
		}
		// Twice: asking must not change the state.
		for range 2 {
			if got := a.Sum(); got != want {
				t.Fatalf("after %d elements: %v, want %v", i+1, got, want)
			}
		}
	}
}

func TestArrayHasherReusesBuffers(t *testing.T) {
	var a ArrayHasher
	var o Object
	element := []byte(`{"b":1,"a":[{"y":"text","x":2.25}]}`)
	add := func() {
		_ = o.Parse(element)
		a.AddObject(&o)
	}
	add()
	if n := testing.AllocsPerRun(100, add); n > 0 {
		t.Errorf("%v allocations an element", n)
	}
}

func FuzzCompareUTF16(f *testing.F) {
	f.Add("\ue000", "😀")
	f.Add("a😀", "a\uffff")
	f.Add("\ud7ff", "\U00010000")
	f.Fuzz(func(t *testing.T, a, b string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			return
		}
		got := compareUTF16([]byte(a), []byte(b))
		want := compareUnits(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		if sign(got) != sign(want) {
			t.Errorf("compare(%q, %q) = %d, want sign %d", a, b, got, want)
		}
	})
}

func compareUnits(a, b []uint16) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return int(a[i]) - int(b[i])
		}
	}
	return len(a) - len(b)
}

func sign(n int) int { return max(-1, min(1, n)) }

// manyMembers makes an object whose keys come in no order.
func manyMembers(n int) string {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"k%d":%d`, (i*7919)%n, i)
	}
	b.WriteByte('}')
	return b.String()
}
