// Package author signs what a buyer says, and keeps what is said in private between it
// and one provider.
package author

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip13"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
)

// Signer makes events with the buyer's key.
type Signer interface {
	Sign(ctx context.Context, ev *nostr.Event) error
}

// Cipher hides what is told to one key alone, with the buyer's own.
type Cipher interface {
	NIP44Encrypt(ctx context.Context, peer, text string) (string, error)
	NIP44Decrypt(ctx context.Context, peer, hidden string) (string, error)
	NIP04Decrypt(ctx context.Context, peer, hidden string) (string, error)
}

// Kinds are the event kinds that are ours to configure.
type Kinds struct {
	Request    int
	Acceptance int
	Receipt    int
}

// Author is the buyer as those hear it that it speaks to.
type Author struct {
	Key    string // x-only hex
	Signer Signer
	Cipher Cipher // nil: it can hide nothing
	Kinds  Kinds
}

// Sign makes a document of ours, now.
func (a *Author) Sign(ctx context.Context, kind int, d domain.Domain, tags nostr.Tags, content string) (nostr.Event, []byte, error) {
	return a.SignEvent(ctx, nostr.Event{Kind: kind, CreatedAt: nostr.Timestamp(time.Now().Unix()), Tags: append(slices.Clip(tags), d.Tag()), Content: content})
}

// SignEvent signs an event whose tags are complete, its domain included.
func (a *Author) SignEvent(ctx context.Context, ev nostr.Event) (nostr.Event, []byte, error) {
	if err := a.Signer.Sign(ctx, &ev); err != nil {
		return ev, nil, fmt.Errorf("sign kind %d: %w", ev.Kind, err)
	}
	raw, err := json.Marshal(ev)
	return ev, raw, err
}

const (
	// workMax is the most proof of work that is done for a job: some seconds of
	// all processors.
	workMax     = 26
	workTimeout = 2 * time.Minute
)

// SignRequest signs a request for which work was done (NIP-13).
func (a *Author) SignRequest(ctx context.Context, tags nostr.Tags, content string, workBits int) (nostr.Event, []byte, error) {
	if workBits > workMax {
		return nostr.Event{}, nil, fmt.Errorf("the provider wants %d bits of proof of work for a free job, we do at most %d", workBits, workMax)
	}
	tags = append(slices.Clip(tags), domain.Request.Tag())
	if workBits > 0 {
		ctx, cancel := context.WithTimeout(ctx, workTimeout)
		defer cancel()
		ev := nostr.Event{PubKey: a.Key, Kind: a.Kinds.Request, CreatedAt: nostr.Now(), Tags: tags, Content: content}
		nonce, err := nip13.DoWork(ctx, ev, workBits)
		if err != nil {
			return ev, nil, fmt.Errorf("proof of work: %w", err)
		}
		ev.Tags = append(tags, nonce)
		return a.SignEvent(ctx, ev)
	}

	return a.SignEvent(ctx, nostr.Event{Kind: a.Kinds.Request, CreatedAt: nostr.Now(), Tags: tags, Content: content})
}

// Deletion signs that the provider of a request is to drop it, and why (NIP-09, NIP-90).
func (a *Author) Deletion(ctx context.Context, requestID, provider, why string) (nostr.Event, []byte, error) {
	tags := nostr.Tags{{"e", requestID}, {"k", strconv.Itoa(a.Kinds.Request)}, {"p", provider}}
	return a.Sign(ctx, kinds.Deletion, domain.Deletion, tags, why)
}
