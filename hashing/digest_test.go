package hashing

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// emptyHex is the well-known SHA-256 of nothing.
const emptyHex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestDigestText(t *testing.T) {
	requirements.Covers(t, "OA-6.1")
	d := Bytes(nil)
	if got, want := d.String(), "sha256:"+emptyHex; got != want {
		t.Errorf("String() = %s, want %s", got, want)
	}
	if d.Hex() != emptyHex {
		t.Errorf("Hex() = %s", d.Hex())
	}
	out, err := json.Marshal(struct {
		D *Digest           `json:"d"`
		M map[Digest]string `json:"m"`
	}{&d, map[Digest]string{d: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"d":"sha256:` + emptyHex + `","m":{"sha256:` + emptyHex + `":"x"}}`; string(out) != want {
		t.Errorf("JSON = %s, want %s", out, want)
	}
	// The digest covers the canonical form, not the spelling.
	a, err := Sum([]byte(` { "b" : 2.0, "a" : "\u0041" } `))
	if err != nil {
		t.Fatal(err)
	}
	if want := Bytes([]byte(`{"a":"A","b":2}`)); a != want {
		t.Errorf("Sum = %s, want %s", a, want)
	}
	if d.IsZero() || !(Digest{}).IsZero() {
		t.Error("IsZero is wrong")
	}
}

func TestParseDigest(t *testing.T) {
	want := Bytes(nil)
	for _, s := range []string{"sha256:" + emptyHex, emptyHex} {
		if got, err := ParseDigest(s); err != nil || got != want {
			t.Errorf("ParseDigest(%q) = %v, %v", s, got, err)
		}
	}
	for name, s := range map[string]string{
		"empty":          "",
		"prefix only":    "sha256:",
		"two prefixes":   "sha256:sha256:" + emptyHex,
		"upper case":     strings.ToUpper(emptyHex),
		"upper prefix":   "SHA256:" + emptyHex,
		"short":          emptyHex[:63],
		"long":           emptyHex + "0",
		"not hex":        "g" + emptyHex[1:],
		"space":          " " + emptyHex,
		"other function": "sha512:" + emptyHex,
	} {
		if got, err := ParseDigest(s); !errors.Is(err, ErrDigest) || !got.IsZero() {
			t.Errorf("%s: ParseDigest(%q) = %v, %v", name, s, got, err)
		}
	}
}

func TestDigestUnmarshalIsStrict(t *testing.T) {
	var d Digest
	if err := Unmarshal([]byte(`"sha256:`+emptyHex+`"`), &d); err != nil || d != Bytes(nil) {
		t.Fatalf("d = %v, %v", d, err)
	}
	for _, doc := range []string{`"` + emptyHex + `"`, `"sha256:` + emptyHex[:62] + `"`, `7`} {
		got := d
		if err := Unmarshal([]byte(doc), &got); err == nil {
			t.Errorf("Unmarshal(%s) accepted: %v", doc, got)
		}
		if got != d {
			t.Errorf("Unmarshal(%s) changed the digest on error", doc)
		}
	}
}
