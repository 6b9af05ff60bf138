package pipeline

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// secretPrefix begins what a payload has in place of a secret: a reference,
// "secret://" and an id that nobody can guess. The value is in the memory of one
// Submit and nowhere else: not in an envelope, and so in no hash and no journal.
const secretPrefix = "secret://"

// SecretMask stands for a secret in text, where nobody can follow a reference.
const SecretMask = "[SECRET]"

// Marked goes through a payload and calls replace for each value that is a
// secret, as it is written in JSON; what comes back takes its place.
type Marked func(payload []byte, replace func(value []byte) ([]byte, error)) ([]byte, error)

const (
	// maxSecrets bounds those of one Submit.
	maxSecrets = 256
	// minEcho is the length from which on a secret is looked for in what a
	// handler says: a shorter one would be found by chance.
	minEcho = 6
)

var (
	errManySecrets   = fmt.Errorf("has more than %d secrets", maxSecrets)
	errUnknownSecret = errors.New("names a secret that is not of this conversation")
	errEcho          = errors.New("repeats a secret where its schema has none")
)

// vault has the secrets of one flow. Handlers stream from their own goroutines.
type vault struct {
	mu     sync.Mutex
	values map[string][]byte // JSON by reference
}

// hide puts a value away and returns the reference to it, in quotes.
func (v *vault) hide(value []byte) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.values) == maxSecrets {
		return nil, errManySecrets
	}
	if v.values == nil {
		v.values = map[string][]byte{}
	}
	ref := secretPrefix + rand.Text()
	v.values[ref] = bytes.Clone(value)
	return []byte(`"` + ref + `"`), nil
}

// reveal returns the value that a reference stands for, and any other value as
// it is. Who was given a reference may hand it on to a field that is marked.
func (v *vault) reveal(value []byte) ([]byte, error) {
	var ref string
	if json.Unmarshal(value, &ref) != nil || !strings.HasPrefix(ref, secretPrefix) {
		return value, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	secret, ok := v.values[ref]
	if !ok {
		return nil, errUnknownSecret
	}
	return secret, nil
}

// spellings are a secret as text and as JSON, for those long enough.
func spellings(value []byte) []string {
	all := []string{string(value)}
	var text string
	if json.Unmarshal(value, &text) == nil {
		all = []string{text, string(value[1 : len(value)-1])}
	}
	if len(all[0]) < minEcho {
		return nil
	}
	return all
}

// texts are all secrets as they could be met in text, the longest first: of two
// that begin alike the shorter must not leave the end of the other.
func (v *vault) texts() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []string
	for _, value := range v.values {
		all = append(all, spellings(value)...)
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

// mask takes the secrets out of a text.
func (v *vault) mask(text string) string {
	for _, secret := range v.texts() {
		text = strings.ReplaceAll(text, secret, SecretMask)
	}
	return text
}

// holds reports whether a payload has a secret in it.
func (v *vault) holds(payload []byte) bool {
	for _, secret := range v.texts() {
		if bytes.Contains(payload, []byte(secret)) {
			return true
		}
	}
	return false
}

// maskFailure keeps a failure from telling what its handler was told.
func (v *vault) maskFailure(f Failure) Failure {
	f.Message = v.mask(f.Message)
	if v.holds(f.Details) {
		f.Details = nil
	}
	return f
}

// envelope checks a message and makes its envelope: structure, the schema of the
// tag over the whole payload, and then without its secrets (K-38). A
// *MalformedError is of the structure.
func (f *flow) envelope(h Header, payload []byte) (Envelope, error) {
	if err := checkStructure(h, len(payload), f.p.cfg.MaxPayload); err != nil {
		return Envelope{}, err
	}
	whole, marked := payload, f.p.secrets[h.Tag]
	var err error
	if marked != nil {
		if whole, err = marked(payload, f.vault.reveal); err != nil {
			return Envelope{}, err
		}
	}

	if check := f.p.schemas[h.Tag]; check != nil {
		if err := check(bytes.Clone(whole)); err != nil {
			return Envelope{}, err
		}
	}

	if marked != nil {
		if payload, err = marked(whole, f.vault.hide); err != nil {
			return Envelope{}, err
		}
	}

	return sealed(h, payload), nil
}

// whole is a payload with its secrets.
func (f *flow) whole(e Envelope) ([]byte, error) {
	marked := f.p.secrets[e.header.Tag]
	if marked == nil {
		return e.Payload(), nil
	}
	return marked(e.Payload(), f.vault.reveal)
}

// Whole returns the payload of the reply with the secrets that its schema marks,
// for who asked and nobody's record. Reply has references in their place.
func (o Outcome) Whole() []byte {
	if o.whole == nil {
		return o.Reply.Payload()
	}
	return bytes.Clone(o.whole)
}

// Kept is what may be kept of the text that a request was made from: the text
// or, where the request has secrets, the request with references instead.
func (o Outcome) Kept(text string) string {
	if o.confided == nil {
		return text
	}
	return string(o.confided)
}
