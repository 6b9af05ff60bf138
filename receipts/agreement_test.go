package receipts

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
)

// TestCommitBindsKeyHashAndNonce: the formula by hand, and nothing but the very
// key, hash, nonce and request opens it.
func TestCommitBindsKeyHashAndNonce(t *testing.T) {
	me, other := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	id := strings.Repeat("12", 32)
	hash, nonce := hashing.Bytes([]byte("what honest results share")), CommitNonce{7}
	commit, err := Commit(me, hash, nonce)
	if err != nil {
		t.Fatal(err)
	}
	key, _ := hex.DecodeString(me)
	if want := hashing.Bytes(append(append(key, hash[:]...), nonce[:]...)); commit != want {
		t.Errorf("commit %s, want %s", commit, want)
	}
	honest := Reveal{1, id, hash, hex.EncodeToString(nonce[:])}
	if err := honest.Opens(commit, me, id); err != nil {
		t.Errorf("the honest reveal: %v", err)
	}
	if err := honest.Opens(commit, other, id); !errors.Is(err, ErrMismatch) {
		t.Errorf("the commit copied under another key is opened: %v", err)
	}
	if err := honest.Opens(commit, me, other); !errors.Is(err, ErrMismatch) {
		t.Errorf("the reveal of another request: %v", err)
	}
	for name, change := range map[string]func(*Reveal){
		"another hash":  func(r *Reveal) { r.AgreementHash = hashing.Bytes(nil) },
		"another nonce": func(r *Reveal) { r.Nonce = strings.Repeat("00", 32) },
		"no nonce":      func(r *Reveal) { r.Nonce = "zz" },
	} {
		r := honest
		change(&r)
		if err := r.Opens(commit, me, id); err == nil {
			t.Errorf("%s opens it", name)
		}
	}
	if _, err := Commit("ab", hash, nonce); !errors.Is(err, ErrInvalid) {
		t.Errorf("a short key: %v", err)
	}
}

// TestAgreementDocumentsAreStrict: both documents have one form.
func TestAgreementDocumentsAreStrict(t *testing.T) {
	// Both are public keys: those of 1 and 2.
	a, b := "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798", "c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"
	closing := Closing{1, []PanelResult{{a, a, b}, {b, b, a}}}
	doc, err := closing.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseClosing(doc); err != nil || !got.Has(PanelResult{b, b, a}) || got.Has(PanelResult{b, b, b}) {
		t.Errorf("%+v, %v", got, err)
	}
	reveal, err := Reveal{1, a, hashing.Bytes(nil), b}.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseReveal(reveal); err != nil {
		t.Error(err)
	}
	if _, err := ParseReveal(append(reveal, ' ')); !errors.Is(err, ErrInvalid) {
		t.Errorf("another form of the same reveal: %v", err)
	}
	for name, bad := range map[string]Closing{
		"empty":        {1, nil},
		"out of order": {1, []PanelResult{{b, b, a}, {a, a, b}}},
		"twice":        {1, []PanelResult{{a, a, b}, {b, a, a}}},
		"no id":        {1, []PanelResult{{a, "x", b}}},
		"version":      {2, closing.Results},
		"too many":     {1, make([]PanelResult, seatsMax+1)},
	} {
		if _, err := bad.Canonical(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzAgreementDocuments: what is read is written again byte for byte, and
// nothing panics.
func FuzzAgreementDocuments(f *testing.F) {
	f.Add([]byte(`{"results":[{"provider":"79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798","request_id":"` + strings.Repeat("ab", 32) +
		`","result_id":"` + strings.Repeat("cd", 32) + `"}],"version":1}`))
	f.Add([]byte(`{"agreement_hash":"sha256:` + strings.Repeat("ab", 32) + `","nonce":"` + strings.Repeat("cd", 32) + `","request_id":"` + strings.Repeat("ab", 32) + `","version":1}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if c, err := ParseClosing(doc); err == nil {
			if again, err := c.Canonical(); err != nil || string(again) != string(doc) {
				t.Errorf("%s: %v", again, err)
			}
		}
		if r, err := ParseReveal(doc); err == nil {
			if again, err := r.Canonical(); err != nil || string(again) != string(doc) {
				t.Errorf("%s: %v", again, err)
			}
			_ = r.Opens(hashing.Bytes(doc), strings.Repeat("ab", 32), r.RequestID)
		}
	})
}
