package tree

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/lightwork-market/lightwork/hashing"
)

// Labels that keep what is derived here apart from all else.
const (
	keyLabel        = "lightwork/tree-key/v1\x00"
	nonceLabel      = "lightwork/tree-nonce/v1\x00"
	sealLabel       = "lightwork/tree-seal/v1\x00"
	commitmentLabel = "lightwork/tree-commitment/v1\x00"
)

// Secret is 32 bytes that only buyer and provider know. It prints as nothing.
type Secret [32]byte

// String hides the secret from logs.
func (Secret) String() string { return "(secret)" }

// MarshalText is the secret in hex: for a grant, which is encrypted.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(s[:])), nil }

// UnmarshalText reads 64 lower-case hex digits.
func (s *Secret) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(s) || hex.EncodeToString(raw) != string(text) {
		return fmt.Errorf("not %d lower-case hex digits", 2*len(s))
	}
	copy(s[:], raw)
	return nil
}

// Grant is what a buyer tells the provider alone: which tree it is, and how it is opened.
type Grant struct {
	Digest hashing.Digest `json:"digest"` // of the plain tree
	Key    Secret         `json:"key"`
	Salt   Secret         `json:"salt"`
}

// NewGrant makes the grant of a tree for a provider (x-only hex). The key follows from the
// buyer's secret, the provider and the tree, so the same tree makes the same chunks for the
// same provider, and others for anybody else. The salt is new each time.
func NewGrant(secret []byte, provider string, digest hashing.Digest) Grant {
	g := Grant{Digest: digest, Key: derive(secret, keyLabel, []byte(provider), digest[:])}
	_, _ = rand.Read(g.Salt[:]) // never fails
	return g
}

// ParseGrant reads a grant.
func ParseGrant(doc []byte) (Grant, error) {
	var g Grant
	if err := hashing.Unmarshal(doc, &g); err != nil {
		return Grant{}, fmt.Errorf("key of the tree: %w", err)
	}
	if g.Key == (Secret{}) || g.Salt == (Secret{}) || g.Digest == (hashing.Digest{}) {
		return Grant{}, fmt.Errorf("key of the tree: digest, key or salt is missing")
	}
	return g, nil
}

// Encode is the grant as it is encrypted for the provider.
func (g Grant) Encode() []byte {
	doc, _ := json.Marshal(g) // digests and secrets always marshal
	return doc
}

// Commit is what the request says of the plain tree: its digest, hidden behind the salt.
func (g Grant) Commit() hashing.Digest {
	return hashing.Bytes([]byte(commitmentLabel + string(g.Salt[:]) + string(g.Digest[:])))
}

func derive(key []byte, label string, parts ...[]byte) Secret {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(label))
	for _, p := range parts {
		mac.Write(p)
	}
	return Secret(mac.Sum(nil))
}

// Seal encrypts a part. The nonce follows from the part: the same part makes the same
// chunk, which a blob server needs only once, and no nonce serves two parts.
func (g Grant) Seal(part []byte) ([]byte, Chunk, error) {
	aead, err := g.aead()
	if err != nil {
		return nil, Chunk{}, err
	}
	seed := derive(g.Key[:], nonceLabel, part)

	box := make([]byte, chacha20poly1305.NonceSizeX, len(part)+boxOverhead)
	copy(box, seed[:])
	box = aead.Seal(box, box, part, nil)
	return box, Chunk{SHA256: hashing.Bytes(box), Size: int64(len(box))}, nil
}

// Open decrypts a chunk, and returns [ErrChunk] unless it is the one that the manifest
// names.
func (g Grant) Open(box []byte, named Chunk) ([]byte, error) {
	if int64(len(box)) != named.Size || len(box) <= boxOverhead || hashing.Bytes(box) != named.SHA256 {
		return nil, ErrChunk
	}
	aead, err := g.aead()
	if err != nil {
		return nil, err
	}
	nonce, sealed := box[:chacha20poly1305.NonceSizeX], box[chacha20poly1305.NonceSizeX:]
	part, err := aead.Open(nil, nonce, sealed, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: the key does not open it", ErrChunk)
	}
	return part, nil
}

func (g Grant) aead() (cipher.AEAD, error) {
	key := derive(g.Key[:], sealLabel)
	return chacha20poly1305.NewX(key[:])
}
