package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/job"
)

// Cipher encrypts what is told to one key alone, with the provider's own.
type Cipher interface {
	NIP44Encrypt(ctx context.Context, peer, text string) (string, error)
	NIP44Decrypt(ctx context.Context, peer, hidden string) (string, error)
	NIP04Encrypt(ctx context.Context, peer, text string) (string, error)
	NIP04Decrypt(ctx context.Context, peer, hidden string) (string, error)
}

// Scheme is how a buyer hides its request, and so how it is answered; "" in the
// clear.
type Scheme string

const (
	nip44 Scheme = "nip44"
	nip04 Scheme = "nip04"
)

const (
	// InnerTag carries, in a hidden result or quote, the event that is signed by itself.
	InnerTag = "lightwork"
	// hiddenTags bounds the tags inside a hidden request.
	hiddenTags = 512
)

// IsEncrypted reports the tag that NIP-90 marks encryption with. Tags.Find passes
// over tags of one element, which this one is.
func IsEncrypted(ev nostr.Event) bool {
	return slices.ContainsFunc(ev.Tags, func(t nostr.Tag) bool { return len(t) > 0 && t[0] == "encrypted" })
}

// SchemeOf reads the scheme off the ciphertext: only NIP-04's has a vector.
func SchemeOf(ev nostr.Event) Scheme {
	switch {
	case !IsEncrypted(ev):
		return ""
	case strings.Contains(ev.Content, "?iv="):
		return nip04
	}
	return nip44
}

// Addressee is who is told something, about what, and how it is hidden.
type Addressee struct {
	Request, Buyer string
	Scheme         Scheme
}

// SenderOf is who sent a request.
func SenderOf(ev nostr.Event) Addressee { return Addressee{ev.ID, ev.PubKey, SchemeOf(ev)} }

// BuyerOf is whose job it is.
func BuyerOf(j job.Job) Addressee {
	var ev nostr.Event
	if bytes.Contains(j.Request, []byte(`"encrypted"`)) { // most say it nowhere
		_ = json.Unmarshal(j.Request, &ev) // it was an event when it was stored
	}
	return Addressee{j.RequestID, j.Buyer, SchemeOf(ev)}
}

// private encrypts for buyers, and decrypts what they sent.
type private struct {
	cipher Cipher // nil: nothing is encrypted
	key    string // ours
}

// Encrypt hides a text from all but the addressee and us.
func (p *private) Encrypt(ctx context.Context, to Addressee, text string) (string, error) {
	switch {
	case p.cipher == nil:
		return "", errors.New("encrypt: no cipher")
	case to.Scheme == nip04:
		return p.cipher.NIP04Encrypt(ctx, to.Buyer, text)
	}
	return p.cipher.NIP44Encrypt(ctx, to.Buyer, text)
}

// decrypt opens what peer encrypted for us, or we for peer.
func (p *private) decrypt(ctx context.Context, peer, hidden string) (string, error) {
	switch {
	case p.cipher == nil:
		return "", errors.New("decrypt: no cipher")
	case strings.Contains(hidden, "?iv="):
		return p.cipher.NIP04Decrypt(ctx, peer, hidden)
	}
	return p.cipher.NIP44Decrypt(ctx, peer, hidden)
}

// DecryptFrom opens a text that a buyer encrypted for us alone (NIP-44).
func (p *private) DecryptFrom(ctx context.Context, buyer, hidden string) (string, error) {
	return p.decrypt(ctx, buyer, hidden)
}

