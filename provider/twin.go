package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider/internal/announce"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
)

// A key sells from one store: two nodes with one key would quote the same requests
// and sign receipts of the same numbers, and the chain of receipts would be forked
// for ever. A node sees the other's words on the relays: those of its own key that
// it did not say itself. It then takes no jobs until its operator says so; what is
// open goes on, behind the highest receipt that was seen.

// beatCounts is for how long a beat says that somebody is alive. An older one may be
// our own, which a relay keeps or sends again when we have forgotten it.
const beatCounts = 2 * announce.BeatEvery

// ownFilter is what another node with our key would say. Words from before this
// life are of an earlier one, or are heard of again.
func (p *Provider) ownFilter() nostr.Filter {
	since := nostr.Timestamp(p.began.Unix())
	return nostr.Filter{Kinds: []int{kinds.Beat, kinds.Feedback, p.kinds.Receipt}, Authors: []string{p.key}, Since: &since}
}

// own looks at an event of our key. Encrypted ones are left out: another node with
// our key also says that it is alive.
func (p *Provider) own(ctx context.Context, ev nostr.Event) {
	if int64(ev.CreatedAt) <= p.began.Unix() || publish.IsEncrypted(ev) {
		return
	}
	what, err := p.unsaid(ctx, ev)
	if err == nil && what != "" && ev.Kind == p.kinds.Receipt {
		err = p.restored.Adopt(ctx, []nostr.Event{ev})
	}
	if err != nil {
		p.log.Error("judge an event of our key", "event", ev.ID, "err", err)
		return
	}
	if what == "" || p.gate.State() == AdmissionPaused {
		return
	}

	p.log.Error("another node sells with this key: no new jobs are taken. Stop one of the two, then take jobs again with the other", "sign", what, "event", ev.ID)
	if p.cfg.Pause == nil {
		p.gate.Pause()
	} else if err := p.cfg.Pause("another node sells with this key: it published " + what); err != nil {
		p.storeTrouble(fmt.Errorf("%w: pause: %w", ErrStoreFailed, err))
		return
	}

	if err := p.announcer.Announce(ctx); err != nil && ctx.Err() == nil {
		p.log.Error("announce", "err", err)
	}
}

// unsaid names an event of our key that this node did not make; "" for one that
// it did, or that could be anybody's with this key.
func (p *Provider) unsaid(ctx context.Context, ev nostr.Event) (string, error) {
	var request string
	quote, notQuote := receipts.ParseQuote([]byte(ev.Content))
	receipt, notReceipt := receipts.ParseReceipt([]byte(ev.Content))

	// A feedback's content can be a buyer's words, which would otherwise stop us.
	switch of, err := domain.Of(ev.Tags); {
	case err == nil && of == domain.Beat && time.Since(ev.CreatedAt.Time()) < beatCounts && !p.announcer.IsOurs(ev.ID):
		return "that it is alive", nil
	case err == nil && of == domain.Quote && notQuote == nil:
		request = quote.RequestID
	case err == nil && of == domain.Receipt && notReceipt == nil:
		request = receipt.RequestEventID
	default:
		return "", nil
	}

	job, err := p.cfg.Store.Job(ctx, request)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return "", err
	}
	what := "a quote for request " + request
	if notReceipt == nil {
		what = fmt.Sprintf("receipt %d, of request %s", receipt.Sequence, request)
	}

	for _, c := range job.Charges() {
		if content := []byte(ev.Content); bytes.Equal(c.Quote, content) || bytes.Equal(c.Receipt, content) {
			return "", nil
		}
	}

	return what, nil
}
