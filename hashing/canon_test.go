package hashing

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// canonical reports what canon is to accept: what the engine writes as it is,
// but for names with escapes.
func canonical(doc []byte) (same, escapedName bool) {
	e := newEngine(doc)
	if e.document() != nil || !bytes.Equal(e.out, doc) {
		return false, false
	}
	for dec := jsontext.NewDecoder(bytes.NewReader(e.out)); ; {
		kind, n := dec.StackIndex(dec.StackDepth())
		isName := kind == '{' && n%2 == 0
		if dec.PeekKind() == '{' || dec.PeekKind() == '[' {
			if _, err := dec.ReadToken(); err != nil {
				return true, false
			}
			continue
		}
		value, err := dec.ReadValue()
		if err != nil { // the end of the document, or of an object
			if _, err := dec.ReadToken(); err != nil {
				return true, false
			}
		}
		if isName && bytes.Contains(value, []byte(`\`)) {
			return true, true
		}
	}
}

func checkCanon(t *testing.T, doc []byte) {
	t.Helper()
	var c canon
	got := c.accepts(doc)
	want, escaped := canonical(doc)
	if got && !want || want && !got && !escaped {
		t.Errorf("%q: accepted %v, canonical %v", doc, got, want)
	}
}

func TestCanonAccepts(t *testing.T) {
	for doc, want := range map[string]bool{
		`{}`: true, `[]`: true, `""`: true, `null`: true, `true`: true, `false`: true, `0`: true, `-1`: true,
		`{"a":1,"b":[{},[],"é\n\u0001\"\\",1.5,1e+21,5e-324,-9007199254740991,123456789012345]}`: true,
		`{"":0}`: true, "{\"\U00010000\":0,\"\uffff\":0}": true, `"\u001f"`: true, `"/"`: true,

		``: false, ` {}`: false, `{} `: false, `{ }`: false, `{"a": 1}`: false, `{"a":1,}`: false, `{,}`: false, `{"a"}`: false,
		`[1,]`: false, `[,1]`: false, `[1 ]`: false, `[1 2]`: false, `[`: false, `{`: false, `{"a":`: false, `{"a":1`: false,
		`{"b":1,"a":2}`: false, `{"a":1,"a":1}`: false, "{\"\uffff\":0,\"\U00010000\":0}": false,
		`-0`: false, `01`: false, `-01`: false, `1.0`: false, `1e1`: false, `1E400`: false, `1e21`: false, `1-2`: false, `1.`: false, `.5`: false,
		`+1`: false, `-`: false, `1e`: false, `1+1`: false, `9007199254740993`: false, `0.0000001`: false, `00000000000000000001`: false,
		`"\/"`: false, `"\u000a"`: false, `"\u001F"`: false, `"\u0020"`: false, `"\u00e9"`: false, `"\ud800"`: false, `"\`: false, `"`: false,
		"\"\x00\"": false, "\"\xff\"": false, `tru`: false, `nullx`: false, `truefalse`: false, "\ufeff{}": false,
		strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth):                     true,
		strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1):                 false,
		strings.Repeat(`{"a":`, MaxDepth+1) + "0" + strings.Repeat("}", MaxDepth+1):       false,
		strings.Repeat(`[{"a":`, MaxDepth/2) + "0" + strings.Repeat("}]", MaxDepth/2):     true,
		`[` + strings.Repeat(`[],`, MaxDepth+1) + strings.Repeat(`{},`, MaxDepth) + `[]]`: true,
	} {
		var c canon
		if got := c.accepts([]byte(doc)); got != want {
			t.Errorf("%.60q: %v", doc, got)
		}
		checkCanon(t, []byte(doc))
	}
}

// TestCanonOnEachByte changes, drops and doubles each byte of a document.
func TestCanonOnEachByte(t *testing.T) {
	doc := []byte(`{"a":[1,-2.5,{"b":"x\n\u0001é"}],"c":null,"d":true}`)
	for i := range doc {
		checkCanon(t, append(bytes.Clone(doc[:i]), doc[i+1:]...))
		checkCanon(t, append(append(bytes.Clone(doc[:i]), doc[i]), doc[i:]...))
		for b := range 256 {
			other := bytes.Clone(doc)
			other[i] = byte(b)
			checkCanon(t, other)
		}
	}
}

// TestCanonicalObject: an object that was canonical says of itself what the
// engine says of one that was not.
func TestCanonicalObject(t *testing.T) {
	const doc, spaced = `{"a":[1,{"x":2}],"b":{"y":{}},"c":"d"}`, ` {"c":"d","b" : {"y":{}},"a": [1,{"x":2}]}`
	for _, text := range []string{doc, spaced, doc} { // one after the other in the same room
		var room Object
		for range 2 {
			if err := room.Parse([]byte(text)); err != nil {
				t.Fatal(err)
			}
			var names []string
			for name := range room.Members() {
				names = append(names, name+"="+string(room.CanonicalValue(name)))
			}
			if got := strings.Join(names, " "); got != `a=[1,{"x":2}] b={"y":{}} c="d"` {
				t.Errorf("%s: %s", text, got)
			}
			if string(room.text) != doc || string(room.Without("b")) != `{"a":[1,{"x":2}],"c":"d"}` || room.IsCanonical() != (text == doc) {
				t.Errorf("%s: %s without b %s", text, room.text, room.Without("b"))
			}
			_ = room.Parse([]byte(spaced))
		}
	}
	var o Object
	if err := o.Parse([]byte(`[{"a":1}]`)); err != ErrNotObject {
		t.Error(err)
	}
	if o.Value("a") != nil {
		t.Error("an array has a member")
	}
}

func FuzzCanon(f *testing.F) {
	for _, doc := range []string{
		`{"a":[1,-2.5,{"b":"x\n\u0001é"}],"c":null,"d":true}`, `1e+21`, `"\u001f\t"`, "{\"\U00010000\":0,\"\uffff\":0}", `{"a\n":0}`, `{"\n{":0}`, `[{"\\":":"}]`, `-0`, `[5e-324,1.7976931348623157e+308]`,
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		checkCanon(t, doc)
		e := newEngine(doc)
		if e.document() == nil {
			checkCanon(t, e.out)
		}
	})
}
