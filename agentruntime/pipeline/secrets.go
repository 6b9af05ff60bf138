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

// secretPrefix begins the reference that replaces a secret in a payload; a random id
// follows. The value exists only in the memory of one Submit. It is in no envelope, and
// so in no hash and no journal.
const secretPrefix = "secret://"

// SecretMask replaces a secret in text, where a reference would be of no use.
const SecretMask = "[SECRET]"

// Marked calls replace with the JSON text of each secret in a payload, and puts the
// result in its place.
type Marked func(payload []byte, replace func(value []byte) ([]byte, error)) ([]byte, error)

const (
	// maxSecrets bounds the secrets of one Submit.
	maxSecrets = 256
	// minEcho is the length of the shortest secret that is searched for in the output
	// of handlers. Shorter ones would be found by chance.
	minEcho = 6
)

var (
	errManySecrets   = fmt.Errorf("has more than %d secrets", maxSecrets)
	errUnknownSecret = errors.New("names a secret that is not of this conversation")
	errEcho          = errors.New("repeats a secret where its schema has none")
)

// vault holds the secrets of one flow. It has a lock because handlers stream from their
// own goroutines.
type vault struct {
	mu     sync.Mutex
	values map[string][]byte // JSON by reference
}

// hide stores a value and returns the reference to it, in quotes.
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

// reveal returns the value of a reference, and any other value as it is. A handler that
// received a reference may therefore pass it on in a field that is marked as a secret.
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

// spellings returns a secret as text and as JSON, without those shorter than minEcho.
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

// texts returns all spellings of all secrets, the longest first. Otherwise masking a
// short secret could leave the end of a longer one that begins with it.
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

// mask replaces all secrets in a text.
func (v *vault) mask(text string) string {
	for _, secret := range v.texts() {
		text = strings.ReplaceAll(text, secret, SecretMask)
	}
	return text
}

// contains reports whether a payload contains a secret.
func (v *vault) contains(payload []byte) bool {
	for _, secret := range v.texts() {
		if bytes.Contains(payload, []byte(secret)) {
			return true
		}
	}
	return false
}

// maskFailure removes from a failure the secrets that its handler received.
func (v *vault) maskFailure(f Failure) Failure {
	f.Message = v.mask(f.Message)
	if v.contains(f.Details) {
		f.Details = nil
	}
	return f
}

// envelope checks a message and makes its envelope. It checks the structure (a
// *[MalformedError]), then the tag's schema on the payload with its secrets, and then
// replaces the secrets by references (K-38).
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

	return seal(h, payload), nil
}

// whole returns a payload with its secrets in place of the references.
func (f *flow) whole(e Envelope) ([]byte, error) {
	marked := f.p.secrets[e.header.Tag]
	if marked == nil {
		return e.Payload(), nil
	}
	return marked(e.Payload(), f.vault.reveal)
}

// Whole returns the payload of the reply with its secrets, where Reply has references.
// Give it only to the source that asked, and record it nowhere.
func (o Outcome) Whole() []byte {
	if o.whole == nil {
		return o.Reply.Payload()
	}
	return bytes.Clone(o.whole)
}

// Kept returns the text that may be stored in place of the text from which a request was
// made: the same text or, if the request has secrets, the request with references.
func (o Outcome) Kept(text string) string {
	if o.confided == nil {
		return text
	}
	return string(o.confided)
}
