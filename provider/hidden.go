package provider

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// Cipher hides what is told to one key alone, with the provider's own.
type Cipher interface {
	NIP44Encrypt(ctx context.Context, peer, text string) (string, error)
	NIP44Decrypt(ctx context.Context, peer, hidden string) (string, error)
	NIP04Encrypt(ctx context.Context, peer, text string) (string, error)
	NIP04Decrypt(ctx context.Context, peer, hidden string) (string, error)
}

// scheme is how a buyer hides its request, and so how it is answered; "" in the
// clear.
type scheme string

const (
	nip44 scheme = "nip44"
	nip04 scheme = "nip04"
)

const (
	// hiddenTag carries, in a hidden result or quote, the event that is signed by itself.
	hiddenTag = "lightwork"
	// hiddenTags bounds the tags inside a hidden request.
	hiddenTags = 512
	// hiddenOutput is the largest output that is repeated in the content, for
	// clients that know no boxes.
	hiddenOutput = 16 << 10
)

// isHidden reports the tag that NIP-90 marks encryption with. Tags.Find passes
// over tags of one element, which this one is.
func isHidden(ev nostrEvent) bool {
	return slices.ContainsFunc(ev.Tags, func(t nostr.Tag) bool { return len(t) > 0 && t[0] == "encrypted" })
}

// schemeOf reads the scheme off the ciphertext: only NIP-04's has a vector.
func schemeOf(ev nostrEvent) scheme {
	switch {
	case !isHidden(ev):
		return ""
	case strings.Contains(ev.Content, "?iv="):
		return nip04
	}
	return nip44
}

// addressee is who is told something, about what, and how it is hidden.
type addressee struct {
	request, buyer string
	scheme         scheme
}

func senderOf(ev nostrEvent) addressee { return addressee{ev.ID, ev.PubKey, schemeOf(ev)} }

func buyerOf(job Job) addressee {
	var ev nostrEvent
	if bytes.Contains(job.Request, []byte(`"encrypted"`)) { // most say it nowhere
		_ = json.Unmarshal(job.Request, &ev) // it was an event when it was stored
	}
	return addressee{job.RequestID, job.Buyer, schemeOf(ev)}
}

func (p *Provider) hide(ctx context.Context, to addressee, text string) (string, error) {
	switch {
	case p.cfg.Cipher == nil:
		return "", errors.New("hide: no cipher")
	case to.scheme == nip04:
		return p.cfg.Cipher.NIP04Encrypt(ctx, to.buyer, text)
	}
	return p.cfg.Cipher.NIP44Encrypt(ctx, to.buyer, text)
}

// reveal opens what peer hid for us, or we for peer.
func (p *Provider) reveal(ctx context.Context, peer, hidden string) (string, error) {
	switch {
	case p.cfg.Cipher == nil:
		return "", errors.New("reveal: no cipher")
	case strings.Contains(hidden, "?iv="):
		return p.cfg.Cipher.NIP04Decrypt(ctx, peer, hidden)
	}
	return p.cfg.Cipher.NIP44Decrypt(ctx, peer, hidden)
}

// opened returns a request with its hidden tags among the others. Id and author
// stay those of the signed event, whose bytes are what is kept.
func (p *Provider) opened(ctx context.Context, ev nostrEvent) (nostrEvent, Reason) {
	if !isHidden(ev) {
		if ev.Content != "" {
			return ev, because(CodeUnsupportedEncryption, "content without an encrypted tag: send it empty, or encrypted to this key")
		}
		return ev, Reason{}
	}
	if p.cfg.Cipher == nil || !ev.Tags.ContainsAny("p", []string{p.key}) {
		return ev, because(CodeUnsupportedEncryption, "send the request in the clear, content empty")
	}
	text, err := p.reveal(ctx, ev.PubKey, ev.Content)
	if err != nil {
		return ev, because(CodeUnsupportedEncryption, "encrypt the tags to this key, by NIP-44 or NIP-04")
	}
	var inside nostr.Tags
	if json.Unmarshal([]byte(text), &inside) != nil || len(inside) > hiddenTags {
		return ev, because(CodeInvalidInput, fmt.Sprintf("what is encrypted is no list of at most %d tags", hiddenTags))
	}
	view := ev
	view.Content, view.Tags = "", nil
	for _, t := range ev.Tags {
		if len(t) > 0 && t[0] != "encrypted" {
			view.Tags = append(view.Tags, t)
		}
	}
	if d, err := domain.Of(inside); err != nil || d != "" {
		return ev, because(CodeInvalidInput, "tag domain: it is among the encrypted tags, and belongs in the event itself")
	}
	for _, t := range inside {
		// What says who and when is for all to see, in the event itself.
		if len(t) > 0 && t[0] != "p" && t[0] != "e" && t[0] != "expiration" && t[0] != "encrypted" {
			view.Tags = append(view.Tags, t)
		}
	}
	return view, Reason{}
}

// asked is a job's request with its hidden tags.
func (p *Provider) asked(ctx context.Context, job Job) (nostrEvent, error) {
	var ev nostrEvent
	if err := json.Unmarshal(job.Request, &ev); err != nil {
		return ev, fmt.Errorf("stored request: %w", err)
	}
	view, reason := p.opened(ctx, ev)
	if reason.Code != "" {
		return ev, fmt.Errorf("stored request: %s", reason)
	}
	return view, nil
}

