package deliver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider/internal/charge"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

const (
	// inlineBytes is the largest result that travels inside its 6050.
	inlineBytes = 32 << 10
	// eventTags is the most tags of one: relays of ours take 512.
	eventTags = 500
)

// resultEvents signs the 6050 and, in postpay, the request for payment that
// follows it. It completes r. A sealed result is in the event as its boxes.
func (d *Delivery) resultEvents(ctx context.Context, r *job.Result, b *boxes, made *openjob.Made) ([]job.OutEvent, error) {
	amount := nostr.Tag{"amount", strconv.FormatInt(d.job.PriceMsats, 10)}
	if d.job.Mode == receipts.ModePostpay {
		amount = append(amount, d.job.BOLT11)
	}
	tags := nostr.Tags{{"e", d.job.RequestID}, {"p", d.job.Buyer}, amount}
	bound := charge.Terms(&d.job.Job, r)
	if b != nil && b.key == "" {
		bound.Commitment = &b.commitment
	}
	for _, t := range bound.Tags() {
		tags = append(tags, t)
	}
	if b != nil && b.key == "" {
		commit, err := d.commitTags(r)
		if err != nil {
			return nil, err
		}
		tags = append(tags, commit...)
	}

	policy, err := d.policyTag(ctx)
	if err != nil {
		return nil, err
	}
	tags = append(tags, policy)

	var out job.OutEvent
	if d.job.To.Scheme != "" {
		out, err = d.hiddenResult(ctx, r, b, tags, made)
	} else {
		out, err = d.openResult(ctx, r, b, tags, made)
	}
	if err != nil || d.job.Mode != receipts.ModePostpay {
		return []job.OutEvent{out}, err
	}

	pay, err := d.bill.PaymentRequired(ctx)
	return []job.OutEvent{out, pay}, err
}

// openResult makes the result event of a job that is not hidden.
func (d *Delivery) openResult(ctx context.Context, r *job.Result, b *boxes, tags nostr.Tags, made *openjob.Made) (job.OutEvent, error) {
	if b != nil {
		for _, box := range b.boxes {
			tags = append(tags, d.blob(receipts.RoleSealed, hashing.Bytes(box), len(box), "application/octet-stream"))
		}
	} else {
		tags = append(tags, d.blob(receipts.RoleReplay, r.Replay, len(made.Replay), "application/jsonl"))
		for _, a := range made.Artifacts {
			tags = append(tags, d.blob(receipts.RoleArtifact, hashing.Bytes(a), len(a), "application/octet-stream"))
		}
	}

	content := string(r.Output)
	switch words, untyped := d.wordsOf(r.Output); {
	case b != nil:
		content = ""
	case untyped: // an ordinary client reads the content; the document is beside it
		content, tags = words, append(tags, d.resultBlob(r))
	case len(r.Output) > inlineBytes:
		content, tags = "", append(tags, d.resultBlob(r))
	}

	tags = slices.Concat(nostr.Tags{{"request", string(d.job.Request)}}, inputsOf(d.job.Signed), tags)
	return d.fit(ctx, r, domain.Result, tags, content)
}

// wordsOf is what an untyped request is answered with: the text of the result.
func (d *Delivery) wordsOf(output []byte) (text string, ok bool) {
	if openjob.NamesSchema(d.job.Asked) {
		return "", false
	}
	var r schemas.TextResult
	if json.Unmarshal(output, &r) != nil {
		return "", false
	}
	return r.Text, true
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

func (d *Delivery) resultBlob(r *job.Result) nostr.Tag {
	return d.blob(receipts.RoleResult, r.OutputHash, len(r.Output), "application/json")
}

// fit signs the first form of a result's event, from the given one down, that is
// within relays' limits: how many bytes a text takes there depends on what is in it.
// It completes r.
func (d *Delivery) fit(ctx context.Context, r *job.Result, of domain.Domain, tags nostr.Tags, content string) (job.OutEvent, error) {
	for {
		ev, err := d.cfg.Publisher.Sign(ctx, d.job.Kind+kinds.ResultOffset, of, tags, content)
		if err != nil {
			return job.OutEvent{}, err
		}
		out, err := d.cfg.Publisher.Queue(ev, d.job.RequestID)
		if err != nil {
			return job.OutEvent{}, err
		}

		out.Unpaid = d.job.Mode == receipts.ModeFree
		r.EventID, r.Event = ev.ID, out.Event
		if len(out.Event) <= d.cfg.Publisher.MaxEvent() && len(tags) <= eventTags {
			return out, nil
		}

		var shorter bool
		if tags, content, shorter = d.shorten(r, tags, content); !shorter {
			return job.OutEvent{}, errTooLarge
		}
	}
}

// shorten takes away what a result's event can best be without: the inputs, the
// request, at last the output in the content, which then is a blob. It reports
// whether there was something.
func (d *Delivery) shorten(r *job.Result, tags nostr.Tags, content string) (nostr.Tags, string, bool) {
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
		tags = append(slices.Clone(tags), d.resultBlob(r))
	}
	return tags, "", true
}

// policyTag names the manifest that the job was quoted under, which is another
// than today's where the price has changed meanwhile, or the program.
func (d *Delivery) policyTag(ctx context.Context) (nostr.Tag, error) {
	manifest, err := d.cfg.Store.Content(ctx, d.job.PolicyID)
	if err != nil {
		return nil, fmt.Errorf("read the job's policy: %w", err)
	}
	return d.blob("policy", d.job.PolicyID, len(manifest), "application/json"), nil
}

// blob is ["blob", role, digest, size, mime, url...].
func (d *Delivery) blob(role string, digest hashing.Digest, size int, mime string) nostr.Tag {
	return append(nostr.Tag{"blob", role, digest.String(), strconv.Itoa(size), mime}, d.cfg.Market.BlobURLs(digest.Hex())...)
}
