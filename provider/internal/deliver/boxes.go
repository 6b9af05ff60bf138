package deliver

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/charge"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
)

// hiddenOutput is the largest output that is repeated in the content, for
// clients that know no boxes.
const hiddenOutput = 16 << 10

// boxes are a result in boxes, and the hash of the seal that it is committed to by.
type boxes struct {
	commitment hashing.Digest
	key        string // of boxes that no payment opens, in hex: then there is no commitment
	boxes      [][]byte
}

// boxesOf puts what a run made into boxes, if its job is sealed or hidden; else nil.
func (d *Delivery) boxesOf(made *openjob.Made) (*boxes, error) {
	switch {
	case d.job.IsSealed():
		return d.seal(made)
	case d.job.To.Scheme != "":
		return d.hide(made)
	}
	return nil, nil
}

// contentsOf are the result, its trajectory and its artifacts, in the order of boxes.
func contentsOf(made *openjob.Made) [][]byte {
	return append([][]byte{made.Result.Output, made.Replay}, made.Artifacts...)
}

// roleOf is what the content of a box is.
func roleOf(i int) string {
	return []string{receipts.RoleResult, receipts.RoleReplay, receipts.RoleArtifact}[min(i, 2)]
}

// seal puts a result into boxes that the preimage opens.
func (d *Delivery) seal(made *openjob.Made) (*boxes, error) {
	contents := contentsOf(made)
	list := make([]receipts.SealedContent, len(contents))
	for i, content := range contents {
		list[i] = receipts.SealedContent{Role: roleOf(i), Digest: hashing.Bytes(content), Size: int64(len(content))}
	}

	doc, err := receipts.NewSeal(charge.Terms(&d.job.Job, &made.Result), list).Canonical()
	if err != nil { // more contents than a seal lists
		return nil, fmt.Errorf("%w: %w", errTooLarge, err)
	}
	b := &boxes{commitment: hashing.Bytes(doc)}
	key, err := receipts.NewSealKey(d.cfg.Preimage(d.job.RequestID, &d.job.Charge), d.job.QuoteHash, d.job.RequestID, b.commitment)
	if err != nil {
		return nil, err
	}

	switch b.boxes, err = key.SealAll(doc, contents); {
	case errors.Is(err, receipts.ErrInvalid):
		return nil, fmt.Errorf("%w: %w", errTooLarge, err)
	case err != nil:
		return nil, fmt.Errorf("seal result: %w", err)
	}

	return b, nil
}

// hide puts a result into boxes whose key is in the hidden event: blob servers are read
// by anybody.
func (d *Delivery) hide(made *openjob.Made) (*boxes, error) {
	secret := payments.Preimage(d.job.Secret(d.cfg.RootSecret, "lightwork/box/v1", d.job.RequestID))
	key, err := receipts.NewSealKey(secret, d.job.QuoteHash, d.job.RequestID, made.Result.OutputHash)
	if err != nil {
		return nil, err
	}

	b := &boxes{key: hex.EncodeToString(secret[:])}
	for i, content := range contentsOf(made) {
		box, err := key.Seal(i, content)
		if err != nil {
			return nil, fmt.Errorf("box result: %w", err)
		}
		b.boxes = append(b.boxes, box)
	}

	return b, nil
}

// beside are the documents of a result that may travel beside its event.
func beside(made *openjob.Made, b *boxes) map[hashing.Digest][]byte {
	if b == nil {
		return map[hashing.Digest][]byte{made.Result.OutputHash: made.Result.Output, made.Result.Replay: made.Replay}
	}
	blobs := map[hashing.Digest][]byte{}
	for _, box := range b.boxes[:min(2, len(b.boxes))] { // the same two, or all in one
		blobs[hashing.Bytes(box)] = box
	}
	return blobs
}

// hiddenResult makes the result of a hidden job: a signed event with all its
// terms, hidden in the published one. The content is for clients that look no
// further: the output alone, hidden too.
func (d *Delivery) hiddenResult(ctx context.Context, r *job.Result, b *boxes, tags nostr.Tags, made *openjob.Made) (job.OutEvent, error) {
	if b.key != "" {
		tags = append(tags, nostr.Tag{"key", b.key})
	}

	contents := contentsOf(made)
	for i, box := range b.boxes {
		tag := d.blob(receipts.RoleSealed, hashing.Bytes(box), len(box), "application/octet-stream")
		if b.key != "" {
			tag = append(nostr.Tag{"box", roleOf(i), hashing.Bytes(contents[i]).String(), strconv.Itoa(len(contents[i]))}, tag[2:]...)
		}
		tags = append(tags, tag)
	}

	inner, err := d.cfg.Publisher.Sign(ctx, d.job.Kind+kinds.ResultOffset, domain.Result, tags, "")
	if err != nil {
		return job.OutEvent{}, err
	}
	doc, err := json.Marshal(inner)
	if err != nil {
		return job.OutEvent{}, err
	}
	terms, err := d.cfg.Publisher.Encrypt(ctx, d.job.To, string(doc))
	if err != nil {
		return job.OutEvent{}, fmt.Errorf("%w: %w", errTooLarge, err)
	}

	output := string(r.Output)
	if words, untyped := d.wordsOf(r.Output); untyped {
		output = words
	}
	content := ""
	if b.key != "" && len(output) <= hiddenOutput {
		if content, err = d.cfg.Publisher.Encrypt(ctx, d.job.To, output); err != nil {
			return job.OutEvent{}, err
		}
	}

	hidden := nostr.Tags{{"e", d.job.To.Request}, {"p", d.job.To.Buyer}, {"encrypted"}, {publish.InnerTag, terms}}
	return d.fit(ctx, r, domain.Encrypted, hidden, content)
}
