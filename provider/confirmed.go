package provider

import (
	"context"
	"maps"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// What this life has committed or heard itself it need not read again: each look
// at the store costs about as much as a signature.

// stay keeps the job as the store now has it, for the next step.
func (s *jobSignal) stay(job Job) {
	if job.Mode == receipts.ModeFree {
		s.stands = &job
	}
}

// expect says which result of the job relays are about to be offered. It comes
// before the commit: from then on they may answer.
func (p *Provider) expect(sig *jobSignal, eventID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sig.answers = answers{result: eventID}
}

// heard notes recorded answers to a job's result and wakes the job.
func (p *Provider) heard(requestID string, acks []Ack) {
	p.mu.Lock()
	if sig := p.wakes[requestID]; sig != nil {
		oks := map[string]struct{}{} // relays
		for _, a := range acks {
			if a.OK && a.EventID == sig.answers.result {
				oks[a.Relay] = struct{}{}
			}
		}
		sig.answers.rounds++
		sig.answers.oks = max(sig.answers.oks, len(oks))
	}
	p.mu.Unlock()
	p.wake(requestID)
}

// confirmed reports whether enough relays took the result. The store is asked
// where its answers are of an earlier life, or of several rounds together.
func (p *Provider) confirmed(ctx context.Context, job Job, sig *jobSignal) (bool, error) {
	p.mu.Lock()
	known := sig.answers
	p.mu.Unlock()
	if known.result == job.Result.EventID && (known.rounds == 0 || known.oks >= p.cfg.RequiredOKs) {
		return known.oks >= p.cfg.RequiredOKs, nil
	}
	n, err := p.cfg.Store.Confirmed(ctx, job.Result.EventID)
	return n >= p.cfg.RequiredOKs, err
}

// smallBlob is what is kept in memory of a blob on its way out.
const smallBlob = 64 << 10

// keepSmall keeps small blobs of a job that are about to be uploaded, until it ends.
func (p *Provider) keepSmall(sig *jobSignal, blobs map[hashing.Digest][]byte) {
	maps.DeleteFunc(blobs, func(_ hashing.Digest, b []byte) bool { return len(b) > smallBlob })
	p.mu.Lock()
	defer p.mu.Unlock()
	sig.blobs = blobs
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
