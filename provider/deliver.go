package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
)

// publishedWait bounds the question whether a relay has a result that it did not
// say it took.
const publishedWait = 5 * time.Second

// placeTTL is how long a result that no relay takes keeps its job's place
// among those that count for admission.
const placeTTL = 10 * time.Minute

// deliver brings a durable result to the buyer and the money home, in this
// order: blobs on a server, the 6050 on a relay (the outbox does both), then
// settling. What could not be published was not served: then the money goes back.
func (a *actor) deliver(ctx context.Context) error {
	by, err := a.bill.DeliverBy(ctx)
	if end := (*openjob.End)(nil); errors.As(err, &end) {
		if err := a.end(ctx, end); err != nil {
			return err
		}
		return a.p.pub.Withdraw(ctx, a.job.Result.EventID)
	}
	if err != nil {
		return err
	}

	enough, err := a.confirmed(ctx)
	if err != nil {
		return err
	}
	if !enough {
		return a.undelivered(ctx, by)
	}

	var pay *Payment
	switch a.job.Mode {
	case receipts.ModeFree:
		if err := a.end(ctx, &openjob.End{State: StateSucceeded}); err != nil {
			return err
		}
		a.job.State = StateSucceeded
		a.job.Keep()
		return nil
	case receipts.ModePrepay:
		pay = a.job.Payment
	case receipts.ModePostpay:
		pay, err = a.bill.AwaitPostpay(ctx)
	case receipts.ModeHold:
		pay, err = a.bill.ClaimHold(ctx)
	}
	if err != nil || pay == nil {
		return err
	}
	return a.settle(ctx, &a.job.Charge, *pay)
}

// undelivered waits for a relay to take the result, makes it shorter where they
// refuse it, or ends the job.
func (a *actor) undelivered(ctx context.Context, end time.Time) error {
	given := a.job.Cancel
	if a.job.PaysFirst() {
		given = nil // the deal stands
	}

	select {
	case <-given:
		return a.withhold(ctx, StateCanceled, CodeCanceled, "by the buyer, before the result was delivered")
	default:
	}

	if !time.Now().Before(end) {
		return a.withhold(ctx, StateFailed, CodeDeadline, "the result could not be delivered in time")
	}

	no, err := a.refusalOf(ctx)
	switch {
	case err != nil:
		return err
	case no == refusedAtAll:
		return a.withhold(ctx, StateFailed, CodeInternal, "the signer, all relays or the blob servers refuse the result")
	case no == refusedAsIs:
		return a.reword(ctx)
	}

	if time.Since(a.job.StateAt) > placeTTL {
		a.p.gate.Leave(a.job.RequestID) // it goes on, but in nobody's way
	}

	select {
	case <-given:
	case <-a.job.Wake: // an answer came, or the invoice changed
	case <-time.After(min(a.p.limits.LookupEvery, time.Until(end))):
	case <-ctx.Done():
	}

	a.job.Keep()
	return ctx.Err()
}

// refusal is how a result that no relay took was refused.
type refusal int

const (
	notRefused   refusal = iota
	refusedAsIs          // a shorter form of it might be taken
	refusedAtAll         // by all who are asked
)

// refusalOf reads what was said of a result that no relay took.
func (a *actor) refusalOf(ctx context.Context) (refusal, error) {
	if a.unanswered() {
		return notRefused, nil
	}
	acks, err := a.p.cfg.Store.Acks(ctx, a.job.RequestID)
	if err != nil {
		return notRefused, err
	}

	tries, refused := 0, map[string]bool{}
	for _, ack := range acks {
		switch {
		case ack.EventID != a.job.Result.EventID:
		case ack.Relay == publish.BlobServers:
			return refusedAtAll, nil
		case ack.Relay == publish.SignerName:
			tries++
		case strings.HasPrefix(ack.Message, "invalid:"), strings.HasPrefix(ack.Message, "blocked:"):
			refused[ack.Relay] = true
		}
	}

	asked := a.p.cfg.Market.Relays()
	switch {
	case tries >= publish.SignTries:
		return refusedAtAll, nil
	case len(refused) == 0:
		return notRefused, nil
	}

	if _, _, _, shorter, err := a.shorterResult(); err != nil || shorter {
		return refusedAsIs, err
	}
	if slices.ContainsFunc(asked, func(url string) bool { return !refused[url] }) {
		return notRefused, nil // one that was not heard yet may take it
	}

	return refusedAtAll, nil
}

func (a *actor) shorterResult() (d domain.Domain, tags nostr.Tags, content string, shorter bool, err error) {
	var ev nostr.Event
	if err := json.Unmarshal(a.job.Result.Event, &ev); err != nil {
		return "", nil, "", false, fmt.Errorf("stored result: %w", err)
	}
	if d, err = domain.Of(ev.Tags); err != nil {
		return "", nil, "", false, fmt.Errorf("stored result: %w", err)
	}
	tags = slices.DeleteFunc(ev.Tags, func(t nostr.Tag) bool { return len(t) > 0 && t[0] == domain.TagName })
	tags, content, shorter = a.p.shorten(*a.job.Result, tags, ev.Content)
	return d, tags, content, shorter, nil
}

// reword offers a result in a shorter form. The former one is withdrawn first: of
// two that relays have, the buyer would not know which one the receipt names.
func (a *actor) reword(ctx context.Context) error {
	if has, err := a.retract(ctx); err != nil || has {
		return err
	}
	d, tags, content, _, err := a.shorterResult()
	if err != nil {
		return err
	}
	was, r := a.job.Result.EventID, *a.job.Result
	out, err := a.p.fit(ctx, a.job.Job, &r, d, tags, content)
	if err != nil {
		return err
	}
	a.expect(r.EventID)
	if err := a.p.cfg.Store.SetResultEvent(ctx, a.job.RequestID, was, r.EventID, out); err != nil {
		return fmt.Errorf("record the result's event: %w", err)
	}
	a.p.pub.Send(out)
	a.p.log.Warn("relays refuse the result: it is offered in a shorter form", "request", a.job.RequestID, "bytes", len(out.Event))
	a.job.Result = &r
	a.job.Keep()
	return nil
}

// withhold ends a job whose result no relay took, unless one took it after all.
func (a *actor) withhold(ctx context.Context, to State, code Code, detail string) error {
	if has, err := a.retract(ctx); err != nil || has {
		return err
	}
	return openjob.GiveBack(to, code, detail)
}

// retract has the result offered no more, and reports whether a relay has it all
// the same: its answer came meanwhile, or was lost. Then it goes on as delivered.
func (a *actor) retract(ctx context.Context) (has bool, err error) {
	id := a.job.Result.EventID
	if err := a.p.pub.Withdraw(ctx, id); err != nil {
		return false, err
	}
	if has, err = a.confirmed(ctx); err == nil && !has {
		asking, stop := context.WithTimeout(ctx, publishedWait)
		found, _ := a.p.cfg.Market.Query(asking, nostr.Filter{IDs: []string{id}})
		stop()
		has = slices.ContainsFunc(found, func(ev nostr.Event) bool { return ev.ID == id })
	}

	if has {
		a.taken(id)
		a.p.pub.Restore(id)
		a.job.Keep()
	}

	return has, err
}
