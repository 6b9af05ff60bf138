package receipts

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// Roles of what is sealed, and of the boxes as a result event lists them.
const (
	RoleResult   = "result"
	RoleReplay   = "replay"
	RoleArtifact = "artifact"
	RoleSealed   = "sealed"
)

// maxSealed bounds the contents of a seal.
const maxSealed = 256

// ErrFalseBox: a box does not open with the preimage that was paid for, or
// holds something else than its result event committed to.
var ErrFalseBox = errors.New("false box")

// Seal is SEAL.json: what a sealed result is, under a salt that keeps anybody
// from guessing it. Its hash is the commitment in the result event; itself it
// is the content of the first box.
type Seal struct {
	Version                int             `json:"version"`
	Salt                   string          `json:"salt"` // 64 hex digits
	OutputHash             hashing.Digest  `json:"output_hash"`
	AgreementHash          *hashing.Digest `json:"agreement_hash"`
	PlanHash               hashing.Digest  `json:"plan_hash"`
	TrajectoryHash         hashing.Digest  `json:"trajectory_hash"`
	RedactedTrajectoryHash hashing.Digest  `json:"redacted_trajectory_hash"`
	ReplayHash             hashing.Digest  `json:"replay_hash"`
	// Contents are those of the further boxes, in their order.
	Contents []SealedContent `json:"contents"`
}

// SealedContent is what one box holds.
type SealedContent struct {
	Role   string         `json:"role"`
	Digest hashing.Digest `json:"digest"`
	Size   int64          `json:"size"`
}

// NewSeal commits to a result with a new salt. contents lists the further boxes.
func NewSeal(t ResultTerms, contents []SealedContent) Seal {
	var salt [32]byte
	_, _ = rand.Read(salt[:]) // never fails
	return Seal{
		Version: Version, Salt: hex.EncodeToString(salt[:]), OutputHash: t.OutputHash, AgreementHash: t.AgreementHash,
		PlanHash: t.PlanHash, TrajectoryHash: t.TrajectoryHash, RedactedTrajectoryHash: t.RedactedTrajectoryHash,
		ReplayHash: t.ReplayHash, Contents: contents,
	}
}

// Canonical is the seal in its one form. Errors wrap ErrInvalid.
func (s Seal) Canonical() ([]byte, error) {
	if err := s.validate(keyring{}); err != nil {
		return nil, err
	}
	return hashing.CanonicalValue(s)
}

func (s Seal) validate(keyring) error {
	c := checks{document: "seal"}
	c.version(s.Version)
	c.id("salt", s.Salt)
	c.that(len(s.Contents) >= 1 && len(s.Contents) <= maxSealed, "contents must be 1 to 256")
	results := 0
	for _, part := range s.Contents {
		c.that(isOneOf(part.Role, RoleResult, RoleReplay, RoleArtifact), "a content has an unknown role")
		c.that(part.Size >= 0, "a content has a negative size")
		if part.Role == RoleResult {
			results++
		}
	}
	c.that(results == 1, "contents must hold one result")
	for name, d := range map[string]hashing.Digest{
		"output_hash": s.OutputHash, "plan_hash": s.PlanHash, "trajectory_hash": s.TrajectoryHash,
		"redacted_trajectory_hash": s.RedactedTrajectoryHash, "replay_hash": s.ReplayHash,
	} {
		c.digest(name, d)
	}
	return c.failed
}

// ParseSeal reads SEAL.json. Errors wrap ErrInvalid.
func ParseSeal(doc []byte) (Seal, error) { return readDocument[Seal]("seal", doc, keyring{}) }

// Terms are the result's, as its event would bind them in the clear, with the
// rest taken from known.
func (s Seal) Terms(known ResultTerms) ResultTerms {
	known.OutputHash, known.AgreementHash, known.PlanHash = s.OutputHash, s.AgreementHash, s.PlanHash
	known.TrajectoryHash, known.RedactedTrajectoryHash, known.ReplayHash = s.TrajectoryHash, s.RedactedTrajectoryHash, s.ReplayHash
	return known
}

