package relay

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/nbd-wtf/go-nostr/nip04"
	"github.com/nbd-wtf/go-nostr/nip44"
)

// Cipher hides text between the signer's key and another, peer (x-only hex).
// The methods are those of a NIP-46 signer, so the key may be elsewhere.
type Cipher interface {
	EncryptNIP44(ctx context.Context, peer, text string) (string, error)
	DecryptNIP44(ctx context.Context, peer, hidden string) (string, error)
	// NIP-04 authenticates nothing: what it opens is worth what the event's
	// signature is worth. It is there for clients that know no other.
	EncryptNIP04(ctx context.Context, peer, text string) (string, error)
	DecryptNIP04(ctx context.Context, peer, hidden string) (string, error)
}

var _ Cipher = (*Key)(nil)

// ErrCipher is wrapped by every failure to hide or to open. The text is never quoted.
var ErrCipher = errors.New("cannot be encrypted or decrypted")

// maxHidden bounds what is opened, in bytes: more fits in no event.
const maxHidden = 128 << 10

// EncryptNIP44 hides at most 65,535 bytes.
func (k *Key) EncryptNIP44(_ context.Context, peer, text string) (string, error) {
	key, err := nip44.GenerateConversationKey(peer, k.secret())
	if err != nil {
		return "", fmt.Errorf("%w: NIP-44 with that key", ErrCipher)
	}
	hidden, err := nip44.Encrypt(text, key)
	if err != nil {
		return "", fmt.Errorf("%w: NIP-44, %d bytes", ErrCipher, len(text))
	}
	return hidden, nil
}

// DecryptNIP44 opens what the peer, or we for the peer, have hidden.
func (k *Key) DecryptNIP44(_ context.Context, peer, hidden string) (string, error) {
	// The decoder of base64 passes over line ends: of these alone it would
	// decode nothing, of which the library then wants the first byte.
	if len(hidden) > maxHidden || strings.ContainsAny(hidden, "\r\n") {
		return "", fmt.Errorf("%w: no NIP-44 payload", ErrCipher)
	}
	key, err := nip44.GenerateConversationKey(peer, k.secret())
	if err != nil {
		return "", fmt.Errorf("%w: NIP-44 with that key", ErrCipher)
	}
	text, err := nip44.Decrypt(hidden, key)
	if err != nil {
		return "", fmt.Errorf("%w: no NIP-44 payload between these keys", ErrCipher)
	}
	return text, nil
}

// EncryptNIP04 hides text as NIP-04 has it: base64, "?iv=", base64.
func (k *Key) EncryptNIP04(_ context.Context, peer, text string) (string, error) {
	key, err := nip04.ComputeSharedSecret(peer, k.secret())
	if err != nil {
		return "", fmt.Errorf("%w: NIP-04 with that key", ErrCipher)
	}
	hidden, err := nip04.Encrypt(text, key)
	if err != nil {
		return "", fmt.Errorf("%w: NIP-04", ErrCipher)
	}
	return hidden, nil
}

// DecryptNIP04 does by hand what the library does without looking at lengths.
func (k *Key) DecryptNIP04(_ context.Context, peer, hidden string) (string, error) {
	bad := fmt.Errorf("%w: no NIP-04 payload between these keys", ErrCipher)
	body, vector, ok := strings.Cut(hidden, "?iv=")
	if !ok || len(hidden) > maxHidden {
		return "", bad
	}
	text, err := base64.StdEncoding.DecodeString(body)
	if err != nil || len(text) == 0 || len(text)%aes.BlockSize != 0 {
		return "", bad
	}
	iv, err := base64.StdEncoding.DecodeString(vector)
	if err != nil || len(iv) != aes.BlockSize {
		return "", bad
	}
	key, err := nip04.ComputeSharedSecret(peer, k.secret())
	if err != nil {
		return "", bad
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return "", bad
	}
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(text, text)
	pad := int(text[len(text)-1])
	if pad == 0 || pad > aes.BlockSize {
		return "", bad
	}
	return string(text[:len(text)-pad]), nil
}
