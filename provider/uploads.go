package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// uploadFirst puts everything that a result event refers to on the blob
// servers; only then may the event be published.
func (p *Provider) uploadFirst(ctx context.Context, requestID string, ev nostrEvent) error {
	if isHidden(ev) { // the job's key opens it
		job, err := p.cfg.Store.Job(ctx, requestID)
		if err != nil || job.Result == nil || job.Result.EventID != ev.ID {
			return err
		}
		if ev, err = p.boundResult(ctx, job); err != nil {
			return err
		}
	}
	return p.uploadBlobs(ctx, requestID, ev, func(hashing.Digest) bool { return true })
}

// uploadAhead uploads the small blobs of a result while its commit is under way.
// Nobody is told of them before the event is out, which waits for both: of a result
// that a crash or a later run undoes, a server keeps bytes that nothing names. What
// fails is done again on the event's own way. A signer elsewhere may yet refuse
// the event: then nothing is uploaded ahead. Nor is what is in the clear and held
// money waits for: who guesses a blob could ask a server whether it is there.
func (p *Provider) uploadAhead(job Job, result OutEvent, blobs map[hashing.Digest][]byte) {
	requestID := job.RequestID
	ev, err := result.Parsed()
	if err != nil || isHidden(ev) || p.cfg.SignLater || job.Mode == receipts.ModeHold && !isSealed(job) {
		return
	}
	p.jobs.Go(func() {
		_ = p.uploadBlobs(p.runCtx, requestID, ev, func(d hashing.Digest) bool { _, ok := blobs[d]; return ok })
	})
}

// uploadBlobs uploads those of the blobs an event names that which picks.
func (p *Provider) uploadBlobs(ctx context.Context, requestID string, ev nostrEvent, which func(hashing.Digest) bool) error {
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
			if err := p.uploadOnce(ctx, requestID, d, t[4]); err != nil {
				return fmt.Errorf("upload blob %s: %w", d, err)
			}
			return nil
		})
	}
	return all.Wait()
}

// uploadOnce uploads a blob unless this process has done so. Jobs that share a
// blob share its upload.
func (p *Provider) uploadOnce(ctx context.Context, requestID string, d hashing.Digest, mime string) error {
	if p.uploaded.has(d.Hex()) {
		return nil
	}
	_, err, _ := p.uploads.Do(d.Hex(), func() (any, error) {
		select {
		case p.uploading <- struct{}{}:
			defer func() { <-p.uploading }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		data, err := p.blobOf(ctx, requestID, d)
		if err != nil {
			return nil, err
		}
		if err := p.cfg.Market.Upload(ctx, data, mime); err != nil {
			if ctx.Err() == nil && !errors.Is(err, ErrBlobRefused) {
				p.uploadFailed.Store(time.Now().UnixNano())
			}
			return nil, err
		}
		p.uploadFailed.Store(0)
		p.uploaded.add(d.Hex())
		return nil, nil
	})
	return err
}

// uploadPause is how long no jobs are taken after an upload that no blob server
// took. Each result that waits for its blobs tries again before that; with none, the
// next job shows whether it is over.
const uploadPause = time.Minute

// cannotUpload reports that results could not be delivered now.
func (p *Provider) cannotUpload() bool {
	at := p.uploadFailed.Load()
	return at != 0 && time.Since(time.Unix(0, at)) < uploadPause
}

// smallBlob is what is kept in memory of a blob on its way out.
const smallBlob = 64 << 10

// beside are the documents of a result that may travel beside its event.
func beside(r Result, s *sealed, replayFile []byte) map[hashing.Digest][]byte {
	if s == nil {
		return map[hashing.Digest][]byte{r.OutputHash: r.Output, r.Replay: replayFile}
	}
	blobs := map[hashing.Digest][]byte{}
	for _, box := range s.boxes[:min(2, len(s.boxes))] { // the same two, or all in one
		blobs[hashing.Bytes(box)] = box
	}
	return blobs
}

// keepSmall keeps small blobs of a job that are about to be uploaded, until it
// ends, and returns them.
func (p *Provider) keepSmall(sig *jobSignal, blobs map[hashing.Digest][]byte) map[hashing.Digest][]byte {
	maps.DeleteFunc(blobs, func(_ hashing.Digest, b []byte) bool { return len(b) > smallBlob })
	p.mu.Lock()
	defer p.mu.Unlock()
	sig.blobs = blobs
	return blobs
}

// blobOf is a blob that a job's result refers to.
func (p *Provider) blobOf(ctx context.Context, requestID string, d hashing.Digest) ([]byte, error) {
	p.mu.Lock()
	sig := p.wakes[requestID]
	if sig != nil {
		if data, ok := sig.blobs[d]; ok {
			p.mu.Unlock()
			return data, nil
		}
	}
	p.mu.Unlock()
	return p.cfg.Store.Content(ctx, d)
}
