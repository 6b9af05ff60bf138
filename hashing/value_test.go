package hashing

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// Values marshal as encoding/json would, so a type that is hashed and sent is
// hashed as it is sent.
func TestCanonicalValueFollowsEncodingJSON(t *testing.T) {
	type inner struct {
		Zero  int            `json:"zero,omitempty"`
		Nil   []string       `json:"nil"`
		Empty []string       `json:"empty"`
		Map   map[string]any `json:"map"`
		Bytes []byte         `json:"bytes"`
		Array [3]byte        `json:"array"`
	}
	type outer struct {
		inner
		T      time.Time       `json:"t"`
		N      json.Number     `json:"n"`
		NoN    json.Number     `json:"no_n"`
		Raw    json.RawMessage `json:"raw"`
		HTML   string          `json:"html"`
		Ptr    *int            `json:"ptr"`
		Quoted int64           `json:"quoted,string"`
		D      Digest          `json:"d"`
		Skip   string          `json:"-"`
		Any    any
	}
	v := outer{
		inner: inner{Empty: []string{}, Map: map[string]any{"b": 1.5, "a": json.Number("7")}, Bytes: []byte("hi")},
		T:     time.Date(2026, 2, 1, 0, 0, 1, 5e6, time.UTC),
		N:     "12.50", Raw: json.RawMessage(` {"z":1, "y":"\u0041\ufffd"}`), HTML: "<a&b>\u2028",
		Quoted: 5, D: Bytes(nil), Skip: "x", Any: []any{nil, true, "x"},
	}
	doc, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Canonical(doc)
	if err != nil {
		t.Fatal(err)
	}
	got, err := CanonicalValue(v)
	if err != nil || string(got) != string(want) {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
	sum, err := SumValue(v)
	if err != nil || sum != Bytes(want) {
		t.Errorf("SumValue = %v, %v", sum, err)
	}
}

func TestCanonicalValueRefuses(t *testing.T) {
	for name, v := range map[string]any{
		"invalid UTF-8":        "a\xff",
		"invalid UTF-8 key":    map[string]int{"\xff": 1},
		"large integer":        int64(1) << 53,
		"large unsigned":       uint64(1) << 63,
		"raw duplicate":        json.RawMessage(`{"a":1,"a":2}`),
		"channel":              make(chan int),
		"number that is none":  json.Number("abc"),
		"number past a double": json.Number("1e999"),
	} {
		if out, err := CanonicalValue(v); err == nil {
			t.Errorf("%s: accepted as %s", name, out)
		}
		if d, err := SumValue(v); err == nil || !d.IsZero() {
			t.Errorf("%s: SumValue = %v, %v", name, d, err)
		}
	}
}

type order struct {
	ID    string `json:"id"`
	Price int64  `json:"price_msats"`
	Items []struct {
		Name string `json:"name"`
	} `json:"items"`
}

func TestUnmarshal(t *testing.T) {
	var got order
	if err := Unmarshal([]byte(`{"price_msats":5,"id":"x","items":[{"name":"n"}]}`), &got); err != nil {
		t.Fatal(err)
	}
	if got.ID != "x" || got.Price != 5 || len(got.Items) != 1 || got.Items[0].Name != "n" {
		t.Errorf("got %+v", got)
	}
	// Fields that the document lacks keep their value.
	if err := Unmarshal([]byte(`{"id":"y"}`), &got); err != nil || got.Price != 5 || got.ID != "y" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	for name, doc := range map[string]string{
		"other case":          `{"ID":"x"}`,
		"other case inside":   `{"items":[{"Name":"x"}]}`,
		"unknown field":       `{"id":"x","price":1}`,
		"unknown field below": `{"items":[{"name":"n","nmae":"m"}]}`,
		"duplicate key":       `{"id":"x","id":"y"}`,
		"duplicate by escape": `{"id":"x","\u0069d":"y"}`,
		"trailing data":       `{"id":"x"}{}`,
		"wrong type":          `{"price_msats":"5"}`,
		"fraction":            `{"price_msats":5.5}`,
		"large integer":       `{"price_msats":9007199254740992}`,
		"not an object":       `[]`,
	} {
		var v order
		if err := Unmarshal([]byte(doc), &v); err == nil {
			t.Errorf("%s: %s was accepted: %+v", name, doc, v)
		}
	}
}

func TestSyntaxErrorText(t *testing.T) {
	for doc, want := range map[string]string{
		`[1,`:                       "JSON at byte 3: unexpected end",
		`{"a\u001b":1,"a\u001b":2}`: `JSON at byte 13: duplicate key "a\x1b"`,
	} {
		if err := Check([]byte(doc)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", doc, err, want)
		}
	}
	// A hostile key is repeated in part only.
	long := `"` + strings.Repeat("k", 10_000) + `"`
	if err := Check([]byte("{" + long + ":1," + long + ":2}")); err == nil || len(err.Error()) > 200 {
		t.Errorf("error of %d bytes", len(err.Error()))
	}
}