// SealKey opens the boxes of one result. Whoever is paid gives it away.
type SealKey struct {
	key        []byte
	quote      hashing.Digest
	commitment hashing.Digest
}

// NewSealKey derives the key: HKDF-SHA256 of the preimage, with quote_hash as
// salt and "lightwork/seal/v1" and the request's id as info. commitment is the
// hash of SEAL.json.
func NewSealKey(preimage payments.Preimage, quoteHash hashing.Digest, requestID string, commitment hashing.Digest) (SealKey, error) {
	key, err := hkdf.Key(sha256.New, preimage[:], quoteHash[:], "lightwork/seal/v1"+requestID, chacha20poly1305.KeySize)
	if err != nil {
		return SealKey{}, fmt.Errorf("derive seal key: %w", err)
	}
	return SealKey{key: key, quote: quoteHash, commitment: commitment}, nil
}

// BoxOverhead is how much larger a box is than its content.
const BoxOverhead = chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead

// Seal puts content into the box with this number, from 0: a random nonce and
// XChaCha20-Poly1305, bound to quote, commitment and number.
func (k SealKey) Seal(number int, content []byte) ([]byte, error) {
	aead, err := chacha20poly1305.NewX(k.key)
	if err != nil {
		return nil, err
	}
	box := make([]byte, chacha20poly1305.NonceSizeX, len(content)+BoxOverhead)
	_, _ = rand.Read(box) // never fails
	return aead.Seal(box, box, content, k.bound(number)), nil
}

// Open takes the content out of a box. The error is ErrFalseBox.
func (k SealKey) Open(number int, box []byte) ([]byte, error) {
	aead, err := chacha20poly1305.NewX(k.key)
	if err != nil {
		return nil, err
	}
	if len(box) < BoxOverhead {
		return nil, fmt.Errorf("%w: number %d is too short", ErrFalseBox, number)
	}
	nonce, sealed := box[:chacha20poly1305.NonceSizeX], box[chacha20poly1305.NonceSizeX:]
	content, err := aead.Open(nil, nonce, sealed, k.bound(number))
	if err != nil {
		return nil, fmt.Errorf("%w: number %d does not open with the preimage", ErrFalseBox, number)
	}
	return content, nil
}

// bound is what a box is bound to besides its key.
func (k SealKey) bound(number int) []byte {
	return binary.BigEndian.AppendUint32(bytes.Join([][]byte{k.quote[:], k.commitment[:]}, nil), uint32(number))
}

// OpenAll opens every box of a result: the first holds the seal that the event
// committed to, the others what it lists. Whatever is not so is ErrFalseBox.
// contents are in the order of the seal's.
func (k SealKey) OpenAll(boxes [][]byte) (s Seal, doc []byte, contents [][]byte, err error) {
	if len(boxes) == 0 {
		return s, nil, nil, fmt.Errorf("%w: there is none", ErrFalseBox)
	}
	if doc, err = k.Open(0, boxes[0]); err != nil {
		return s, nil, nil, err
	}
	if hashing.Bytes(doc) != k.commitment {
		return s, nil, nil, fmt.Errorf("%w: the first holds another seal than was committed to", ErrFalseBox)
	}
	if s, err = ParseSeal(doc); err != nil {
		return s, nil, nil, fmt.Errorf("%w: %w", ErrFalseBox, err)
	}
	if len(s.Contents) != len(boxes)-1 {
		return s, nil, nil, fmt.Errorf("%w: the seal lists %d contents, there are %d boxes", ErrFalseBox, len(s.Contents), len(boxes)-1)
	}
	for i, part := range s.Contents {
		content, err := k.Open(i+1, boxes[i+1])
		if err != nil {
			return s, nil, nil, err
		}
		if hashing.Bytes(content) != part.Digest || int64(len(content)) != part.Size {
			return s, nil, nil, fmt.Errorf("%w: number %d holds another %s than was committed to", ErrFalseBox, i+1, part.Role)
		}
		contents = append(contents, content)
	}
	return s, doc, contents, nil
}
