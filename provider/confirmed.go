package provider

import (
	"context"

	"github.com/lightwork-market/lightwork/provider/internal/publish"
)

// What this life has committed or heard itself it need not read again: each look
// at the store costs about as much as a signature.

// answers are what relays said, in this life, of a result that was made in it.
type answers struct {
	result string // its event id; "" for a result of an earlier life
	rounds int    // times that it was offered
	oks    int    // the most relays that took it in one of them
}

// expect says which result of the job relays are about to be offered. It comes
// before the commit: from then on they may answer.
func (a *actor) expect(eventID string) {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	a.answers = answers{result: eventID}
}

// onAck notes answers to a job's result and wakes the job.
func (p *Provider) onAck(requestID string, acks []Ack) {
	p.mu.Lock()
	if a := p.open[requestID]; a != nil {
		a.answers.rounds++
		a.answers.oks = max(a.answers.oks, publish.OKs(a.answers.result, acks))
	}
	p.mu.Unlock()
	p.wake(requestID)
}

// confirmed reports whether a relay took the result. The store is asked
// where its answers are of an earlier life, or of several rounds together.
func (a *actor) confirmed(ctx context.Context) (bool, error) {
	a.p.mu.Lock()
	known := a.answers
	a.p.mu.Unlock()
	if known.result == a.job.Result.EventID && (known.rounds == 0 || known.oks > 0) {
		return known.oks > 0, nil
	}
	n, err := a.p.cfg.Store.Confirmed(ctx, a.job.Result.EventID)
	return n > 0, err
}

// unanswered reports that nobody has said anything of a result of this life yet.
func (a *actor) unanswered() bool {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	return a.answers.result == a.job.Result.EventID && a.answers.rounds == 0
}

// taken notes that a relay has the result, whatever it said.
func (a *actor) taken(eventID string) {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	a.answers = answers{result: eventID, rounds: 1, oks: 1}
}
