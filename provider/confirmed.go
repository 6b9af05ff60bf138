package provider

import (
	"context"

	"github.com/lightwork-market/lightwork/provider/internal/publish"
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

// onAck notes answers to a job's result and wakes the job.
func (p *Provider) onAck(requestID string, acks []Ack) {
	p.mu.Lock()
	if sig := p.wakes[requestID]; sig != nil {
		sig.answers.rounds++
		sig.answers.oks = max(sig.answers.oks, publish.OKs(sig.answers.result, acks))
	}
	p.mu.Unlock()
	p.wake(requestID)
}

// confirmed reports whether a relay took the result. The store is asked
// where its answers are of an earlier life, or of several rounds together.
func (p *Provider) confirmed(ctx context.Context, job Job, sig *jobSignal) (bool, error) {
	p.mu.Lock()
	known := sig.answers
	p.mu.Unlock()
	if known.result == job.Result.EventID && (known.rounds == 0 || known.oks > 0) {
		return known.oks > 0, nil
	}
	n, err := p.cfg.Store.Confirmed(ctx, job.Result.EventID)
	return n > 0, err
}

// unanswered reports that nobody has said anything of a result of this life yet.
func (p *Provider) unanswered(job Job, sig *jobSignal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return sig.answers.result == job.Result.EventID && sig.answers.rounds == 0
}

// taken notes that a relay has the result, whatever it said.
func (p *Provider) taken(sig *jobSignal, eventID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sig.answers = answers{result: eventID, rounds: 1, oks: 1}
}
