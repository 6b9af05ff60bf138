package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
)

// rememberEvery is the pause between attempts to ask the relays.
const rememberEvery = 2 * time.Second

// remember asks the relays, before anything is sold, what our key has said. A
// store that was restored from an older backup knows less than they do (P16):
// it must not sign a second receipt of one sequence, nor quote again what it
// has answered. It returns once a relay has told all it has.
func (p *Provider) remember(ctx context.Context) error {
	for failed := 1; ; failed++ {
		err := p.recall(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrStoreFailed) {
			if err == nil {
				close(p.remembered)
			}
			if err == nil && failed > 1 {
				p.log.Warn("a relay has told what this key has signed: selling begins")
			}
			return firstOf(ctx.Err(), err)
		}
		if failed&(failed-1) == 0 { // at growing distances
			p.log.Warn("nothing is sold before a relay tells what this key has signed; asking again", "every", rememberEvery, "err", err)
		}
		select {
		case <-time.After(rememberEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// answerKinds are those in which a request may have been answered.
func (p *Provider) answerKinds() []int {
	list := []int{kinds.Feedback}
	for _, k := range p.requestKinds() {
		list = append(list, k+kinds.ResultOffset)
	}
	return list
}

func (p *Provider) recall(ctx context.Context) error {
	me := []string{p.key}
	signed, err := p.cfg.Market.Query(ctx, nostr.Filter{Kinds: []int{p.kinds.Receipt}, Authors: me, Limit: 50})
	if err != nil {
		return err
	}
	since := nostr.Timestamp(time.Now().Add(-p.limits.ClockWindow).Unix())
	answered, err := p.cfg.Market.Query(ctx, nostr.Filter{Kinds: p.answerKinds(), Authors: me, Since: &since})
	if err != nil {
		return err
	}
	if err := p.witness(ctx); err != nil {
		return err
	}
	if err := p.adopt(ctx, p.shown(ctx, signed)); err != nil {
		return err
	}
	for _, ev := range answered {
		if t := ev.Tags.Find("e"); t != nil && ev.PubKey == p.key {
			p.answered[t[1]] = struct{}{}
		}
	}
	return nil
}

// shown returns our receipts among events of the receipt's kind, those of
// hidden jobs opened.
func (p *Provider) shown(ctx context.Context, signed []nostr.Event) []nostr.Event {
	var list []nostr.Event
	for _, ev := range signed {
		if t := ev.Tags.Find("p"); t != nil && ev.PubKey == p.key && publish.IsEncrypted(ev) {
			inner, err := p.pub.Unwrap(ctx, t[1], ev)
			if err != nil || !publish.IsSignedBy(inner, p.key) {
				continue
			}
			ev = inner
		}
		if domain.Demand(domain.Receipt, ev.Tags) == nil {
			list = append(list, ev)
		}
	}
	return list
}

// adopt continues the chain behind the highest of our receipts.
func (p *Provider) adopt(ctx context.Context, signed []nostr.Event) error {
	var head int64
	var hash hashing.Digest
	for _, ev := range signed {
		r, err := receipts.ParseReceipt([]byte(ev.Content))
		if err == nil && ev.PubKey == p.key && r.Sequence > head {
			head, hash = r.Sequence, hashing.Bytes([]byte(ev.Content))
		}
	}
	if head == 0 {
		return nil
	}
	behind, err := p.cfg.Store.AdoptReceipt(ctx, head, hash)
	if err != nil {
		return fmt.Errorf("adopt receipt %d: %w", head, err)
	}
	if behind {
		p.log.Warn("the relays have receipts of this key that the database lacks; the chain goes on behind them. After a restore that is as it should be; else another node sells with this key: stop one of them", "sequence", head)
	}
	return nil
}
