package relay

import (
	"errors"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcutil/bech32"
)

// The vector of NIP-49.
const (
	lockedText   = "ncryptsec1qgg9947rlpvqu76pj5ecreduf9jxhselq2nae2kghhvd5g7dgjtcxfqtd67p9m0w57lspw8gsq6yphnm8623nsl8xn9j4jdzz84zm3frztj3z7s35vpzmqf6ksu8r89qk5z2zxfmu5gv8th8wclt0h4p"
	lockedPhrase = "nostr"
	lockedSecret = "3501454135014541350145413501453fefb02227e449e57cf4d3a3ce05378683"
)

func TestUnlock(t *testing.T) {
	k, err := Unlock(lockedText, lockedPhrase)
	if err != nil {
		t.Fatal(err)
	}
	if k.secret() != lockedSecret {
		t.Error("the key of NIP-49's example is another")
	}
	if _, err := Unlock(lockedText, "Nostr"); !errors.Is(err, ErrPassphrase) {
		t.Errorf("wrong passphrase: %v", err)
	}
}

func TestLock(t *testing.T) {
	k, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	// NIP-49 normalizes: both spellings are one passphrase.
	text, err := k.Lock("caf\u00e9")
	if err != nil || !IsLocked(text) {
		t.Fatalf("lock: %v", err)
	}
	back, err := Unlock(text, "cafe\u0301")
	if err != nil || back.PublicKey() != k.PublicKey() {
		t.Errorf("unlock: %v", err)
	}
	if _, err := k.Lock(""); !errors.Is(err, ErrPassphrase) {
		t.Errorf("an empty passphrase: %v", err)
	}
}

// relocked is the example with some of its bytes changed.
func relocked(t *testing.T, change func([]byte) []byte) string {
	t.Helper()
	_, words, err := bech32.DecodeNoLimit(lockedText)
	if err != nil {
		t.Fatal(err)
	}
	data, err := bech32.ConvertBits(words, 5, 8, false)
	if err != nil {
		t.Fatal(err)
	}
	if words, err = bech32.ConvertBits(change(data), 8, 5, true); err != nil {
		t.Fatal(err)
	}
	text, err := bech32.Encode(lockedPrefix, words)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestUnlockHostile(t *testing.T) {
	for name, text := range map[string]string{
		"empty":          "",
		"another prefix": "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5",
		"long":           lockedPrefix + "1" + strings.Repeat("q", 5000),
		"short":          relocked(t, func(b []byte) []byte { return b[:1] }),
		"nothing":        relocked(t, func([]byte) []byte { return nil }),
		"version":        relocked(t, func(b []byte) []byte { b[0] = 1; return b }),
		"all memory":     relocked(t, func(b []byte) []byte { b[1] = 40; return b }),
		"beyond ints":    relocked(t, func(b []byte) []byte { b[1] = 255; return b }),
	} {
		if _, err := Unlock(text, lockedPhrase); !errors.Is(err, ErrLocked) {
			t.Errorf("%s: %v", name, err)
		}
	}
	flipped := relocked(t, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
	if _, err := Unlock(flipped, lockedPhrase); !errors.Is(err, ErrPassphrase) {
		t.Errorf("a flipped bit: %v", err)
	}
}

func TestSealedForAPeer(t *testing.T) {
	a, _ := GenerateKey()
	b, _ := GenerateKey()
	c, _ := GenerateKey()
	sealed, err := a.NIP44Encrypt(t.Context(), b.PublicKey(), "hello")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := b.NIP44Decrypt(t.Context(), a.PublicKey(), sealed); err != nil || text != "hello" {
		t.Errorf("the peer reads %q: %v", text, err)
	}
	for name, open := range map[string]func() (string, error){
		"another key": func() (string, error) { return c.NIP44Decrypt(t.Context(), a.PublicKey(), sealed) },
		"changed":     func() (string, error) { return b.NIP44Decrypt(t.Context(), a.PublicKey(), "AA"+sealed[2:]) },
		"no peer":     func() (string, error) { return b.NIP44Decrypt(t.Context(), "", sealed) },
		"too long": func() (string, error) {
			return b.NIP44Decrypt(t.Context(), a.PublicKey(), strings.Repeat("A", MaxSealed+1))
		},
		"too much": func() (string, error) { return a.NIP44Encrypt(t.Context(), b.PublicKey(), strings.Repeat("A", 70_000)) },
	} {
		if text, err := open(); !errors.Is(err, ErrSealed) || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
