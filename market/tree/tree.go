// Package tree is how a folder of files travels to a provider when it is too large for
// the request: as chunks on a blob server, which the request names in a [Manifest].
//
// The files are packed as a tar stream that is cut into parts of [PartBytes]. A part is
// compressed by itself, as a member of a gzip file, and encrypted with a key that only
// buyer and provider know: that is a chunk. All parts one after the other are one tar.gz.
//
// The manifest commits to the plain tree, salted: who is shown the files and the salt can
// hold them against the request, and nobody else can guess what was sent.
package tree

import (
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/hashing"
)

// Limits of every tree, in bytes where a size is meant. A provider may allow less.
const (
	// MaxChunkBytes bounds one chunk as it lies on a blob server.
	MaxChunkBytes = 8 << 20
	// PartBytes is the part of the tar stream in every chunk but the last. The rest of
	// MaxChunkBytes is for what cannot be compressed, and for the encryption.
	PartBytes = MaxChunkBytes - 64<<10
	// MaxChunks bounds the chunks of a tree: their list has to fit a request.
	MaxChunks = 256
	// MaxBytes bounds the tar stream of a tree.
	MaxBytes = MaxChunks * PartBytes
	// MaxEntries bounds the files, folders and links of a tree.
	MaxEntries = 100_000
	// MaxNameBytes bounds the path of an entry and the target of a link, and
	// maxElement each of its elements.
	MaxNameBytes = 1024
	maxElement   = 255
)

// boxOverhead is what encryption adds to a part: a nonce of 24 bytes and a tag of 16.
const boxOverhead = 24 + 16

// UnpaidBytes is what may be stored for a job that is paid after it ran, or not at all: the
// chunks of a larger tree are sent once the job is paid for.
const UnpaidBytes = 16 << 20

// Tags of events about trees.
const (
	// GrantTag is a tag of the request: ["tree_key", <the grant, NIP-44 to the provider>].
	GrantTag = "tree_key"
	// RoomTag is a tag of a provider's feedback that waits for chunks:
	// ["room", <bytes>, <until, Unix seconds>, <blob server>...].
	RoomTag = "room"
)

// Terms are what a provider announces of trees.
type Terms struct {
	MaxBytes int64    `json:"max_bytes"` // of a tree, packed
	Servers  []string `json:"servers"`   // blob servers that it takes chunks from
}

// ErrChunk: a chunk is not the one that the manifest names, or the key does not open it.
var ErrChunk = errors.New("not the chunk that the request names")

// ErrCommitment: the tree is not the one that the request commits to.
var ErrCommitment = errors.New("not the tree that the request commits to")

// ManifestError says what is wrong with a manifest.
type ManifestError struct{ Field, Reason string }

func (e *ManifestError) Error() string { return e.Field + ": " + e.Reason }

// EntryError says what is wrong with a file, a folder or a link of a tree.
type EntryError struct{ Name, Reason string }

func (e *EntryError) Error() string { return fmt.Sprintf("%.200q: %s", e.Name, e.Reason) }

// LimitError says that a tree has too much of something.
type LimitError struct {
	What string // "files, folders and links", "bytes"
	Most int64
}

func (e *LimitError) Error() string { return fmt.Sprintf("more than %d %s", e.Most, e.What) }

// Chunk is an encrypted part as it lies on a blob server.
type Chunk struct {
	SHA256 hashing.Digest `json:"sha256" jsonschema:"digest of the chunk on the blob server"`
	Size   int64          `json:"size" jsonschema:"its bytes" rule:"min=41;max=8388608"`
}

// Manifest is what a request says of its tree.
type Manifest struct {
	Commitment hashing.Digest `json:"commitment" jsonschema:"salted digest of the plain tree"`
	Size       int64          `json:"size" jsonschema:"bytes of the tree, packed and before compression" rule:"min=1;max=2130706432"`
	Entries    int64          `json:"entries" jsonschema:"files, folders and links" rule:"min=1;max=100000"`
	Chunks     []Chunk        `json:"chunks" jsonschema:"the chunks in order" rule:"minitems=1;maxitems=256"`
}

// Check checks the sizes against each other. The error is a *[ManifestError].
func (m *Manifest) Check() error {
	switch {
	case m.Size < 1 || m.Size > MaxBytes:
		return &ManifestError{"size", fmt.Sprintf("must be from 1 to %d", MaxBytes)}
	case m.Entries < 1 || m.Entries > MaxEntries:
		return &ManifestError{"entries", fmt.Sprintf("must be from 1 to %d", MaxEntries)}
	}
	if want := (m.Size + PartBytes - 1) / PartBytes; int64(len(m.Chunks)) != want {
		return &ManifestError{"chunks", fmt.Sprintf("are %d, and %d bytes make %d", len(m.Chunks), m.Size, want)}
	}

	for i, c := range m.Chunks {
		if c.Size <= boxOverhead || c.Size > MaxChunkBytes {
			return &ManifestError{fmt.Sprintf("chunks[%d].size", i), fmt.Sprintf("must be from %d to %d", boxOverhead+1, MaxChunkBytes)}
		}
	}

	return nil
}

// Stored is the size of all chunks on a blob server, in bytes. A chunk that is named
// twice counts twice.
func (m *Manifest) Stored() int64 {
	sum := int64(0)
	for _, c := range m.Chunks {
		sum += c.Size
	}
	return sum
}
