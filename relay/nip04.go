package relay

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/nbd-wtf/go-nostr/nip04"
)

// NIP-04 authenticates nothing: what it opens is worth what the signature of
// the event around it is worth. It is there for clients that know no other.

// NIP04Encrypt hides text as NIP-04 has it: base64, "?iv=", base64.
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

// NIP04Decrypt does by hand what the library does without looking at lengths.
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
