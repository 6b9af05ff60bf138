package deliver

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/provider/internal/charge"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
)

// asksCommit reports whether the request is one of a panel's: its sealed result
// is to commit to the agreement hash, which is revealed when the buyer asks.
func (d *Delivery) asksCommit() bool { return d.job.Terms.Agreement == "commit" }

// commitTags are what a sealed result event of a panel carries besides its terms.
func (d *Delivery) commitTags(r *job.Result) (nostr.Tags, error) {
	if r.AgreementHash == nil || !d.asksCommit() {
		return nil, nil
	}
	commit, err := receipts.Commit(d.cfg.Key, *r.AgreementHash, d.commitNonce(&d.job.Job))
	if err != nil {
		return nil, err
	}
	return nostr.Tags{{receipts.TagCommit, commit.String()}}, nil
}

// commitNonce is the secret of a job that blinds its commit.
func (d *Deliverer) commitNonce(j *job.Job) receipts.CommitNonce {
	return j.Secret(d.cfg.RootSecret, "lightwork/commit/v1", j.RequestID)
}

// ClosingOf reads the event by which a buyer closes its panel's commits. That of an
// encrypted panel is a signed event inside the one that is published.
func (d *Deliverer) ClosingOf(ctx context.Context, ev nostr.Event) (receipts.Closing, error) {
	inner, err := d.cfg.Publisher.Unwrap(ctx, ev.PubKey, ev)
	if err != nil {
		return receipts.Closing{}, err
	}
	if !publish.IsSignedBy(inner, ev.PubKey) || inner.Kind != ev.Kind {
		return receipts.Closing{}, errors.New("what is encrypted is not the buyer's closing")
	}
	if err := domain.Demand(domain.Closing, inner.Tags); err != nil {
		return receipts.Closing{}, err
	}
	return receipts.ParseClosing([]byte(inner.Content))
}

// Reveal opens the commit of the job's result, if a closing counts it. j is the job as
// the store has it, seat what the closing says of it. Relays deliver a closing again,
// also after a restart; saying the same once more harms nobody, so it is not stored as
// said.
func (d *Delivery) Reveal(ctx context.Context, j *job.Job, c receipts.Closing, seat receipts.PanelResult) error {
	if !d.hasCommitted(ctx, j, seat) || !d.hasQuorum(c) || !d.mayReveal() {
		return nil
	}

	nonce := d.commitNonce(j)
	content, err := receipts.Reveal{
		Version: receipts.Version, RequestID: j.RequestID, AgreementHash: *j.Result.AgreementHash, Nonce: hex.EncodeToString(nonce[:]),
	}.Canonical()
	var out job.OutEvent
	if err == nil {
		out, err = d.cfg.Publisher.Feedback(ctx, d.job.To, receipts.StatusReveal, "", string(content))
	}
	if err == nil {
		err = d.cfg.Store.Enqueue(ctx, out)
	}
	if err != nil {
		d.mu.Lock()
		d.revealed = false
		d.mu.Unlock()
		return err
	}

	d.cfg.Publisher.Send(out)
	d.log.Info("revealed", "request", j.RequestID, "agreement_hash", *j.Result.AgreementHash)
	return nil
}

// mayReveal reports whether the commit was not revealed in this life, and notes that it
// is about to be.
func (d *Delivery) mayReveal() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	may := !d.revealed
	d.revealed = true
	return may
}

// hasCommitted reports whether the job, as the store has it, waits for its reveal, and
// the closing names the result that it delivered.
func (d *Delivery) hasCommitted(ctx context.Context, j *job.Job, seat receipts.PanelResult) bool {
	if j.State != job.StateDelivering || j.Result == nil || j.Result.AgreementHash == nil || !d.job.IsSealed() || !d.asksCommit() {
		return false
	}
	result, err := charge.BoundResult(ctx, d.cfg.Publisher, j.Result)
	return err == nil && result.ID == seat.ResultID
}

// hasQuorum reports whether a closing lists more than half of the seats that the
// job's request states: with fewer nobody can be paid, so nothing is revealed.
func (d *Delivery) hasQuorum(c receipts.Closing) bool {
	return 2*int64(len(c.Results)) > d.job.Typed.Verification().Redundancy
}
