package provider

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider/internal/charge"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
)

const (
	// inlineBytes is the largest result that travels inside its 6050.
	inlineBytes = 32 << 10
	// eventTags is the most tags of one: relays of ours take 512.
	eventTags = 500
)

// processing says that a run began. Where nothing is paid first it is the
// buyer's first sight of the quote, so it carries it. Runs after the first name
// their number: two runs that begin within a second are not one event.
func (p *Provider) processing(ctx context.Context, job Job) (OutEvent, error) {
	content, info := "", ""
	if job.Run > 0 {
		info = fmt.Sprintf("run %d", job.Run+1)
	}
	if !job.PaidFirst(&job.Charge) {
		content = string(job.Quote)
	}
	return p.pub.Feedback(ctx, publish.BuyerOf(job), "processing", info, content)
}

// resultEvents signs the 6050 and, in postpay, the request for payment that
// follows it. It completes r. A sealed result is in the event as its boxes.
func (a *actor) resultEvents(ctx context.Context, r *Result, s *sealed, replayFile []byte, artifacts [][]byte) ([]OutEvent, error) {
	p, job := a.p, a.job.Job
	amount := nostr.Tag{"amount", strconv.FormatInt(job.PriceMsats, 10)}
	if job.Mode == receipts.ModePostpay {
		amount = append(amount, job.BOLT11)
	}
	tags := nostr.Tags{{"e", job.RequestID}, {"p", job.Buyer}, amount}
	bound := charge.Terms(&job, r)
	if s != nil && s.key == "" {
		bound.Commitment = &s.commitment
	}
	for _, t := range bound.Tags() {
		tags = append(tags, t)
	}
	if s != nil && s.key == "" {
		commit, err := a.commitTags(*r)
		if err != nil {
			return nil, err
		}
		tags = append(tags, commit...)
	}

	if a.job.To.Scheme != "" {
		out, err := a.hiddenResult(ctx, r, s, tags, append([][]byte{r.Output, replayFile}, artifacts...))
		if err != nil {
			return nil, err
		}
		return a.withInvoice(ctx, out)
	}

	policy, err := p.policyTag(ctx, job)
	if err != nil {
		return nil, err
	}
	tags = append(tags, policy)
	if s != nil {
		for _, box := range s.boxes {
			tags = append(tags, p.blob(receipts.RoleSealed, hashing.Bytes(box), len(box), "application/octet-stream"))
		}
	} else {
		tags = append(tags, p.blob(receipts.RoleReplay, r.Replay, len(replayFile), "application/jsonl"))
		for _, a := range artifacts {
			tags = append(tags, p.blob(receipts.RoleArtifact, hashing.Bytes(a), len(a), "application/octet-stream"))
		}
	}

	content := string(r.Output)
	apart := p.resultBlob(*r)
	switch words, untyped := wordsOf(a.job.Asked, r.Output); {
	case s != nil:
		content = ""
	case untyped: // an ordinary client reads the content; the document is beside it
		content, tags = words, append(tags, apart)
	case len(r.Output) > inlineBytes:
		content, tags = "", append(tags, apart)
	}

	tags = slices.Concat(nostr.Tags{{"request", string(job.Request)}}, inputsOf(a.job.Signed), tags)
	out, err := p.fit(ctx, job, r, domain.Result, tags, content)
	if err != nil {
		return nil, err
	}
	return a.withInvoice(ctx, out)
}

// inputsOf are the inputs of a request, which its result repeats for clients that
// look for them. A tag without a value is none.
func inputsOf(req nostr.Event) (inputs nostr.Tags) {
	for _, t := range req.Tags {
		if len(t) >= 2 && t[0] == "i" {
			inputs = append(inputs, t)
		}
	}
	return inputs
}

func (p *Provider) resultBlob(r Result) nostr.Tag {
	return p.blob(receipts.RoleResult, r.OutputHash, len(r.Output), "application/json")
}

// fit signs the first form of a result's event, from the given one down, that is
// within relays' limits: how many bytes a text takes there depends on what is in it.
// It completes r.
func (p *Provider) fit(ctx context.Context, job Job, r *Result, d domain.Domain, tags nostr.Tags, content string) (OutEvent, error) {
	for {
		ev, err := p.pub.Sign(ctx, job.Kind+kinds.ResultOffset, d, tags, content)
		if err != nil {
			return OutEvent{}, err
		}
		out, err := p.pub.Queue(ev, job.RequestID)
		if err != nil {
			return OutEvent{}, err
		}
		out.Unpaid = job.Mode == receipts.ModeFree
		r.EventID, r.Event = ev.ID, out.Event
		if len(out.Event) <= p.pub.MaxEvent() && len(tags) <= eventTags {
			return out, nil
		}
		var shorter bool
		if tags, content, shorter = p.shorten(*r, tags, content); !shorter {
			return OutEvent{}, errTooLarge
		}
	}
}

// shorten takes away what a result's event can best be without: the inputs, the
// request, at last the output in the content, which then is a blob. It reports
// whether there was something.
func (p *Provider) shorten(r Result, tags nostr.Tags, content string) (nostr.Tags, string, bool) {
	for _, name := range []string{"i", "request"} {
		less := slices.DeleteFunc(slices.Clone(tags), func(t nostr.Tag) bool { return len(t) > 0 && t[0] == name })
		if len(less) < len(tags) {
			return less, content, true
		}
	}

	if content == "" {
		return tags, "", false
	}
	has := func(t nostr.Tag) bool { // a hidden result is in boxes as well
		return len(t) > 0 && t[0] == "encrypted" || len(t) > 1 && t[0] == "blob" && t[1] == receipts.RoleResult
	}
	if !slices.ContainsFunc(tags, has) {
		tags = append(slices.Clone(tags), p.resultBlob(r))
	}
	return tags, "", true
}

// withInvoice adds the request for payment that follows a result in postpay.
func (a *actor) withInvoice(ctx context.Context, result OutEvent) ([]OutEvent, error) {
	if a.job.Mode != receipts.ModePostpay {
		return []OutEvent{result}, nil
	}
	pay, err := a.bill.PaymentRequired(ctx)
	return []OutEvent{result, pay}, err
}

// policyTag names the manifest that the job was quoted under, which is another
// than today's where the node was restarted meanwhile with a new version or price.
func (p *Provider) policyTag(ctx context.Context, job Job) (nostr.Tag, error) {
	manifest := p.policy
	if job.PolicyID != p.policyID {
		var err error
		if manifest, err = p.cfg.Store.Content(ctx, job.PolicyID); err != nil {
			return nil, fmt.Errorf("read the job's policy: %w", err)
		}
	}
	return p.blob("policy", job.PolicyID, len(manifest), "application/json"), nil
}

// blob is ["blob", role, digest, size, mime, url...].
func (p *Provider) blob(role string, d hashing.Digest, size int, mime string) nostr.Tag {
	return append(nostr.Tag{"blob", role, d.String(), strconv.Itoa(size), mime}, p.cfg.Market.BlobURLs(d.Hex())...)
}
