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

// MaxSealed is the length of the longest text encrypted by NIP-44, in bytes of base64.
const MaxSealed = 87472

// ErrSealed is returned for a text that cannot be encrypted or decrypted. The error
// quotes no text.
var ErrSealed = errors.New("encrypted text")

// NIP44Encrypt encrypts a text of 1 to 65535 bytes for the peer (hex).
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

// NIP44Decrypt decrypts a text that the peer encrypted for this key.
func (k *Key) NIP44Decrypt(_ context.Context, peer, sealed string) (string, error) {
	// The base64 decoder skips line ends. A text of line ends alone would decode to
	// nothing, and the library panics on the missing first byte.
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

// NIP04Encrypt encrypts text by NIP-04: base64, "?iv=", base64. NIP-04 does not
// authenticate the text; only the signature of the event around it does. It is kept
// for clients that do not know NIP-44.
func (k *Key) NIP04Encrypt(_ context.Context, peer, text string) (string, error) {
	key, err := nip04.ComputeSharedSecret(peer, k.secret())
	if err != nil {
		return "", fmt.Errorf("%w: the peer is not a public key", ErrSealed)
	}
	hidden, err := nip04.Encrypt(text, key)
	if err != nil {
		return "", fmt.Errorf("%w: seal %d bytes", ErrSealed, len(text))
	}
	return hidden, nil
}

// NIP04Decrypt decrypts a text by NIP-04. It does not use the library, which does
// not check lengths and panics on short texts.
func (k *Key) NIP04Decrypt(_ context.Context, peer, hidden string) (string, error) {
	bad := fmt.Errorf("%w: it does not open by NIP-04", ErrSealed)
	body, vector, ok := strings.Cut(hidden, "?iv=")
	if !ok || len(hidden) > MaxSealed {
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
