package provider

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
)

// hiddenOutput is the largest output that is repeated in the content, for
// clients that know no boxes.
const hiddenOutput = 16 << 10

// box puts what a hidden job gave into boxes whose key is in the hidden event:
// blob servers are read by anybody.
func (p *Provider) box(job Job, r Result, replayFile []byte, artifacts [][]byte) (*sealed, error) {
	mac := hmac.New(sha256.New, p.cfg.RootSecret)
	mac.Write([]byte("lightwork/box/v1"))
	mac.Write([]byte(job.RequestID))
	mac.Write(job.Nonce)
	secret := payments.Preimage(mac.Sum(nil))
	key, err := receipts.NewSealKey(secret, job.QuoteHash, job.RequestID, r.OutputHash)
	if err != nil {
		return nil, err
	}

	s := &sealed{key: hex.EncodeToString(secret[:])}
	for i, content := range append([][]byte{r.Output, replayFile}, artifacts...) {
		box, err := key.Seal(i, content)
		if err != nil {
			return nil, fmt.Errorf("box result: %w", err)
		}
		s.boxes = append(s.boxes, box)
	}

	return s, nil
}

// hiddenResult makes the result of a hidden job: a signed event with all its
// terms, hidden in the published one. The content is for clients that look no
// further: the output alone, hidden too.
func (a *actor) hiddenResult(ctx context.Context, r *Result, s *sealed, bound nostr.Tags, contents [][]byte) (OutEvent, error) {
	p, job, to := a.p, a.job.Job, a.job.To
	policy, err := p.policyTag(ctx, job)
	if err != nil {
		return OutEvent{}, err
	}
	tags := append(bound, policy)
	if s.key != "" {
		tags = append(tags, nostr.Tag{"key", s.key})
	}

	for i, box := range s.boxes {
		tag := p.blob(receipts.RoleSealed, hashing.Bytes(box), len(box), "application/octet-stream")
		if s.key != "" {
			role := []string{receipts.RoleResult, receipts.RoleReplay, receipts.RoleArtifact}[min(i, 2)]
			tag = append(nostr.Tag{"box", role, hashing.Bytes(contents[i]).String(), strconv.Itoa(len(contents[i]))}, tag[2:]...)
		}
		tags = append(tags, tag)
	}

	inner, err := p.pub.Sign(ctx, job.Kind+kinds.ResultOffset, domain.Result, tags, "")
	if err != nil {
		return OutEvent{}, err
	}
	doc, err := json.Marshal(inner)
	if err != nil {
		return OutEvent{}, err
	}
	terms, err := p.pub.Encrypt(ctx, to, string(doc))
	if err != nil {
		return OutEvent{}, fmt.Errorf("%w: %w", errTooLarge, err)
	}
	output := string(r.Output)
	if words, untyped := wordsOf(a.job.Asked, r.Output); untyped {
		output = words
	}
	content := ""
	if s.key != "" && len(output) <= hiddenOutput {
		if content, err = p.pub.Encrypt(ctx, to, output); err != nil {
			return OutEvent{}, err
		}
	}

	return p.fit(ctx, job, r, domain.Encrypted, nostr.Tags{{"e", to.Request}, {"p", to.Buyer}, {"encrypted"}, {publish.InnerTag, terms}}, content)
}
