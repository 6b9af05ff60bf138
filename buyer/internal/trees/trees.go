// Package trees sends the files of orders that are too large for a request: encrypted for
// one provider, in chunks, to that provider's blob servers.
package trees

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/tree"
)

// ErrGone: a tree is not packed here, or another is in its place.
var ErrGone = errors.New("its files are not packed here any more; order it again")

// Parts has the parts of packed trees, by their digest.
type Parts interface {
	Part(digest hashing.Digest, i int) ([]byte, error)
	// Summary is of a tree that is packed here; fs.ErrNotExist if it is not.
	Summary(digest hashing.Digest) (tree.Summary, error)
}

// Trees sends trees. It is safe for concurrent use.
type Trees struct {
	Secret []byte // keys derive from it; never logged
	Parts  Parts
	// Upload puts a chunk into the room of a request, on the first of the servers that
	// takes it. A server that has it already says so at once.
	Upload func(ctx context.Context, servers []string, requestID string, chunk []byte) error
}

// sendAtOnce is how many chunks are on their way at once.
const sendAtOnce = 2

// Seal makes the manifest of a tree for a provider, and what the provider alone is told.
func (t *Trees) Seal(ctx context.Context, provider string, s tree.Summary) (*tree.Manifest, tree.Grant, error) {
	g := tree.NewGrant(t.Secret, provider, s.Digest)
	m := s.Draft()
	m.Commitment = g.Commit()
	for i := range m.Chunks {
		if err := ctx.Err(); err != nil {
			return nil, g, err
		}
		part, err := t.Parts.Part(s.Digest, i)
		if err == nil {
			_, m.Chunks[i], err = g.Seal(part)
		}
		if err != nil {
			return nil, g, fmt.Errorf("encrypt the files: %w", err)
		}
	}
	return m, g, nil
}

// Send has one of the servers have every chunk. sent is told how many chunks and bytes are
// there, from several goroutines.
func (t *Trees) Send(ctx context.Context, servers []string, m *tree.Manifest, g tree.Grant, requestID string, sent func(chunks, bytes int64)) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(sendAtOnce)
	var chunks, bytes atomic.Int64
	for i, named := range m.Chunks {
		if ctx.Err() != nil {
			break
		}
		work.Go(func() error {
			part, err := t.Parts.Part(g.Digest, i)
			if err != nil {
				return err
			}
			box, chunk, err := g.Seal(part)
			if err != nil {
				return err
			}
			if chunk != named {
				return ErrGone
			}
			if err := t.Upload(ctx, servers, requestID, box); err != nil {
				return fmt.Errorf("chunk %d of %d: %w", i+1, len(m.Chunks), err)
			}
			sent(chunks.Add(1), bytes.Add(named.Size))
			return nil
		})
	}
	return work.Wait()
}
