package nwc

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/nbd-wtf/go-nostr/nip04"
	"github.com/nbd-wtf/go-nostr/nip44"
)

// Scheme is an encryption scheme.
type Scheme string

// The schemes of NIP-47. NIP-04 does not authenticate the text, but here the
// event's signature does.
const (
	NIP44 Scheme = "nip44_v2"
	NIP04 Scheme = "nip04"
)

// maxContent bounds a message to decrypt, in bytes: the longest text of NIP-44.
const maxContent = 87472

var errSealed = errors.New("the message cannot be opened")

// channel encrypts messages between one key of ours and one of the peer.
type channel struct {
	nip44 [32]byte
	nip04 []byte
}

// newChannel fails if peer is not a public key.
func newChannel(own Secret, peer string) (*channel, error) {
	var c channel
	var err error
	if c.nip44, err = nip44.GenerateConversationKey(peer, own.Hex()); err != nil {
		return nil, errors.New("make conversation key") // the cause may quote a key
	}
	if c.nip04, err = nip04.ComputeSharedSecret(peer, own.Hex()); err != nil {
		return nil, errors.New("make shared secret")
	}
	return &c, nil
}

func (c *channel) seal(s Scheme, text []byte) (content string, err error) {
	if s == NIP04 {
		content, err = nip04.Encrypt(string(text), c.nip04)
	} else {
		content, err = nip44.Encrypt(string(text), c.nip44)
	}
	if err != nil {
		return "", fmt.Errorf("seal %d bytes by %s: %w", len(text), s, err)
	}
	return content, nil
}

func (c *channel) open(s Scheme, content string) ([]byte, error) {
	if len(content) > maxContent {
		return nil, fmt.Errorf("%w: %d bytes", errSealed, len(content))
	}

	var text string
	var err error
	switch {
	case s == NIP44:
		text, err = nip44.Decrypt(content, c.nip44)
	case s == NIP04 && wellFormed04(content):
		text, err = nip04.Decrypt(content, c.nip04)
	default:
		err = errors.New("not in the format of that scheme")
	}

	if err != nil {
		return nil, fmt.Errorf("%w by %s: %w", errSealed, s, err)
	}
	return []byte(text), nil
}

// wellFormed04 checks the lengths that the decoder relies on; it panics on others.
func wellFormed04(content string) bool {
	const block = 16
	body, iv, ok := strings.Cut(content, "?iv=")
	if !ok {
		return false
	}
	b, err := base64.StdEncoding.DecodeString(body)
	if err != nil || len(b) == 0 || len(b)%block != 0 {
		return false
	}
	v, err := base64.StdEncoding.DecodeString(iv)
	return err == nil && len(v) == block
}
