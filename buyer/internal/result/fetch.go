package result

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/buyer/internal/blob"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// fetch gets the blobs. The provider may still be uploading them, so a missing
// one is asked for again for a while: in all, however many results name such.
func (d *Desk) fetch(ctx context.Context, event delivered) (contents [][]byte, output []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.Patience)
	defer cancel()

	output = event.output
	for _, b := range event.refs {
		data, err := d.fetchOne(ctx, b, event.key)
		if err != nil {
			return nil, nil, fmt.Errorf("what it refers to cannot be fetched: %s %s: %w", b.Role, b.Digest, err)
		}
		if b.Role == "result" {
			output = data
			continue
		}
		contents = append(contents, data)
	}

	return contents, output, nil
}

func (d *Desk) fetchOne(ctx context.Context, b blob.Ref, key *receipts.SealKey) ([]byte, error) {
	if b.Box == nil {
		return d.download(ctx, b)
	}
	if key == nil {
		return nil, purchase.Mismatch("result", "it is in a box, and no key came with it")
	}

	box, err := d.download(ctx, blob.Ref{Role: b.Role, Digest: *b.Box, Size: b.Size + receipts.BoxOverhead, URLs: b.URLs})
	if err != nil {
		return nil, err
	}
	data, err := key.Open(b.Number, box)
	if err == nil && hashing.Bytes(data) != b.Digest {
		err = errors.New("the box holds something else")
	}
	return data, err
}

func (d *Desk) download(ctx context.Context, b blob.Ref) ([]byte, error) {
	const tries = 12
	for i, pause := 0, 100*time.Millisecond; ; i, pause = i+1, min(2*pause, 5*time.Second) {
		data, err := d.Blobs.Fetch(ctx, b.URLs, b.Digest, b.Size)
		if err == nil {
			if hashing.Bytes(data) == b.Digest {
				return data, nil
			}
			err = errors.New("it has another hash")
		}

		if i == tries || errors.Is(err, ErrUnreachable) || d.waited+pause > d.Patience {
			return nil, err
		}
		d.waited += pause

		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
