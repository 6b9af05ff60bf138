package author

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
)

const (
	// hiddenTag carries, in an encrypted result or quote, the event that the provider
	// signed by itself.
	hiddenTag = "lightwork"
	// hiddenTags bounds the tags inside an encrypted event.
	hiddenTags = 512
	// hiddenBytes is the longest text whose encryption fits an event.
	hiddenBytes = 40 << 10
)

// EncryptTags encrypts the tags of a request but those that say whom it is for and
// until when. It returns the content, the tags that stay, and the hidden ones
// as they are kept.
//
// NIP-44 pads in steps of 8 KiB here, and base64 takes a third more: the next
// step is beyond the 64 KiB that relays take. So the longer lengths that NIP-44
// has since 2026 are of no use to a request.
func (a *Author) EncryptTags(ctx context.Context, peer string, tags nostr.Tags) (content string, public nostr.Tags, hidden []byte, err error) {
	var encrypted nostr.Tags
	for _, t := range tags {
		if t[0] == "p" || t[0] == "expiration" {
			public = append(public, t)
		} else {
			encrypted = append(encrypted, t)
		}
	}

	if hidden, err = json.Marshal(encrypted); err != nil {
		return "", nil, nil, err
	}
	if len(hidden) > hiddenBytes {
		return "", nil, nil, fmt.Errorf("encrypt request: it has %d bytes, and at most %d fit an event encrypted: send less, or name a repository that the provider fetches", len(hidden), hiddenBytes)
	}
	if content, err = a.Cipher.NIP44Encrypt(ctx, peer, string(hidden)); err != nil {
		return "", nil, nil, fmt.Errorf("encrypt request: %w", err)
	}

	return content, append(public, nostr.Tag{"encrypted"}), hidden, nil
}

// Encrypt hides an event of ours about an encrypted job in another of its kind.
func (a *Author) Encrypt(ctx context.Context, p purchase.Purchase, ev nostr.Event) (nostr.Event, error) {
	if p.Hidden == nil || a.Cipher == nil {
		return ev, nil
	}
	doc, err := json.Marshal(ev)
	if err != nil {
		return ev, err
	}
	hidden, err := a.Cipher.NIP44Encrypt(ctx, p.Provider, string(doc))
	if err != nil {
		return ev, fmt.Errorf("encrypt kind %d: %w", ev.Kind, err)
	}
	outer, _, err := a.Sign(ctx, ev.Kind, domain.Encrypted, nostr.Tags{{"e", p.RequestID}, {"p", p.Provider}, {"encrypted"}}, hidden)
	return outer, err
}

func isHidden(ev nostr.Event) bool {
	return slices.ContainsFunc(ev.Tags, func(t nostr.Tag) bool { return len(t) > 0 && t[0] == "encrypted" })
}

// Decrypt returns what an encrypted answer says: of feedback, its hidden tags
// among the others; of a quote, a result and a receipt, the signed event hidden in
// it, or the result's content in the clear where there is none.
func (a *Author) Decrypt(ctx context.Context, p purchase.Purchase, ev nostr.Event) (nostr.Event, error) {
	if !isHidden(ev) {
		return ev, nil
	}
	if err := domain.Allow(domain.Encrypted, ev.Tags); err != nil {
		return ev, err
	}
	if t := ev.Tags.Find(hiddenTag); t != nil && ev.Kind == a.Kinds.Request+kinds.ResultOffset {
		return a.decryptEvent(ctx, p, ev, t[1])
	}
	if ev.Kind == a.Kinds.Receipt {
		return a.decryptEvent(ctx, p, ev, ev.Content)
	}

	text, err := a.decryptText(ctx, p, ev.Content)
	if err != nil {
		return ev, err
	}
	view := ev
	view.Tags = slices.DeleteFunc(slices.Clone(ev.Tags), func(t nostr.Tag) bool { return len(t) > 0 && (t[0] == "encrypted" || t[0] == domain.TagName) })
	view.Content = text
	var encrypted nostr.Tags
	if ev.Kind != kinds.Feedback || json.Unmarshal([]byte(text), &encrypted) != nil || len(encrypted) > hiddenTags {
		return view, nil
	}
	if t := encrypted.Find(hiddenTag); t != nil { // a quote, which the provider signed by itself
		return a.signedEvent(p, ev, t[1])
	}

	view.Content = ""
	for _, t := range encrypted {
		if len(t) >= 2 && t[0] == "content" {
			view.Content = t[1]
		} else if len(t) > 0 && t[0] != "p" {
			view.Tags = append(view.Tags, t)
		}
	}

	return view, nil
}

func (a *Author) decryptText(ctx context.Context, p purchase.Purchase, hidden string) (string, error) {
	if a.Cipher == nil {
		return "", errors.New("it is encrypted, and this key cannot decrypt")
	}
	if strings.Contains(hidden, "?iv=") {
		return a.Cipher.NIP04Decrypt(ctx, p.Provider, hidden)
	}
	return a.Cipher.NIP44Decrypt(ctx, p.Provider, hidden)
}

// decryptEvent decrypts an event inside another.
func (a *Author) decryptEvent(ctx context.Context, p purchase.Purchase, outer nostr.Event, hidden string) (nostr.Event, error) {
	text, err := a.decryptText(ctx, p, hidden)
	if err != nil {
		return outer, err
	}
	return a.signedEvent(p, outer, text)
}

// signedEvent reads an event that was hidden in another. It must be one that the
// provider could have published: signed by it, of this kind, about this request.
func (a *Author) signedEvent(p purchase.Purchase, outer nostr.Event, text string) (nostr.Event, error) {
	var ev nostr.Event
	if err := json.Unmarshal([]byte(text), &ev); err != nil {
		return outer, fmt.Errorf("what is encrypted is no event: %w", err)
	}
	if signed, err := ev.CheckSignature(); err != nil || !signed || !ev.CheckID() {
		return outer, errors.New("what is encrypted is not signed")
	}
	if ev.PubKey != p.Provider || ev.Kind != outer.Kind || !ev.Tags.ContainsAny("e", []string{p.RequestID}) {
		return outer, errors.New("what is encrypted is not the provider's answer to this request")
	}
	return ev, nil
}