// DecryptRequest returns a request with its encrypted tags among the others, or a
// [job.Refusal]. Id and author
// stay those of the signed event, whose bytes are what is kept.
func (p *private) DecryptRequest(ctx context.Context, ev nostr.Event) (nostr.Event, error) {
	if !IsEncrypted(ev) {
		if ev.Content != "" {
			return ev, job.Refuse(job.CodeUnsupportedEncryption, "content without an encrypted tag: send it empty, or encrypted to this key")
		}
		return ev, nil
	}
	if p.cipher == nil || !ev.Tags.ContainsAny("p", []string{p.key}) {
		return ev, job.Refuse(job.CodeUnsupportedEncryption, "send the request in the clear, content empty")
	}

	text, err := p.decrypt(ctx, ev.PubKey, ev.Content)
	if err != nil {
		return ev, job.Refuse(job.CodeUnsupportedEncryption, "encrypt the tags to this key, by NIP-44 or NIP-04")
	}
	var inside nostr.Tags
	if hashing.Unmarshal([]byte(text), &inside) != nil || len(inside) > hiddenTags {
		return ev, job.Refuse(job.CodeInvalidInput, fmt.Sprintf("what is encrypted is no list of at most %d tags", hiddenTags))
	}
	view := ev
	view.Content, view.Tags = "", nil

	for _, t := range ev.Tags {
		if len(t) > 0 && t[0] != "encrypted" {
			view.Tags = append(view.Tags, t)
		}
	}

	if d, err := domain.Of(inside); err != nil || d != "" {
		return ev, job.Refuse(job.CodeInvalidInput, "tag domain: it is among the encrypted tags, and belongs in the event itself")
	}

	for _, t := range inside {
		// What says who and when is for all to see, in the event itself.
		if len(t) > 0 && t[0] != "p" && t[0] != "e" && t[0] != "expiration" && t[0] != "encrypted" {
			view.Tags = append(view.Tags, t)
		}
	}

	return view, nil
}

// Request is a job's request with its encrypted tags.
func (p *private) Request(ctx context.Context, j job.Job) (nostr.Event, error) {
	var ev nostr.Event
	if err := json.Unmarshal(j.Request, &ev); err != nil {
		return ev, fmt.Errorf("stored request: %w", err)
	}
	view, err := p.DecryptRequest(ctx, ev)
	if err != nil {
		return ev, fmt.Errorf("stored request: %w", err)
	}
	return view, nil
}

// Wrap encrypts a signed event in another of its kind, which shows only between
// whom it is and about what.
func (p *Publisher) Wrap(ctx context.Context, to Addressee, ev nostr.Event) (nostr.Event, error) {
	if to.Scheme == "" {
		return ev, nil
	}
	doc, err := json.Marshal(ev)
	if err != nil {
		return ev, err
	}
	hidden, err := p.Encrypt(ctx, to, string(doc))
	if err != nil {
		return ev, err
	}
	return p.Sign(ctx, ev.Kind, domain.Encrypted, nostr.Tags{{"e", to.Request}, {"p", to.Buyer}, {"encrypted"}}, hidden)
}

// Unwrap is the other way; an event in the clear is returned as it is. The
// caller verifies what it gets.
func (p *private) Unwrap(ctx context.Context, peer string, ev nostr.Event) (nostr.Event, error) {
	if !IsEncrypted(ev) {
		return ev, nil
	}
	if err := domain.Demand(domain.Encrypted, ev.Tags); err != nil {
		return ev, err
	}
	return p.decryptEvent(ctx, peer, ev.Content)
}

func (p *private) decryptEvent(ctx context.Context, peer, hidden string) (inner nostr.Event, err error) {
	text, err := p.decrypt(ctx, peer, hidden)
	if err == nil {
		err = json.Unmarshal([]byte(text), &inner)
	}
	return inner, err
}

// IsSignedBy reports whether the key signed an event that came out of another.
func IsSignedBy(ev nostr.Event, key string) bool {
	signed, err := ev.CheckSignature()
	return err == nil && signed && ev.CheckID() && ev.PubKey == key
}

// BoundResult is the event that names the terms of a job's result: the published one,
// or the one that is encrypted in it for the buyer.
func (p *private) BoundResult(ctx context.Context, ev nostr.Event) (nostr.Event, error) {
	t := ev.Tags.Find(InnerTag)
	if t == nil || !IsEncrypted(ev) {
		return ev, nil
	}
	buyer := ev.Tags.Find("p")
	if buyer == nil {
		return ev, errors.New("stored result: it is encrypted for nobody")
	}
	inner, err := p.decryptEvent(ctx, buyer[1], t[1])
	if err != nil {
		return ev, fmt.Errorf("stored result: %w", err)
	}
	return inner, nil
}
