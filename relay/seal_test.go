package relay

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
)

func TestCipher(t *testing.T) {
	a, b := testKey(t), mustKey(t)
	for _, text := range []string{"x", "sixteen bytes!!!", strings.Repeat("é", 2000)} {
		for name, pair := range map[string][2]func(k *Key, peer, s string) (string, error){
			"nip44": {
				func(k *Key, peer, s string) (string, error) { return k.NIP44Encrypt(t.Context(), peer, s) },
				func(k *Key, peer, s string) (string, error) { return k.NIP44Decrypt(t.Context(), peer, s) },
			},
			"nip04": {
				func(k *Key, peer, s string) (string, error) { return k.NIP04Encrypt(t.Context(), peer, s) },
				func(k *Key, peer, s string) (string, error) { return k.NIP04Decrypt(t.Context(), peer, s) },
			},
		} {
			hidden, err := pair[0](a, b.PublicKey(), text)
			if err != nil || strings.Contains(hidden, text) && len(text) > 1 {
				t.Fatalf("%s: %v", name, err)
			}
			for who, got := range map[string]func() (string, error){
				"peer": func() (string, error) { return pair[1](b, a.PublicKey(), hidden) },
				"self": func() (string, error) { return pair[1](a, b.PublicKey(), hidden) },
			} {
				if s, err := got(); err != nil || s != text {
					t.Errorf("%s, %s: %q, %v", name, who, s, err)
				}
			}
		}
	}
}

// FuzzDecrypt: what anybody sends is opened or refused, and never panics.
func FuzzDecrypt(f *testing.F) {
	a, err := GenerateKey()
	if err != nil {
		f.Fatal(err)
	}
	b, err := GenerateKey()
	if err != nil {
		f.Fatal(err)
	}
	good, err := a.NIP44Encrypt(f.Context(), b.PublicKey(), "hello")
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{
		"", good, strings.Repeat("\n", 132), strings.Repeat("A", 132), "?iv=", "AA==?iv=AA==", "?iv=" + base64.StdEncoding.EncodeToString(make([]byte, 16)),
		base64.StdEncoding.EncodeToString(make([]byte, 15)) + "?iv=" + base64.StdEncoding.EncodeToString(make([]byte, 16)),
		base64.StdEncoding.EncodeToString(make([]byte, 16)) + "?iv=" + base64.StdEncoding.EncodeToString(make([]byte, 15)),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if text, err := b.NIP44Decrypt(t.Context(), a.PublicKey(), s); err == nil && text != "hello" {
			t.Errorf("%q opens as %q", s, text)
		} else if err != nil && !errors.Is(err, ErrSealed) {
			t.Error(err)
		}
		if _, err := b.NIP04Decrypt(t.Context(), a.PublicKey(), s); err != nil && !errors.Is(err, ErrSealed) {
			t.Error(err)
		}
	})
}

func mustKey(t *testing.T) *Key {
	t.Helper()
	k, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}
