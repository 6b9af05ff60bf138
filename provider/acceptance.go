package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/receipts"
)

// acceptance keeps the buyer's signed acceptance of our quote. One that does
// not match is worth nothing and is dropped.
func (p *Provider) acceptance(ctx context.Context, ev nostr.Event) {
	t := ev.Tags.Find("e")
	if t == nil || !p.isOpenOf(ev.PubKey, t[1]) {
		return
	}
	job, err := p.cfg.Store.Job(ctx, t[1])
	if err != nil || job.State.Terminal() {
		return
	}
	c := job.Due()
	if c.Acceptance != nil {
		return
	}

	var raw []byte
	inner, err := p.pub.Unwrap(ctx, ev.PubKey, ev)
	if err == nil {
		raw, err = json.Marshal(inner)
	}
	if err == nil {
		err = checkAcceptance(c, raw)
	}
	if err != nil {
		p.log.Warn("acceptance dropped", "request", job.RequestID, "event", ev.ID, "err", err)
		return
	}
	if err := p.cfg.Store.SetAcceptance(ctx, job.RequestID, c.Purpose, raw); err != nil {
		p.log.Error("record acceptance", "request", job.RequestID, "err", err)
		return
	}

	p.wake(job.RequestID)
}

// checkAcceptance wants the acceptance that a receipt can bind: of this quote,
// and not from the future, which would put it after the payment.
func checkAcceptance(c *Charge, raw []byte) error {
	var ev receipts.Event
	if err := json.Unmarshal(raw, &ev); err != nil {
		return err
	}
	if ev.CreatedAt > time.Now().Unix() {
		return fmt.Errorf("it is dated %d s ahead of our clock", ev.CreatedAt-time.Now().Unix())
	}

	quote, err := receipts.ParseQuote(c.Quote)
	if err != nil {
		return err
	}
	_, err = receipts.CheckAcceptance(ev, quote, c.PaymentHash)
	return err
}
