package hashing

import (
	"bytes"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// engines are the implementations that must agree.
var engines = []struct {
	name      string
	canonical func([]byte) ([]byte, error)
}{
	{"jcs", jcsCanonical},
	{"canonical", Canonical},
	{"engine", Strict},
	{"jsontext", func(doc []byte) ([]byte, error) {
		v := jsontext.Value(bytes.Clone(doc))
		return v, v.Canonicalize()
	}},
}

// jcsCanonical is the reference, behind the strict decoder.
func jcsCanonical(doc []byte) ([]byte, error) {
	if err := Check(doc); err != nil {
		return nil, err
	}
	return jcs.Transform(doc)
}

func TestRFC8785Examples(t *testing.T) {
	requirements.Covers(t, "OA-6.2")
	inputs, err := filepath.Glob("testdata/rfc8785/*.in.json")
	if err != nil || len(inputs) != 2 {
		t.Fatalf("%d examples, %v", len(inputs), err)
	}
	for _, input := range inputs {
		doc := readFile(t, input)
		want := readFile(t, strings.Replace(input, ".in.", ".out.", 1))
		for _, e := range engines {
			if got, err := e.canonical(doc); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %s: got %s, %v; want %s", input, e.name, got, err, want)
			}
		}
	}
}

// Section 3.2.4 prints the bytes of the example of section 3.2.2.
func TestRFC8785Bytes(t *testing.T) {
	requirements.Covers(t, "OA-6.2")
	text := strings.Join(strings.Fields(string(readFile(t, "testdata/rfc8785/section-3.2.4.hex"))), "")
	want, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range engines {
		if got, err := e.canonical(readFile(t, "testdata/rfc8785/section-3.2.2.in.json")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got %x, %v; want %x", e.name, got, err, want)
		}
	}
}

// RFC 8785 appendix B: the bits of a double and how it is written.
var appendixB = []struct {
	bits uint64
	text string
}{
	{0x0000000000000000, "0"},
	{0x8000000000000000, "0"},
	{0x0000000000000001, "5e-324"},
	{0x8000000000000001, "-5e-324"},
	{0x7fefffffffffffff, "1.7976931348623157e+308"},
	{0xffefffffffffffff, "-1.7976931348623157e+308"},
	{0x4340000000000000, "9007199254740992"},
	{0xc340000000000000, "-9007199254740992"},
	{0x4430000000000000, "295147905179352830000"},
	{0x44b52d02c7e14af5, "9.999999999999997e+22"},
	{0x44b52d02c7e14af6, "1e+23"},
	{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
	{0x444b1ae4d6e2ef4e, "999999999999999700000"},
	{0x444b1ae4d6e2ef4f, "999999999999999900000"},
	{0x444b1ae4d6e2ef50, "1e+21"},
	{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
	{0x3eb0c6f7a0b5ed8d, "0.000001"},
	{0x41b3de4355555553, "333333333.3333332"},
	{0x41b3de4355555554, "333333333.33333325"},
	{0x41b3de4355555555, "333333333.3333333"},
	{0x41b3de4355555556, "333333333.3333334"},
	{0x41b3de4355555557, "333333333.33333343"},
	{0xbecbf647612f3696, "-0.0000033333333333333333"},
	{0x43143ff3c1cb0959, "1424953923781206.2"},
}

func TestRFC8785AppendixB(t *testing.T) {
	requirements.Covers(t, "OA-6.2")
	for _, v := range appendixB {
		f := math.Float64frombits(v.bits)
		if got := string(appendFloat(nil, f)); got != v.text {
			t.Errorf("%016x: got %s, want %s", v.bits, got, v.text)
		}
		if got, err := jcs.NumberToJSON(f); err != nil || got != v.text {
			t.Errorf("%016x: jcs: got %s, %v, want %s", v.bits, got, err, v.text)
		}
	}
}

// What appendix B writes as an unsafe integer never reaches a digest.
func TestNumbersRoundTripOrAreRefused(t *testing.T) {
	for _, v := range appendixB {
		f := math.Abs(math.Float64frombits(v.bits))
		unsafe := f > maxInteger && f < integerForm
		got, err := Canonical([]byte(v.text))
		switch {
		case unsafe && reasonOf(err) != ReasonInteger:
			t.Errorf("%s: %v, want %s", v.text, err, ReasonInteger)
		case !unsafe && (err != nil || string(got) != v.text):
			t.Errorf("%s: got %s, %v", v.text, got, err)
		}
	}
}

func FuzzNumber(f *testing.F) {
	for _, v := range appendixB {
		f.Add(v.bits)
	}
	f.Fuzz(func(t *testing.T, bits uint64) {
		v := math.Float64frombits(bits)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return
		}
		want, err := jcs.NumberToJSON(v)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendFloat(nil, v)); got != want {
			t.Errorf("%016x: got %s, want %s", bits, got, want)
		}
	})
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
