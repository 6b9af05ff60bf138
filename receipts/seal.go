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
	"slices"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// Roles of the sealed contents, and of the boxes in a result event.
const (
	RoleResult   = "result"
	RoleReplay   = "replay"
	RoleArtifact = "artifact"
	RoleSealed   = "sealed"
)

// maxSealed bounds the contents of a seal.
const maxSealed = 256

// ErrFalseBox says that a box does not open with the preimage that was paid for, or
// contains something else than the result event committed to.
var ErrFalseBox = errors.New("false box")

// Seal is SEAL.json: the terms and contents of a sealed result, with a salt so that
// nobody can find them by guessing. Its hash is the commitment in the result event. It
// comes first in the boxes.
type Seal struct {
	Version                int             `json:"version"`
	Salt                   string          `json:"salt"` // 64 hex digits
	OutputHash             hashing.Digest  `json:"output_hash"`
	AgreementHash          *hashing.Digest `json:"agreement_hash"`
	PlanHash               hashing.Digest  `json:"plan_hash"`
	TrajectoryHash         hashing.Digest  `json:"trajectory_hash"`
	RedactedTrajectoryHash hashing.Digest  `json:"redacted_trajectory_hash"`
	ReplayHash             hashing.Digest  `json:"replay_hash"`
	// Contents follow the seal in the boxes, in this order.
	Contents []SealedContent `json:"contents"`
}

// SealedContent is one part of a sealed result.
type SealedContent struct {
	Role   string         `json:"role"`
	Digest hashing.Digest `json:"digest"`
	Size   int64          `json:"size"`
}

// NewSeal makes the seal of a result with a new salt. contents lists its parts.
func NewSeal(t ResultTerms, contents []SealedContent) Seal {
	var salt [32]byte
	_, _ = rand.Read(salt[:]) // never fails
	return Seal{
		Version: Version, Salt: hex.EncodeToString(salt[:]), OutputHash: t.OutputHash, AgreementHash: t.AgreementHash,
		PlanHash: t.PlanHash, TrajectoryHash: t.TrajectoryHash, RedactedTrajectoryHash: t.RedactedTrajectoryHash,
		ReplayHash: t.ReplayHash, Contents: contents,
	}
}

// Canonical is the seal's canonical JSON. Errors wrap [ErrInvalid].
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

// Terms are the terms that the result's event would have in plain delivery. The seal
// gives those of the output, known the others.
func (s Seal) Terms(known ResultTerms) ResultTerms {
	known.OutputHash, known.AgreementHash, known.PlanHash = s.OutputHash, s.AgreementHash, s.PlanHash
	known.TrajectoryHash, known.RedactedTrajectoryHash, known.ReplayHash = s.TrajectoryHash, s.RedactedTrajectoryHash, s.ReplayHash
	return known
}

// SealKey seals and opens the boxes of one result. It is derived from the preimage, so
// that the provider gives it to the buyer by taking the payment.
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

// Seal encrypts content as the box with this number, from 0: XChaCha20-Poly1305 with a
// random nonce, bound to quote, commitment and number.
func (k SealKey) Seal(number int, content []byte) ([]byte, error) {
	aead, err := chacha20poly1305.NewX(k.key)
	if err != nil {
		return nil, err
	}
	box := make([]byte, chacha20poly1305.NonceSizeX, len(content)+BoxOverhead)
	_, _ = rand.Read(box) // never fails
	return aead.Seal(box, box, content, k.bound(number)), nil
}

// Open decrypts a box. Errors wrap [ErrFalseBox].
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

// bound is the associated data of a box.
func (k SealKey) bound(number int) []byte {
	return binary.BigEndian.AppendUint32(bytes.Join([][]byte{k.quote[:], k.commitment[:]}, nil), uint32(number))
}

// The contents of a sealed result form one stream, padded to a power of two from
// leastStream to mostStream. Somebody who has not paid learns only this size class from
// the boxes, because it also determines their number.
const (
	leastStream = 16 << 10
	mostStream  = 128 << 20
	boxStream   = 8 << 20 // stream bytes in one box; blob servers must accept the box
)

// lengthBytes is the size of the first field of the stream, the length of SEAL.json.
const lengthBytes = 4

