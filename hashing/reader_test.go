package hashing

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
)

// small is a document with everything that a Reader reads.
type small struct {
	A *string `json:"a"`
	B int64   `json:"b"`
	C *Digest `json:"c"`
	D Digest  `json:"d"`
	E []inner `json:"e"`
}

type inner struct {
	X string `json:"x"`
}

func (s *small) read(in *Reader) {
	in.Open("{")
	in.Name("a")
	s.A = in.OptionalText()
	in.Name("b")
	s.B = in.Integer()
	in.Name("c")
	s.C = in.OptionalDigest()
	in.Name("d")
	s.D = in.Digest()
	in.Name("e")
	in.Open("[")
	s.E = []inner{}
	for in.More() {
		in.Open("{")
		in.Name("x")
		s.E = append(s.E, inner{in.Text()})
		in.Close("}")
	}
	in.Close("]")
	in.Close("}")
}

const (
	zeroDigest = `"sha256:0000000000000000000000000000000000000000000000000000000000000000"`
	someDigest = `"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"`
	readable   = `{"a":"é\n\u001f\"\\😀","b":-9007199254740991,"c":` + someDigest + `,"d":` + zeroDigest + `,"e":[{"x":""},{"x":"/"}]}`
)

func TestReader(t *testing.T) {
	in := NewReader([]byte(readable))
	var got small
	got.read(in)
	if !in.Done() || *got.A != "é\n\x1f\"\\😀" || got.B != -maxInteger || got.C.String() != someDigest[1:72] ||
		!got.D.IsZero() || !slices.Equal(got.E, []inner{{""}, {"/"}}) {
		t.Errorf("read %+v, done: %v", got, in.Done())
	}
}

// A Reader takes a document if and only if decoding it strictly, encoding it
// again and bringing that into canonical form gives the same bytes.
func FuzzReader(f *testing.F) {
	f.Add([]byte(readable))
	for _, change := range [][2]string{
		{`é`, `\u00e9`},
		{`\n`, `\u000a`},
		{`\u001f`, `\u001F`},
		{`é`, `\/`},
		{`é`, "\xff"},
		{`é`, "\n"},
		{`é`, `\`},
		{`é`, `\u`},
		{`"é\n\u001f\"\\😀"`, `null`},
		{`"b":`, `"b": `},
		{`-9007199254740991`, `-9007199254740992`},
		{`-9007199254740991`, `-0`},
		{`-9007199254740991`, `00`},
		{`-9007199254740991`, `null`},
		{`-9007199254740991`, `1-1`},
		{someDigest, `null`},
		{zeroDigest, `null`},
		{`abcdef0123456789abcdef"`, `abcdef0123456789abcdeF"`},
		{`{"x":""},`, ``},
		{`{"x":""},{"x":"/"}`, ``},
		{`{"x":""},{"x":"/"}`, `,`},
		{`{"x":""},`, `{"x":""}`},
		{`"/"}]`, `"/"},]`},
		{`]}`, `]`},
		{`]}`, `]}}`},
	} {
		f.Add(bytes.Replace([]byte(readable), []byte(change[0]), []byte(change[1]), 1))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		in := NewReader(doc)
		var got, want small
		got.read(in)
		again, err := []byte(nil), Unmarshal(doc, &want)
		if err == nil {
			again, err = CanonicalValue(want)
		}
		if exact := err == nil && bytes.Equal(again, doc); exact != in.Done() {
			t.Fatalf("%q: read: %v, written again: %q, %v", doc, in.Done(), again, err)
		}
		if !in.Done() {
			return
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if !bytes.Equal(a, b) {
			t.Fatalf("read as %s, decoded as %s", a, b)
		}
	})
}

func TestReaderAllocates(t *testing.T) {
	doc := []byte(readable)
	if n := testing.AllocsPerRun(100, func() {
		in := NewReader(doc)
		var s small
		s.read(in)
	}); n > 8 {
		t.Errorf("%v allocations", n)
	}
}
