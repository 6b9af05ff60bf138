package bunker

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/clip"
)

// Bounds in bytes of a quoted text of the signer, and of the longest text for
// NIP-44.
const (
	maxText  = 200
	maxPage  = 1000
	maxPlain = 65535
)

// question is a request of NIP-46.
type question struct {
	ID     string   `json:"id"`
	Method string   `json:"method"`
	Params []string `json:"params"`
}

// answer is a response of NIP-46. In place of an absent member, signers write null,
// "" or nothing.
type answer struct {
	ID     string `json:"id"`
	Result string `json:"result"`
	Error  string `json:"error"`
}

// isPage reports that this is not the answer yet, but the page on which the
// signer's owner must agree first.
func (a answer) isPage() bool { return a.Result == "auth_url" }

func parseAnswer(text string) (answer, error) {
	var a answer
	if err := hashing.UnmarshalKnown([]byte(text), &a); err != nil || a.ID == "" {
		return answer{}, fmt.Errorf("%w: it is not a response of NIP-46", ErrAnswer)
	}
	return a, nil
}

func wordQuestion(id, method string, params []string) (string, error) {
	if params == nil {
		params = []string{}
	}
	doc, err := word(question{id, method, params})
	if err == nil && len(doc) > maxPlain {
		err = fmt.Errorf("%w: %s of %d bytes, at most %d", ErrTooLarge, method, len(doc), maxPlain)
	}
	return doc, err
}

// wordEvent encodes the event to sign, without the signature and the fields derived
// from others.
func wordEvent(ev *nostr.Event) (string, error) {
	tags := ev.Tags
	if tags == nil {
		tags = nostr.Tags{}
	}
	return word(struct {
		Kind      int             `json:"kind"`
		CreatedAt nostr.Timestamp `json:"created_at"`
		Tags      nostr.Tags      `json:"tags"`
		Content   string          `json:"content"`
		PubKey    string          `json:"pubkey"`
	}{ev.Kind, ev.CreatedAt, tags, ev.Content, ev.PubKey})
}

func word(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("word a question: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// signature returns the signature of a signed event if it is the requested event.
// The caller must verify it.
func signature(text string, want *nostr.Event) (string, error) {
	var got struct {
		ID     string `json:"id"`
		PubKey string `json:"pubkey"`
		Sig    string `json:"sig"`
	}
	if err := hashing.UnmarshalKnown([]byte(text), &got); err != nil || len(got.Sig) != 128 {
		return "", fmt.Errorf("%w: not a signed event", ErrAnswer)
	}

	switch {
	case got.PubKey != want.PubKey:
		return "", fmt.Errorf("%w: %s", ErrWrongKey, clip.Line(got.PubKey, 64))
	case got.ID != want.ID:
		return "", ErrOtherEvent
	}
	return got.Sig, nil
}