// wrap hides a signed event in another of its kind, which shows only between
// whom it is and about what.
func (p *Provider) wrap(ctx context.Context, to addressee, ev nostrEvent) (nostrEvent, error) {
	if to.scheme == "" {
		return ev, nil
	}
	doc, err := json.Marshal(ev)
	if err != nil {
		return ev, err
	}
	hidden, err := p.hide(ctx, to, string(doc))
	if err != nil {
		return ev, err
	}
	return p.sign(ctx, ev.Kind, domain.Encrypted, nostr.Tags{{"e", to.request}, {"p", to.buyer}, {"encrypted"}}, hidden)
}

// unwrap is the other way; an event in the clear is returned as it is. The
// caller verifies what it gets.
func (p *Provider) unwrap(ctx context.Context, peer string, ev nostrEvent) (nostrEvent, error) {
	if !isHidden(ev) {
		return ev, nil
	}
	if err := domain.Demand(domain.Encrypted, ev.Tags); err != nil {
		return ev, err
	}
	return p.inside(ctx, peer, ev.Content)
}

func (p *Provider) inside(ctx context.Context, peer, hidden string) (inner nostrEvent, err error) {
	text, err := p.reveal(ctx, peer, hidden)
	if err == nil {
		err = json.Unmarshal([]byte(text), &inner)
	}
	return inner, err
}

// isSignedBy reports whether the key signed an event that came out of another.
func isSignedBy(ev nostrEvent, key string) bool {
	signed, err := ev.CheckSignature()
	return err == nil && signed && ev.CheckID() && ev.PubKey == key
}

// boundResult is the event that names the terms of a job's result: the
// published one, or the one hidden in it.
func (p *Provider) boundResult(ctx context.Context, job Job) (nostrEvent, error) {
	var ev nostrEvent
	if err := json.Unmarshal(job.Result.Event, &ev); err != nil {
		return ev, fmt.Errorf("stored result: %w", err)
	}
	t := ev.Tags.Find(hiddenTag)
	if t == nil || !isHidden(ev) {
		return ev, nil
	}
	inner, err := p.inside(ctx, job.Buyer, t[1])
	if err != nil {
		return ev, fmt.Errorf("stored result: %w", err)
	}
	return inner, nil
}

// box puts what a hidden job gave into boxes whose key is in the hidden event:
// blob servers are read by anybody.
func (p *Provider) box(job Job, r Result, replayFile []byte, artifacts [][]byte) (*sealed, error) {
	mac := hmac.New(sha256.New, p.cfg.RootSecret)
	mac.Write([]byte("lightwork/box/v1"))
	mac.Write([]byte(job.RequestID))
	mac.Write(job.Nonce)
	secret := payments.Preimage(mac.Sum(nil))
	key, err := receipts.NewSealKey(secret, job.QuoteHash, job.RequestID, r.OutputHash)
	if err != nil {
		return nil, err
	}
	s := &sealed{key: hex.EncodeToString(secret[:])}
	for i, content := range append([][]byte{r.Output, replayFile}, artifacts...) {
		box, err := key.Seal(i, content)
		if err != nil {
			return nil, fmt.Errorf("box result: %w", err)
		}
		s.boxes = append(s.boxes, box)
	}
	return s, nil
}

// hiddenResult makes the result of a hidden job: a signed event with all its
// terms, hidden in the published one. The content is for clients that look no
// further: the output alone, hidden too.
func (p *Provider) hiddenResult(ctx context.Context, job Job, to addressee, r *Result, s *sealed, bound nostr.Tags, contents [][]byte) (OutEvent, error) {
	policy, err := p.policyTag(ctx, job)
	if err != nil {
		return OutEvent{}, err
	}
	tags := append(bound, policy)
	if s.key != "" {
		tags = append(tags, nostr.Tag{"key", s.key})
	}
	for i, box := range s.boxes {
		tag := p.blob(receipts.RoleSealed, hashing.Bytes(box), len(box), "application/octet-stream")
		if s.key != "" {
			role := []string{receipts.RoleResult, receipts.RoleReplay, receipts.RoleArtifact}[min(i, 2)]
			tag = append(nostr.Tag{"box", role, hashing.Bytes(contents[i]).String(), strconv.Itoa(len(contents[i]))}, tag[2:]...)
		}
		tags = append(tags, tag)
	}
	inner, err := p.sign(ctx, job.Kind+kinds.ResultOffset, domain.Result, tags, "")
	if err != nil {
		return OutEvent{}, err
	}
	doc, err := json.Marshal(inner)
	if err != nil {
		return OutEvent{}, err
	}
	terms, err := p.hide(ctx, to, string(doc))
	if err != nil {
		return OutEvent{}, fmt.Errorf("%w: %w", errTooLarge, err)
	}
	asked, err := p.asked(ctx, job)
	if err != nil {
		return OutEvent{}, err
	}
	output := string(r.Output)
	if words, untyped := wordsOf(asked, r.Output); untyped {
		output = words
	}
	content := ""
	if s.key != "" && len(output) <= hiddenOutput {
		if content, err = p.hide(ctx, to, output); err != nil {
			return OutEvent{}, err
		}
	}
	return p.fit(ctx, job, r, domain.Encrypted, nostr.Tags{{"e", to.request}, {"p", to.buyer}, {"encrypted"}, {hiddenTag, terms}}, content)
}
