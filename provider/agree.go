package provider

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/provider/internal/charge"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// votes refuses a seat of a panel whose document says something else, or that has
// one seat: who reveals to a panel of one tells the buyer what the result is, and
// is paid by nobody.
func votes(terms receipts.RequestTerms, req *schemas.Request) Reason {
	var want schemas.Adjudication
	switch terms.Agreement {
	case "commit":
		want = schemas.MajorityVote
	case "judge":
		want = schemas.JudgeModel
	case "merge":
		want = schemas.Merge
	default:
		return Reason{}
	}

	if v := req.Verification(); v.Redundancy >= 2 && v.Adjudication == want {
		return Reason{}
	}
	return because(CodeInvalidInput, fmt.Sprintf("param agreement: needs verification.redundancy of 2 or more and adjudication %s", want))
}

// hasQuorum reports whether a closing lists more than half of the seats that the
// job's request states: with fewer nobody can be paid, so nothing is revealed.
func (a *actor) hasQuorum(c receipts.Closing) bool {
	return 2*int64(len(c.Results)) > a.job.Typed.Verification().Redundancy
}

// asksCommit reports whether the request is one of a panel's: its sealed result
// is to commit to the agreement hash, which is revealed when the buyer asks.
func (a *actor) asksCommit() bool { return a.job.Terms.Agreement == "commit" }

// commitTags are what a sealed result event of a panel carries besides its terms.
func (a *actor) commitTags(r Result) (nostr.Tags, error) {
	if r.AgreementHash == nil || !a.asksCommit() {
		return nil, nil
	}
	commit, err := receipts.Commit(a.p.key, *r.AgreementHash, a.p.commitNonce(a.job.Job))
	if err != nil {
		return nil, err
	}
	return nostr.Tags{{receipts.TagCommit, commit.String()}}, nil
}

// commitNonce = HMAC(root secret, "lightwork/commit/v1" || request id || nonce):
// like the preimage it can be made again after a crash, and nobody guesses it.
func (p *Provider) commitNonce(job Job) receipts.CommitNonce {
	mac := hmac.New(sha256.New, p.cfg.RootSecret)
	mac.Write([]byte("lightwork/commit/v1"))
	mac.Write([]byte(job.RequestID))
	mac.Write(job.Nonce)
	return receipts.CommitNonce(mac.Sum(nil))
}

// closing answers a buyer that closed its panel's commits: with the reveal, if
// our commit is among those that count. Relays deliver it again, also after a
// restart; saying the same once more harms nobody, so it is not stored as said.
func (p *Provider) closing(ctx context.Context, ev nostr.Event) {
	c, err := p.closingOf(ctx, ev)
	if err != nil {
		p.log.Debug("closing dropped", "event", ev.ID, "err", err)
		return
	}

	for _, r := range c.Results {
		if r.Provider != p.key {
			continue
		}
		a := p.openOf(ev.PubKey, r.RequestID)
		if a == nil || a.unreadable != nil {
			continue
		}
		job, err := p.cfg.Store.Job(ctx, r.RequestID)
		if err != nil || !a.hasCommitted(ctx, job, r) || !a.hasQuorum(c) {
			continue
		}
		if !p.seen.Add("reveal/" + r.RequestID) {
			continue
		}

		if err := p.openCommit(ctx, job); err != nil {
			p.seen.Remove("reveal/" + r.RequestID)
			p.log.Error("reveal", "request", job.RequestID, "err", err)
			p.storeTrouble(err)
		}
	}
}

// closingOf reads a closing; that of an encrypted panel is a signed event inside
// the one that is published.
func (p *Provider) closingOf(ctx context.Context, ev nostr.Event) (receipts.Closing, error) {
	inner, err := p.pub.Unwrap(ctx, ev.PubKey, ev)
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

// hasCommitted reports whether the job, as the store has it, waits for its reveal, and
// the closing names the result that it delivered.
func (a *actor) hasCommitted(ctx context.Context, job Job, r receipts.PanelResult) bool {
	if job.State != StateDelivering || job.Result == nil || job.Result.AgreementHash == nil || !a.job.IsSealed() || !a.asksCommit() {
		return false
	}
	result, err := charge.BoundResult(ctx, a.p.pub, job.Result)
	return err == nil && result.ID == r.ResultID
}

func (p *Provider) openCommit(ctx context.Context, job Job) error {
	nonce := p.commitNonce(job)
	content, err := receipts.Reveal{
		Version: receipts.Version, RequestID: job.RequestID, AgreementHash: *job.Result.AgreementHash, Nonce: hex.EncodeToString(nonce[:]),
	}.Canonical()
	if err != nil {
		return err
	}
	out, err := p.pub.Feedback(ctx, publish.BuyerOf(job), receipts.StatusReveal, "", string(content))
	if err != nil {
		return err
	}
	if err := p.cfg.Store.Enqueue(ctx, out); err != nil {
		return err
	}

	p.pub.Send(out)
	p.log.Info("revealed", "request", job.RequestID, "agreement_hash", *job.Result.AgreementHash)
	return nil
}