// streamClass is the length of a padded stream with used bytes.
func streamClass(used int64) int64 {
	class := int64(leastStream)
	for class < used {
		class *= 2
	}
	return class
}

// SealAll encrypts SEAL.json and its contents, in their order, as boxes. The error wraps
// [ErrInvalid] if they are too large together.
func (k SealKey) SealAll(doc []byte, contents [][]byte) (boxes [][]byte, err error) {
	used := lengthBytes + int64(len(doc))
	for _, content := range contents {
		used += int64(len(content))
	}
	if used > mostStream {
		return nil, fmt.Errorf("%w: a sealed result of %d bytes; the most are %d", ErrInvalid, used, mostStream)
	}

	class := streamClass(used)
	stream := make([]byte, 0, class)
	stream = binary.BigEndian.AppendUint32(stream, uint32(len(doc)))
	stream = append(stream, doc...)
	for _, content := range contents {
		stream = append(stream, content...)
	}

	stream = stream[:class] // zeros to its end

	for part := range slices.Chunk(stream, boxStream) {
		box, err := k.Seal(len(boxes), part)
		if err != nil {
			return nil, err
		}
		boxes = append(boxes, box)
	}

	return boxes, nil
}

// OpenAll opens the boxes of a result and checks that they hold the seal to which the
// event committed and its contents, as [SealKey.SealAll] makes them; otherwise the error
// wraps [ErrFalseBox]. The contents have the seal's order and share memory.
func (k SealKey) OpenAll(boxes [][]byte) (s Seal, doc []byte, contents [][]byte, err error) {
	stream, err := k.openStream(boxes)
	if err != nil {
		return s, nil, nil, err
	}
	length := int64(binary.BigEndian.Uint32(stream))
	rest := stream[lengthBytes:]
	if length > int64(len(rest)) {
		return s, nil, nil, fmt.Errorf("%w: the seal is longer than the boxes", ErrFalseBox)
	}
	doc, rest = rest[:length:length], rest[length:]
	if hashing.Bytes(doc) != k.commitment {
		return s, nil, nil, fmt.Errorf("%w: they hold another seal than was committed to", ErrFalseBox)
	}
	if s, err = ParseSeal(doc); err != nil {
		return s, nil, nil, fmt.Errorf("%w: %w", ErrFalseBox, err)
	}

	for i, part := range s.Contents {
		if part.Size > int64(len(rest)) {
			return s, nil, nil, fmt.Errorf("%w: content %d, the %s, is longer than the boxes", ErrFalseBox, i+1, part.Role)
		}
		content := rest[:part.Size:part.Size]
		if hashing.Bytes(content) != part.Digest {
			return s, nil, nil, fmt.Errorf("%w: content %d is another %s than was committed to", ErrFalseBox, i+1, part.Role)
		}
		contents, rest = append(contents, content), rest[part.Size:]
	}

	if class := streamClass(int64(len(stream) - len(rest))); class != int64(len(stream)) {
		return s, nil, nil, fmt.Errorf("%w: they hold %d bytes, and not the %d of their size class", ErrFalseBox, len(stream), class)
	}
	if slices.ContainsFunc(rest, func(b byte) bool { return b != 0 }) {
		return s, nil, nil, fmt.Errorf("%w: there is something behind what the seal lists", ErrFalseBox)
	}

	return s, doc, contents, nil
}

// openStream decrypts the boxes and joins them; the stream has at least leastStream
// bytes.
func (k SealKey) openStream(boxes [][]byte) (stream []byte, err error) {
	if len(boxes) == 0 {
		return nil, fmt.Errorf("%w: there is none", ErrFalseBox)
	}
	if len(boxes) > mostStream/boxStream {
		return nil, fmt.Errorf("%w: there are %d, the most are %d", ErrFalseBox, len(boxes), mostStream/boxStream)
	}

	stream = make([]byte, 0, min(len(boxes)*len(boxes[0]), mostStream))
	for i, box := range boxes {
		part, err := k.Open(i, box)
		if err != nil {
			return nil, err
		}
		if len(part) > boxStream || len(part) < boxStream && len(boxes) > 1 || len(part) < leastStream {
			return nil, fmt.Errorf("%w: number %d holds %d bytes, which no box of %d does", ErrFalseBox, i, len(part), len(boxes))
		}
		stream = append(stream, part...)
	}

	return stream, nil
}
