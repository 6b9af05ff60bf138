package hashing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"
	"unicode/utf8"
)

func TestSumReaderEqualsSum(t *testing.T) {
	for name, doc := range map[string]string{
		"long string":        `"` + strings.Repeat("é€😀\\n", 40_000) + `"`,
		"long key":           `{"b` + strings.Repeat("x", 3*windowSize) + `":1,"a":2}`,
		"many members":       manyMembers(5_000),
		"array of objects":   "[" + strings.TrimSuffix(strings.Repeat(`{"b":1.50,"a":[true,null]},`, 20_000), ",") + "]",
		"numbers":            "[" + strings.TrimSuffix(strings.Repeat("12345678.25, ", 20_000), ", ") + "]",
		"escapes everywhere": `"` + strings.Repeat(`\ud83d\ude00\u20ac\t`, 10_000) + `"`,
		"white space":        strings.Repeat(" ", 2*windowSize) + "1" + strings.Repeat("\n", 2*windowSize),
		"nested":             strings.Repeat(`{"b":1,"a":[`, 60) + strings.Repeat(`]}`, 60),
	} {
		want, err := Sum([]byte(doc))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, r := range []io.Reader{
			strings.NewReader(doc),
			iotest.HalfReader(strings.NewReader(doc)),
			iotest.OneByteReader(strings.NewReader(doc)),
			iotest.DataErrReader(strings.NewReader(doc)),
		} {
			if got, err := SumReader(r, int64(len(doc))); err != nil || got != want {
				t.Errorf("%s: %T: %v, %v; want %v", name, r, got, err, want)
			}
		}
	}
}

// A character, an escape and a number may be cut anywhere by the window.
func TestSumReaderWindowEdge(t *testing.T) {
	const tail = `😀\ud83d\ude00","k":-12345.678e-3,"a":true}`
	for pad := windowSize - 60; pad <= windowSize; pad++ {
		doc := `{"z":"` + strings.Repeat("p", pad) + tail
		want, err := Sum([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := SumReader(strings.NewReader(doc), int64(len(doc))); err != nil || got != want {
			t.Fatalf("pad %d: %v, %v; want %v", pad, got, err, want)
		}
	}
}

func TestSumReaderLimit(t *testing.T) {
	const doc = `[1,2,3]  `
	n := int64(len(doc))
	if _, err := SumReader(strings.NewReader(doc), n); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	for limit := range n {
		if _, err := SumReader(strings.NewReader(doc), limit); !errors.Is(err, ErrTooLarge) {
			t.Errorf("limit %d: %v, want ErrTooLarge", limit, err)
		}
	}
	// The limit bounds what is read, not what is there.
	endless := &countingReader{r: neverEnds{}}
	if _, err := SumReader(endless, 1000); !errors.Is(err, ErrTooLarge) {
		t.Errorf("endless: %v", err)
	}
	if endless.n > 1001 {
		t.Errorf("read %d bytes past a limit of 1000", endless.n)
	}
}

func TestSumReaderReportsReadErrors(t *testing.T) {
	broken := errors.New("broken pipe")
	for _, head := range []string{"", " ", "[", `"abc`, `[12`, `[tr`, `{"a":`, "1", "1 "} {
		r := io.MultiReader(strings.NewReader(head), iotest.ErrReader(broken))
		if _, err := SumReader(r, 100); !errors.Is(err, broken) {
			t.Errorf("after %q: %v, want the reader's error", head, err)
		}
	}
}

// A long array of small objects must not gather in memory.
func TestSumReaderMemoryIsBounded(t *testing.T) {
	const row, rows = `{"seq":123456,"b":"some text here","a":[1,2.5,null]},`, 400_000
	doc := io.MultiReader(strings.NewReader("["), &repeater{text: row, left: rows}, strings.NewReader("0]"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := SumReader(doc, 1<<30); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("%d bytes allocated for a document of %d", got, len(row)*rows)
	}
}

func TestArrayHasher(t *testing.T) {
	var a ArrayHasher
	if got, want := a.Sum(), Bytes([]byte("[]")); got != want {
		t.Errorf("empty: %v, want %v", got, want)
	}
	var doc strings.Builder
	for i := range 50 {
		element := fmt.Sprintf(` {"i":%d, "b":[%d.0], "a":"\u00e9"} `, i, i)
		if i > 0 {
			doc.WriteByte(',')
		}
		doc.WriteString(element)
		if err := a.Add([]byte(element)); err != nil {
			t.Fatal(err)
		}
		// A refused element, wherever it breaks, leaves no trace.
		for _, bad := range []string{`{"z":1,"z":2}`, `{"a":[1,{"b":`, `1 2`, ``} {
			if err := a.Add([]byte(bad)); err == nil {
				t.Fatalf("%s was accepted", bad)
			}
		}
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

func TestArrayHasherFirstElementRefused(t *testing.T) {
	var a ArrayHasher
	if err := a.Add([]byte(`[1,`)); err == nil {
		t.Fatal("accepted")
	}
	if a.Sum() != Bytes([]byte("[]")) {
		t.Error("a refused first element counts")
	}
	if err := a.Add([]byte(`1`)); err != nil {
		t.Fatal(err)
	}
	if a.Sum() != Bytes([]byte("[1]")) {
		t.Error("array differs after a refused first element")
	}
}

func TestArrayHasherReusesBuffers(t *testing.T) {
	var a ArrayHasher
	element := []byte(`{"b":1,"a":[{"y":"text","x":2.25}]}`)
	if err := a.Add(element); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = a.Add(element) }); n > 0 {
		t.Errorf("%v allocations an element", n)
	}
}

func FuzzCompareUTF16(f *testing.F) {
	f.Add("\ue000", "😀")
	f.Add("a😀", "a\uffff")
	f.Add("\ud7ff", "\U00010000")
	f.Fuzz(func(t *testing.T, a, b string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			t.Skip()
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

// repeater yields text left times.
type repeater struct {
	text string
	rest string
	left int
}

func (r *repeater) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.left == 0 {
			return 0, io.EOF
		}
		r.left--
		r.rest = r.text
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

type countingReader struct {
	r io.Reader
	n int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

type neverEnds struct{}

func (neverEnds) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '['
	}
	return len(p), nil
}
