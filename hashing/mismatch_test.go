package hashing_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
)

// TestMismatch: what is wrong is said in words of ours, which are the same in every
// process; the decoder's are drawn anew in each.
func TestMismatch(t *testing.T) {
	type inner struct {
		B string `json:"b"`
	}
	type form struct {
		A int            `json:"a"`
		D hashing.Digest `json:"d"`
		L []inner        `json:"l"`
	}
	for doc, want := range map[string]string{
		`{"a":"x"}`:                              `decode: "/a" is a string, which does not fit`,
		`{"a":1.5}`:                              `decode: "/a" is a number, which does not fit: invalid syntax`,
		`{"a":true}`:                             `decode: "/a" is a boolean, which does not fit`,
		`{"l":{}}`:                               `decode: "/l" is an object, which does not fit`,
		`[]`:                                     `decode: the document is a list, which does not fit`,
		`{"l":[{"b":1}]}`:                        `decode: "/l/0/b" is a number, which does not fit`,
		`{"d":"zz"}`:                             `decode: "/d" is a string, which does not fit: not a sha256 digest: "sha256:" prefix missing`,
		`{"x":1}`:                                `decode: "/x" does not fit: unknown object member name`,
		`{"l":[{"c":1}]}`:                        `decode: "/l/0/c" does not fit: unknown object member name`,
		`{"` + strings.Repeat("x", 200) + `":1}`: `decode: "/` + strings.Repeat("x", 63) + `" does not fit: unknown object member name`,
	} {
		var v form
		err := hashing.Unmarshal([]byte(doc), &v)
		if err == nil || err.Error() != want {
			t.Errorf("%.40s: %v, want %s", doc, err, want)
		}
		if !errors.As(err, new(*hashing.MismatchError)) {
			t.Errorf("%.40s: %T", doc, err)
		}
	}
	other := errors.New("another")
	if hashing.Mismatch(other) != other || hashing.Mismatch(nil) != nil {
		t.Error("another error is reworded")
	}
}
