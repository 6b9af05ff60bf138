package cashu

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func newSeed(t *testing.T) Seed {
	t.Helper()
	s, err := NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ofNUT13 are the words of NUT-13's vectors.
const ofNUT13 = "half depart obvious quality work element tank gorilla view sugar picture humble"

// A new seed is 12 words, and its file has nothing else.
func TestNewSeedIsWords(t *testing.T) {
	s := newSeed(t)
	if n := len(strings.Fields(s.Words())); n != 12 || s.Text() != s.Words() {
		t.Errorf("%d words, and the file has something else: %v", n, s.Text() != s.Words())
	}
	if again, err := ParseSeed(s.Text() + "\n"); err != nil || again.Text() != s.Text() {
		t.Errorf("it is not read as it was written: %v", err)
	}
}

// Neither verbs that ask for the inside print a seed, nor a struct that has one.
func TestSeedIsNeverPrinted(t *testing.T) {
	s, err := ParseSeed(ofNUT13)
	if err != nil {
		t.Fatal(err)
	}
	secret := s.secret()
	b := secret.bytes[:4]
	hidden := []string{"half", fmt.Sprintf("%x", "half"), fmt.Sprintf("%x", b), strings.Trim(fmt.Sprint(b), "[]")}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, holder := range []any{s, &s, s.LogValue(), Config{Seed: s}, struct{ cfg Config }{Config{Seed: s}}} {
			out := fmt.Sprintf(verb, holder)
			for _, inside := range hidden {
				if strings.Contains(out, inside) {
					t.Errorf("%s of %T has %q", verb, holder, inside)
				}
			}
		}
	}
}

// People write words in lines, and with capitals; old files have digits.
func TestParseSeed(t *testing.T) {
	want, err := ParseSeed(ofNUT13)
	if err != nil {
		t.Fatal(err)
	}
	written := " " + strings.ToUpper(strings.ReplaceAll(ofNUT13, " ", "\r\n "))
	if s, err := ParseSeed(written); err != nil || s.Text() != want.Text() {
		t.Errorf("in lines, with capitals: %v", err)
	}
	digits := strings.Repeat("0a", 64)
	if s, err := ParseSeed(digits); err != nil || s.Words() != "" || s.Text() != digits {
		t.Errorf("digits: %v", err)
	}
	for _, n := range []int{12, 15, 18, 21, 24} { // BIP-39's vectors of zeros
		last := map[int]string{12: "about", 15: "address", 18: "agent", 21: "admit", 24: "art"}[n]
		if _, err := ParseSeed(strings.Repeat("abandon ", n-1) + last); err != nil {
			t.Errorf("%d words: %v", n, err)
		}
	}
}

// A slip is found, and nothing of the secret is repeated.
func TestWrongWords(t *testing.T) {
	for text, want := range map[string]string{
		"":               "not a seed",
		"half":           "not a seed",
		"0a0b":           "not a seed",
		"half depart":    "2 words",
		ofNUT13 + " the": "word 13 of 13 is not on the English list",
		strings.Replace(ofNUT13, "quality", "qualitty", 1):             "word 4 of 12 is not on the English list",
		strings.Replace(ofNUT13, "half depart", "depart half", 1):      "the checksum in the last word is wrong",
		strings.Replace(ofNUT13, "humble", "half", 1):                  "the checksum in the last word is wrong",
		ofNUT13 + " " + ofNUT13 + " half":                              "25 words",
		strings.Repeat("ábaco ", 12):                                   "word 1 of 12",
		strings.Repeat("abandon ", 11) + "abandon":                     "the checksum in the last word is wrong",
		strings.Repeat(strings.Repeat("half depart obvious ", 100), 3): "900 words",
	} {
		_, err := ParseSeed(text)
		if !errors.Is(err, ErrSeed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
			continue
		}
		for _, word := range []string{"half", "qualit", "humble", "0a0b"} {
			if strings.Contains(err.Error(), word) {
				t.Errorf("the error repeats it: %v", err)
			}
		}
	}
}

// A seed that was never read would be one that everybody knows.
func TestNoSeed(t *testing.T) {
	_, err := Open(t.Context(), Config{Mint: "mint.example.com", Relays: []string{"wss://relay.example.com"}, Messages: &Post{}, Path: t.TempDir() + "/notes.db"})
	if !errors.Is(err, ErrSeed) {
		t.Errorf("a wallet without one: %v", err)
	}
	if _, err := NewPost(Seed{}, []string{"wss://relay.example.com"}, nil); !errors.Is(err, ErrSeed) {
		t.Errorf("post without one: %v", err)
	}
}
