package bunker

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nbd-wtf/go-nostr"
)

// What is quoted of a signer's words, in bytes, and the longest text that
// NIP-44 seals.
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

// answer is a response of NIP-46. Signers write what they do not say as null,
// as "" or not at all.
type answer struct {
	ID     string `json:"id"`
	Result string `json:"result"`
	Error  string `json:"error"`
}

// isPage: not the answer yet, but where the signer's owner must agree first.
func (a answer) isPage() bool { return a.Result == "auth_url" }

func parseAnswer(text string) (answer, error) {
	var a answer
	if err := json.Unmarshal([]byte(text), &a); err != nil || a.ID == "" {
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

// wordEvent is the event to sign: without a signature, and without what
// follows from the rest.
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

// signature takes the signature out of a signed event, if it is of the event
// that was to be signed. Whether it is good is for the caller to check.
func signature(text string, want *nostr.Event) (string, error) {
	var got struct {
		ID     string `json:"id"`
		PubKey string `json:"pubkey"`
		Sig    string `json:"sig"`
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Sig) != 128 {
		return "", fmt.Errorf("%w: not a signed event", ErrAnswer)
	}

	switch {
	case got.PubKey != want.PubKey:
		return "", fmt.Errorf("%w: %s", ErrWrongKey, printable(got.PubKey, 64))
	case got.ID != want.ID:
		return "", ErrOtherEvent
	}
	return got.Sig, nil
}
