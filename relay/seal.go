package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nbd-wtf/go-nostr/nip44"
)

// MaxSealed bounds a text sealed by NIP-44, in bytes of base64.
const MaxSealed = 87472

// ErrSealed is returned for a sealed text that cannot be opened, or a text
// that cannot be sealed. It quotes neither.
var ErrSealed = errors.New("encrypted text")

// NIP44Encrypt seals a text of 1 to 65535 bytes for the peer (hex).
func (k *Key) NIP44Encrypt(_ context.Context, peer, text string) (string, error) {
	shared, err := nip44.GenerateConversationKey(peer, k.secret())
	if err != nil {
		return "", fmt.Errorf("%w: the peer is not a public key", ErrSealed)
	}
	sealed, err := nip44.Encrypt(text, shared)
	if err != nil {
		return "", fmt.Errorf("%w: seal %d bytes", ErrSealed, len(text))
	}
	return sealed, nil
}

// NIP44Decrypt opens what the peer sealed for this key.
func (k *Key) NIP44Decrypt(_ context.Context, peer, sealed string) (string, error) {
	// The decoder of base64 passes over line ends: of these alone it would
	// decode nothing, of which the library then wants the first byte.
	if len(sealed) > MaxSealed || strings.ContainsAny(sealed, "\r\n") {
		return "", fmt.Errorf("%w: sealed text of %d bytes", ErrSealed, len(sealed))
	}
	shared, err := nip44.GenerateConversationKey(peer, k.secret())
	if err != nil {
		return "", fmt.Errorf("%w: the peer is not a public key", ErrSealed)
	}
	text, err := nip44.Decrypt(sealed, shared)
	if err != nil {
		return "", fmt.Errorf("%w: it does not open", ErrSealed)
	}
	return text, nil
}
