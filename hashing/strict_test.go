package hashing

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"
)

func reasonOf(err error) Reason {
	var s *SyntaxError
	if errors.As(err, &s) {
		return s.Reason
	}
	return ""
}

var refused = []struct {
	name   string
	doc    string
	offset int64
	reason Reason
}{
	{"nothing", "", 0, ReasonEnd},
	{"white space", " \n", 2, ReasonEnd},
	{"byte order mark", "\ufeff{}", 0, ReasonCharacter},
	{"two values", `{} {}`, 3, ReasonTrailing},
	{"trailing comma in array", `[1,]`, 3, ReasonCharacter},
	{"trailing comma in object", `{"a":1,}`, 7, ReasonCharacter},
	{"leading comma", `[,1]`, 1, ReasonCharacter},
	{"no comma", `[1 2]`, 3, ReasonCharacter},
	{"no colon", `{"a" 1}`, 5, ReasonCharacter},
	{"bare key", `{a:1}`, 1, ReasonCharacter},
	{"open array", `[1`, 2, ReasonEnd},
	{"open object", `{"a":1`, 6, ReasonEnd},
	{"object ends at key", `{"a"`, 4, ReasonEnd},
	{"object ends at colon", `{"a":`, 5, ReasonEnd},
	{"wrong bracket", `[1}`, 2, ReasonCharacter},
	{"capital literal", `True`, 0, ReasonCharacter},
	{"cut literal", `[tru`, 1, ReasonCharacter},
	{"NaN", `NaN`, 0, ReasonCharacter},
	{"comment", `[1/**/]`, 2, ReasonCharacter},
	{"single quotes", `'a'`, 0, ReasonCharacter},

	{"duplicate key", `{"a":1,"a":2}`, 7, ReasonDuplicateKey},
	{"duplicate by escape", `{"a":1,"b":2,"\u0061":3}`, 13, ReasonDuplicateKey},
	{"duplicate far apart", `{"b":1,"a":{"b":1},"c":0,"b":2}`, 25, ReasonDuplicateKey},
	{"duplicate below", `[{"x":{"":1,"":2}}]`, 12, ReasonDuplicateKey},

	{"open string", `"abc`, 4, ReasonEnd},
	{"open escape", `"\`, 2, ReasonEnd},
	{"raw newline", "\"a\nb\"", 2, ReasonControl},
	{"raw NUL", "\"\x00\"", 1, ReasonControl},
	{"unknown escape", `"\x41"`, 1, ReasonEscape},
	{"short unicode escape", `"\u12"`, 1, ReasonEscape},
	{"bad hex", `"\u12g4"`, 1, ReasonEscape},
	{"lone high surrogate", `"\ud800"`, 1, ReasonSurrogate},
	{"lone low surrogate", `"a\udc00"`, 2, ReasonSurrogate},
	{"two high surrogates", `"\ud800\ud800"`, 1, ReasonSurrogate},
	{"high and a letter", `"\ud800A"`, 1, ReasonSurrogate},
	{"high and an escape", `"\ud800\n"`, 1, ReasonSurrogate},
	{"lone byte", "\"\xff\"", 1, ReasonUTF8},
	{"cut character", "\"\xe2\x82\"", 1, ReasonUTF8},
	{"cut at the end", "\"\xe2\x82", 1, ReasonUTF8},
	{"encoded surrogate", "\"\xed\xa0\x80\"", 1, ReasonUTF8},
	{"overlong", "\"\xc0\xaf\"", 1, ReasonUTF8},
	{"above U+10FFFF", "\"\xf4\x90\x80\x80\"", 1, ReasonUTF8},
	{"bad UTF-8 in key", "{\"\xff\":1}", 2, ReasonUTF8},

	{"plus sign", `+1`, 0, ReasonCharacter},
	{"leading zero", `01`, 1, ReasonTrailing},
	{"minus alone", `-`, 1, ReasonEnd},
	{"no fraction", `[1.]`, 3, ReasonCharacter},
	{"no integer part", `.5`, 0, ReasonCharacter},
	{"no exponent", `1e`, 2, ReasonEnd},
	{"hex", `0x10`, 1, ReasonTrailing},
	{"2^53", `[9007199254740992]`, 1, ReasonInteger},
	{"-2^53", `[-9007199254740992]`, 1, ReasonInteger},
	{"2^53+1", `9007199254740993`, 0, ReasonInteger},
	{"2^53 as a float", `9007199254740992.0`, 0, ReasonInteger},
	{"2^53 by rounding", `9007199254740991.9`, 0, ReasonInteger},
	{"10^20 by exponent", `1e20`, 0, ReasonInteger},
	{"30 digits", `[1, ` + strings.Repeat("9", 30) + `]`, 4, ReasonInteger},
	{"too large for a double", `1e400`, 0, ReasonRange},
	{"long number", `0.` + strings.Repeat("1", maxNumber), 0, ReasonNumberLength},
	{"endless number", strings.Repeat("1", 1<<20), 0, ReasonNumberLength},

	{"deep", strings.Repeat("[", MaxDepth+1), MaxDepth, ReasonDepth},
	{"deep objects", strings.Repeat(`{"":`, MaxDepth+1), 4 * MaxDepth, ReasonDepth},
}

func TestStrictRefusals(t *testing.T) {
	for _, tt := range refused {
		t.Run(tt.name, func(t *testing.T) {
			doc := []byte(tt.doc)
			want := SyntaxError{Offset: tt.offset, Reason: tt.reason}
			_, canonicalErr := Canonical(doc)
			for door, err := range map[string]error{"Check": Check(doc), "Canonical": canonicalErr, "Parse": new(Object).Parse(doc)} {
				var got *SyntaxError
				if !errors.As(err, &got) {
					t.Errorf("%s: error %v, want %v", door, err, &want)
				} else if got.Offset != want.Offset || got.Reason != want.Reason {
					t.Errorf("%s: %v, want %v", door, got, &want)
				}
			}
		})
	}
}

func TestStrictAccepts(t *testing.T) {
	for _, tt := range []struct{ doc, canonical string }{
		{" null\r\n\t ", `null`},
		{`-0`, `0`},
		{`[0.0,-0e9,0e-400]`, `[0,0,0]`},
		{`[9007199254740991,-9007199254740991]`, `[9007199254740991,-9007199254740991]`},
		{`[1e21,1E+30]`, `[1e+21,1e+30]`},
		{`{"a":1,"A":2,"":3}`, `{"":3,"A":2,"a":1}`},
		{`"\u0000\u001F\u007f\/"`, "\"\\u0000\\u001f\u007f/\""},
		{`"\ud83d\ude00\uFFFD"`, `"😀` + "\ufffd" + `"`},
		{`{"\ue000":1,"\ud83d\ude00":2,"\ud7ff":3}`, "{\"\ud7ff\":3,\"😀\":2,\"\ue000\":1}"},
		{`{"\"":1,"!":2,"\n":3,"#":4}`, `{"\n":3,"!":2,"\"":1,"#":4}`},
		{`{"c":{"z":1,"y":[{"b":1,"a":2}]},"b":[],"a":{}}`, `{"a":{},"b":[],"c":{"y":[{"a":2,"b":1}],"z":1}}`},
		{strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)},
	} {
		for _, e := range engines {
			if got, err := e.canonical([]byte(tt.doc)); err != nil || string(got) != tt.canonical {
				t.Errorf("%s: %s: got %q, %v; want %q", tt.doc, e.name, got, err, tt.canonical)
			}
		}
	}
}

// Version 1.0.1 of gowebpki/jcs turned each of these groups into one text
// (its issue 5): a digest then stands for several documents. The library must
// refuse what is malformed by itself, without our decoder in front.
func TestDistinctInputsStayDistinct(t *testing.T) {
	for _, malformed := range []string{
		`"\ud800"`, `"\udbff"`, `"\udc00"`, `"\ud800\ud800"`, `"\udc00\ud800"`, `"\ud800\u0041"`,
		"\"\xff\"", "\"\xfe\"", "\"\xed\xa0\x80\"",
		`[1 2]`, `[tr ue]`, `0x1p4`, `+1`, `01`, `1_000`, `.5`, `5.`, `{"a":1,"a":2}`,
	} {
		if out, err := jcs.Transform([]byte(malformed)); err == nil {
			t.Errorf("jcs turned %q into %q", malformed, out)
		}
	}
	seen := map[string]string{}
	for _, doc := range []string{
		`"\ufffd"`, `"\ufffd\ufffd"`, `"?"`, `""`, `"\ud83d\ude00"`, `"\\ud83d"`, `"\u0041\u030a"`, `"\u00c5"`,
		`"1"`, `1`, `[1]`, `[[1]]`, `["1"]`, `{"1":1}`, `12`, `[1,2]`, `null`, `"null"`, `[null]`, `{}`, `[]`, `[{}]`,
		`9007199254740991`, `9007199254740990`, `1e21`, `1.0000000000000001e21`,
	} {
		out, err := Canonical([]byte(doc))
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		if other, taken := seen[string(out)]; taken {
			t.Errorf("%s and %s both become %s", other, doc, out)
		}
		seen[string(out)] = doc
	}
}

// ownReasons are refusals that RFC 8259 does not ask for.
var ownReasons = map[Reason]bool{
	ReasonInteger: true, ReasonRange: true, ReasonNumberLength: true, ReasonDepth: true,
}

// FuzzEngines holds the three engines and two decoders against each other.
func FuzzEngines(f *testing.F) {
	for _, tt := range refused {
		if len(tt.doc) < 100 {
			f.Add([]byte(tt.doc))
		}
	}
	f.Add([]byte(`{"c":{"z":1,"y":[{"b":1e-7,"a":2.50}]},"\u20ac":"\ud83d\ude00\n\u0001","a":{"\ue000":1,"\ud83d\ude00":2}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		err := Check(doc)
		if err != nil {
			reason := reasonOf(err)
			if reason == "" {
				t.Fatalf("untyped refusal: %v", err)
			}
			if !ownReasons[reason] && jsontext.Value(doc).IsValid() {
				t.Fatalf("%v, but jsontext accepts", err)
			}
			return
		}
		if !json.Valid(doc) || !jsontext.Value(doc).IsValid() {
			t.Fatal("Check accepts what encoding/json or jsontext refuses")
		}
		first := canonicalOf(t, engines[0].canonical, doc)
		for _, e := range engines[1:] {
			if got := canonicalOf(t, e.canonical, doc); !bytes.Equal(got, first) {
				t.Fatalf("jcs: %q, %s: %q", first, e.name, got)
			}
		}
		if again := canonicalOf(t, Canonical, first); !bytes.Equal(again, first) {
			t.Fatalf("not idempotent: %q, then %q", first, again)
		}
	})
}

func canonicalOf(t *testing.T, canonical func([]byte) ([]byte, error), doc []byte) []byte {
	t.Helper()
	out, err := canonical(doc)
	if err != nil {
		t.Fatalf("%q: %v", doc, err)
	}
	return out
}
