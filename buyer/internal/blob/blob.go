// Package blob reads what a result refers to: files at addresses, some of them in boxes
// that a payment or a key opens.
package blob

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// Ref is one file that a result refers to.
type Ref struct {
	Role   string
	Digest hashing.Digest
	Size   int64
	URLs   []string

	Box    *hashing.Digest // what is at the addresses is a box with this digest,
	Number int             // this many-th of the result
}

// Bounds of what one result may make us fetch.
const (
	maxBytes = 32 << 20
	maxRefs  = 160
	maxTotal = 129 << 20 // a sealed result of the largest class, and the policy
	maxURLs  = 4         // of one blob; the rest is not tried
)

// Refs are the files that the tags of a result name, boxes among them.
func Refs(tags nostr.Tags) ([]Ref, error) {
	var refs []Ref
	total := int64(0)
	boxes := 0
	for _, t := range tags {
		var ref Ref
		var err error
		switch {
		case len(t) > 0 && t[0] == "box":
			ref, err = boxRef(t, boxes)
			boxes++
		case len(t) >= 5 && t[0] == "blob":
			ref, err = fileRef(t)
		default:
			continue
		}

		if err != nil {
			return nil, err
		}
		total += ref.Size
		refs = append(refs, ref)
	}

	if len(refs) > maxRefs || total > maxTotal {
		return nil, errors.New("too many or too large blobs")
	}
	return refs, nil
}

// fileRef reads ["blob", role, digest, size, mime, url...].
func fileRef(t nostr.Tag) (Ref, error) {
	digest, err := hashing.ParseDigest(t[2])
	if err != nil {
		return Ref{}, fmt.Errorf("blob %s: %w", t[1], err)
	}

	size, err := strconv.ParseInt(t[3], 10, 64)
	if err != nil || size < 0 || size > maxBytes {
		return Ref{}, fmt.Errorf("blob %s: size %q", t[1], t[3])
	}
	return Ref{Role: t[1], Digest: digest, Size: size, URLs: t[5:min(len(t), 5+maxURLs)]}, nil
}

// Key is the key in the hidden result event, of boxes that no payment opens;
// nil where there is none.
func Key(requestID string, tags nostr.Tags) (*receipts.SealKey, error) {
	t := tags.Find("key")
	if t == nil {
		return nil, nil
	}
	var secret payments.Preimage
	if n, err := hex.Decode(secret[:], []byte(t[1][:min(len(t[1]), 2*len(secret))])); err != nil || n != len(secret) {
		return nil, errors.New("key: is not 64 hex digits")
	}

	var bound [2]hashing.Digest
	for i, name := range []string{"quote_hash", "output_hash"} {
		t := tags.Find(name)
		if t == nil {
			return nil, fmt.Errorf("key: without %s", name)
		}
		d, err := hashing.ParseDigest(t[1])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		bound[i] = d
	}

	key, err := receipts.NewSealKey(secret, bound[0], requestID, bound[1])
	return &key, err
}

// boxRef reads ["box", role, digest, size, digest of the box, its size, mime, url...].
func boxRef(t nostr.Tag, number int) (Ref, error) {
	if len(t) < 7 {
		return Ref{}, errors.New("box: is incomplete")
	}
	ref, err := fileRef(append(nostr.Tag{"blob", t[1], t[2], t[3], t[6]}, t[7:]...))
	if err != nil {
		return ref, err
	}
	box, err := hashing.ParseDigest(t[4])
	if err != nil {
		return ref, fmt.Errorf("box %s: %w", t[1], err)
	}
	size, err := strconv.ParseInt(t[5], 10, 64)
	if err != nil || size != ref.Size+receipts.BoxOverhead {
		return ref, fmt.Errorf("box %s: size %q", t[1], t[5])
	}
	ref.Box, ref.Number = &box, number
	return ref, nil
}

// Boxes are the boxes of a sealed result, counted as a dispute counts them: what an
// encrypted result keeps at an address is none of them, whatever role it names.
func Boxes(refs []Ref) (boxes []Ref) {
	for _, r := range refs {
		if r.Role == receipts.RoleSealed && r.Box == nil {
			boxes = append(boxes, r)
		}
	}
	return boxes
}

// Bytes is how large the files are together.
func Bytes(refs []Ref) (n int64) {
	for _, r := range refs {
		n += r.Size
	}
	return n
}

// Commitment reads what a result event commits to; nil if it is no sealed one.
func Commitment(ev nostr.Event) (*hashing.Digest, error) {
	t := ev.Tags.Find("commitment")
	if t == nil {
		return nil, nil
	}
	d, err := hashing.ParseDigest(t[1])
	if err != nil {
		return nil, purchase.Mismatch("result", "its commitment: "+err.Error())
	}
	return &d, nil
}
