package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/recent"
	"github.com/lightwork-market/lightwork/market/job"
)

// ErrBlobRefused is wrapped by the error of an upload that no blob server takes for
// what it is, such as its size.
var ErrBlobRefused = errors.New("the blob servers refuse the blob")

// uploader puts what results refer to on the blob servers.
type uploader struct {
	store     Store
	market    Market
	signLater bool

	mu    sync.Mutex
	blobs map[string]map[hashing.Digest][]byte // small ones of results, by request id

	calls    singleflight.Group
	uploaded *recent.Set // digests of blobs that are on a server
	// places has one for each upload at once: blob servers refuse a crowd.
	places chan struct{}
	// failedAt is when no blob server took an upload, in Unix nanoseconds; 0 once one took
	// the next.
	failedAt atomic.Int64
	ahead    sync.WaitGroup // uploads beside a commit
}

func newUploader(cfg Config) *uploader {
	return &uploader{
		store: cfg.Store, market: cfg.Market, signLater: cfg.SignLater,
		blobs: map[string]map[hashing.Digest][]byte{}, uploaded: recent.New(4096), places: make(chan struct{}, uploadsAtOnce),
	}
}

// uploadFirst puts everything that a result event refers to on the blob
// servers; only then may the event be published.
func (p *Publisher) uploadFirst(ctx context.Context, requestID string, ev nostr.Event) error {
	bound, err := p.BoundResult(ctx, ev)
	if err != nil {
		return err
	}
	return p.uploadBlobs(ctx, requestID, bound, func(hashing.Digest) bool { return true })
}

// UploadAhead uploads the small blobs of a result while its commit is under way, and
// keeps them until ForgetBlobs.
// Nobody is told of them before the event is out, which waits for both: of a result
// that a crash or a later run undoes, a server keeps bytes that nothing names. What
// fails is done again on the event's own way. A signer elsewhere may yet refuse
// the event: then nothing is uploaded ahead. Nor is what is in the clear and
// mayGoBack: who guesses a blob could ask a server whether it is there.
func (u *uploader) UploadAhead(ctx context.Context, result job.OutEvent, blobs map[hashing.Digest][]byte, mayGoBack bool) {
	maps.DeleteFunc(blobs, func(_ hashing.Digest, b []byte) bool { return len(b) > smallBlob })
	u.mu.Lock()
	u.blobs[result.RequestID] = blobs
	u.mu.Unlock()

	ev, err := result.Parsed()
	if err != nil || IsEncrypted(ev) || u.signLater || mayGoBack {
		return
	}
	u.ahead.Go(func() {
		_ = u.uploadBlobs(ctx, result.RequestID, ev, func(d hashing.Digest) bool { _, ok := blobs[d]; return ok })
	})
}

// WaitAhead waits for the uploads that UploadAhead began.
func (u *uploader) WaitAhead() { u.ahead.Wait() }

// ForgetBlobs gives the memory of a job's blobs back.
func (u *uploader) ForgetBlobs(requestID string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.blobs, requestID)
}

// uploadBlobs uploads those of the blobs an event names that which picks.
func (u *uploader) uploadBlobs(ctx context.Context, requestID string, ev nostr.Event, which func(hashing.Digest) bool) error {
	// Side by side: a server that stores them in one commit is waited for once.
	// None is ended for another's sake, since other jobs may share it.
	var all errgroup.Group
	for _, t := range ev.Tags {
		if len(t) >= 7 && t[0] == "box" {
			t = t[2:] // the box's own digest
		} else if len(t) < 5 || t[0] != "blob" {
			continue
		}

		all.Go(func() error {
			d, err := hashing.ParseDigest(t[2])
			if err != nil {
				return fmt.Errorf("stored result: %w", err)
			}
			if !which(d) {
				return nil
			}
			if err := u.uploadOnce(ctx, requestID, d, t[4]); err != nil {
				return fmt.Errorf("upload blob %s: %w", d, err)
			}
			return nil
		})
	}

	return all.Wait()
}

// uploadOnce uploads a blob unless this process has done so. Jobs that share a
// blob share its upload.
func (u *uploader) uploadOnce(ctx context.Context, requestID string, d hashing.Digest, mime string) error {
	if u.uploaded.Has(d.Hex()) {
		return nil
	}
	_, err, _ := u.calls.Do(d.Hex(), func() (any, error) {
		select {
		case u.places <- struct{}{}:
			defer func() { <-u.places }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}

		data, err := u.blobOf(ctx, requestID, d)
		if err != nil {
			return nil, err
		}
		if err := u.market.Upload(ctx, data, mime); err != nil {
			if ctx.Err() == nil && !errors.Is(err, ErrBlobRefused) {
				u.failedAt.Store(time.Now().UnixNano())
			}
			return nil, err
		}

		u.failedAt.Store(0)
		u.uploaded.Add(d.Hex())
		return nil, nil
	})
	return err
}

// uploadPause is how long no jobs are taken after an upload that no blob server
// took. Each result that waits for its blobs tries again before that; with none, the
// next job shows whether it is over.
const uploadPause = time.Minute

// CannotUpload reports that results could not be delivered now.
func (u *uploader) CannotUpload() bool {
	at := u.failedAt.Load()
	return at != 0 && time.Since(time.Unix(0, at)) < uploadPause
}

// smallBlob is what is kept in memory of a blob on its way out.
const smallBlob = 64 << 10

// blobOf is a blob that a job's result refers to.
func (u *uploader) blobOf(ctx context.Context, requestID string, d hashing.Digest) ([]byte, error) {
	u.mu.Lock()
	data, ok := u.blobs[requestID][d]
	u.mu.Unlock()
	if ok {
		return data, nil
	}
	return u.store.Content(ctx, d)
}
