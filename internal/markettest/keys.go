package markettest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/relay"
)

// NewKey makes a key that the world knows nothing of.
func NewKey(t *testing.T) *relay.Key {
	t.Helper()
	key, err := relay.GenerateKey()
	Check(t, err)
	return key
}

// LyingSigner lets a rival change what its provider says before it is signed: an
// attacker whose every event is well formed and truly its own.
type LyingSigner struct {
	*relay.Key
	Lie func(ctx context.Context, ev *nostr.Event) error
}

func (s LyingSigner) Sign(ctx context.Context, ev *nostr.Event) error {
	if s.Lie != nil {
		if err := s.Lie(ctx, ev); err != nil {
			return err
		}
	}
	return KindSigner{s.Key, kinds.SignedByProvider()}.Sign(ctx, ev)
}

// KindSigner signs the kinds that it was asked to allow and no other, as a remote
// signer does.
type KindSigner struct {
	*relay.Key
	Kinds []int
}

func (p KindSigner) Sign(ctx context.Context, ev *nostr.Event) error {
	if !slices.Contains(p.Kinds, ev.Kind) {
		return fmt.Errorf("kind %d is not among those that are signed for this role", ev.Kind)
	}
	return p.Key.Sign(ctx, ev)
}

// SignedEvent signs an event with a party's key, for tests that speak Nostr themselves.
func SignedEvent(t *testing.T, key *relay.Key, kind int, content string, tags ...nostr.Tag) nostr.Event {
	t.Helper()
	ev := nostr.Event{Kind: kind, CreatedAt: nostr.Now(), Tags: tags, Content: content}
	Check(t, key.Sign(t.Context(), &ev))
	return ev
}
