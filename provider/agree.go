package provider

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/receipts"
)

// asksCommit reports whether the request is one of a panel's: its sealed result
// is to commit to the agreement hash, which is revealed when the buyer asks.
func asksCommit(request []byte) bool {
	var ev nostr.Event
	if json.Unmarshal(request, &ev) != nil {
		return false
	}
	return slices.ContainsFunc(ev.Tags, func(t nostr.Tag) bool {
		return len(t) >= 3 && t[0] == "param" && t[1] == "agreement" && t[2] == "commit"
	})
}

// commitTags are what a sealed result event of a panel carries besides its terms.
func (p *Provider) commitTags(job Job, r Result) (nostr.Tags, error) {
	if r.AgreementHash == nil || !asksCommit(job.Request) {
		return nil, nil
	}
	commit, err := receipts.Commit(p.key, *r.AgreementHash, p.commitNonce(job))
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
	c, err := receipts.ParseClosing([]byte(ev.Content))
	if err != nil {
		p.log.Debug("closing dropped", "event", ev.ID, "err", err)
		return
	}
	for _, r := range c.Results {
		if r.Provider != p.key {
			continue
		}
		job, err := p.cfg.Store.Job(ctx, r.RequestID)
		if err != nil || job.Buyer != ev.PubKey || job.State != StateDelivering || job.Result == nil ||
			job.Result.EventID != r.ResultID || job.Result.AgreementHash == nil || !isSealed(job) || !asksCommit(job.Request) {
			continue
		}
		if !p.seen.add("reveal/" + r.RequestID) {
			continue
		}
		if err := p.openCommit(ctx, job); err != nil {
			p.seen.remove("reveal/" + r.RequestID)
			p.log.Error("reveal", "request", job.RequestID, "err", err)
			p.storeTrouble(err)
		}
	}
}

func (p *Provider) openCommit(ctx context.Context, job Job) error {
	nonce := p.commitNonce(job)
	content, err := receipts.Reveal{
		Version: receipts.Version, RequestID: job.RequestID, AgreementHash: *job.Result.AgreementHash, Nonce: hex.EncodeToString(nonce[:]),
	}.Canonical()
	if err != nil {
		return err
	}
	out, err := p.feedback(ctx, buyerOf(job), receipts.StatusReveal, "", string(content))
	if err != nil {
		return err
	}
	if err := p.cfg.Store.Enqueue(ctx, out); err != nil {
		return err
	}
	p.outbox.send(out)
	p.log.Info("revealed", "request", job.RequestID, "agreement_hash", *job.Result.AgreementHash)
	return nil
}
