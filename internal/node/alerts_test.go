package node

import (
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip59"

	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/relay"
)

// TestOwnerReadsTheMessage: it is for the owner alone, from the node's key, and a relay sees
// neither.
func TestOwnerReadsTheMessage(t *testing.T) {
	key, owner := newKey(t), newKey(t)
	wrap, err := wrapFor(t.Context(), keys.Signer{Signer: key, Cipher: key}, owner.PublicKey(), "20 sat are owed")
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := wrap.CheckSignature(); !ok || err != nil || wrap.Kind != nostr.KindGiftWrap || wrap.PubKey == key.PublicKey() || strings.Contains(wrap.String(), key.PublicKey()) || strings.Contains(wrap.String(), "owed") {
		t.Errorf("%s: %v", wrap, err)
	}
	read := func(by *relay.Key) (nostr.Event, error) {
		return nip59.GiftUnwrap(wrap, func(from, text string) (string, error) { return by.NIP44Decrypt(t.Context(), from, text) })
	}
	rumor, err := read(owner)
	if err != nil || rumor.Kind != nostr.KindDirectMessage || rumor.PubKey != key.PublicKey() || rumor.Content != "20 sat are owed" {
		t.Errorf("%s: %v", rumor, err)
	}
	if _, err := read(key); err == nil {
		t.Error("somebody else reads it")
	}
}

func newKey(t *testing.T) *relay.Key {
	t.Helper()
	key, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}
