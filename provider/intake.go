package provider

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// futureWindow is how far ahead of our clock a request may be.
const futureWindow = 5 * time.Minute

// farFuture is when "never" begins, in Unix seconds: the largest numbers are dates
// before our own for a time.Time.
const farFuture = 1 << 40

// filters are what a provider listens to. Requests that name nobody are open
// to all, so requests are not filtered by p here. What is said about jobs is wanted
// for as long as one is open, however long nobody was here to hear it.
func (p *Provider) filters() nostr.Filters {
	window := time.Now().Add(-p.limits.ClockWindow)
	since, about := nostr.Timestamp(window.Unix()), nostr.Timestamp(window.Unix())
	if p.oldest.Before(window) {
		about = nostr.Timestamp(p.oldest.Add(-futureWindow).Unix()) // their clocks may be behind ours
	}
	me := []string{p.key}
	return nostr.Filters{
		{Kinds: p.requestKinds(), Since: &since},
		{Kinds: []int{kinds.Ping}, Tags: nostr.TagMap{"p": me}, Since: &since},
		{Kinds: []int{p.kinds.Acceptance}, Tags: nostr.TagMap{"p": me}, Since: &about},
		{Kinds: []int{kinds.Closing, kinds.NotTaken}, Tags: nostr.TagMap{"p": me}, Since: &about},
		{Kinds: []int{kinds.Deletion}, Tags: nostr.TagMap{"k": texts(p.requestKinds())}, Since: &about},
		p.ownFilter(),
	}
}

// requestKinds are our own, and the further ones.
func (p *Provider) requestKinds() []int { return append([]int{p.kinds.Request}, p.kinds.Also...) }

func texts(numbers []int) []string {
	list := make([]string, len(numbers))
	for i, n := range numbers {
		list[i] = strconv.Itoa(n)
	}
	return list
}

// intake takes one verified event. It may be called again for the same event.
func (p *Provider) intake(ctx context.Context, ev nostr.Event) {
	if isCancellation(ev) { // counts for whatever is read after it
		for _, id := range deleted(ev) {
			p.canceled.Add(ev.PubKey + id)
		}
	}
	if !p.intakes.TryGo(func() error { p.dispatch(ctx, ev); return nil }) {
		// All slots busy: wait here, which slows reading, not memory.
		p.intakes.Go(func() error { p.dispatch(ctx, ev); return nil })
	}
}

func (p *Provider) dispatch(ctx context.Context, ev nostr.Event) {
	if slices.Contains(p.requestKinds(), ev.Kind) {
		p.request(ctx, ev)
		return
	}

	switch ev.Kind {
	case p.kinds.Acceptance:
		p.acceptance(ctx, ev)
	case kinds.Closing:
		p.closing(ctx, ev)
	case kinds.Deletion, kinds.NotTaken:
		if isCancellation(ev) {
			p.cancelRequest(ev)
		}
	case kinds.Ping:
		p.ping(ctx, ev)
	case kinds.Beat, kinds.Feedback, p.kinds.Receipt:
		if ev.PubKey == p.key {
			p.own(ctx, ev)
		}
	}
}

// request admits or refuses one request. What is not for us, not timely or
// already known is dropped in silence: answering it would let strangers make
// us speak.
func (p *Provider) request(ctx context.Context, ev nostr.Event) {
	if !p.forUs(ev) || !p.timely(ev) || p.canceled.Has(ev.PubKey+ev.ID) || !p.seen.Add(ev.ID) {
		return
	}
	if _, err := p.cfg.Store.Job(ctx, ev.ID); err == nil {
		return // known from before a restart
	}
	if p.restored.WasAnswered(ev.ID) {
		p.log.Debug("answered before, by this key", "request", ev.ID)
		return
	}

	// Who may not buy is told so before any work is done for it, such as opening
	// what it has hidden.
	view, err := ev, p.gate.MayBuy(ctx, ev.PubKey)
	if err == nil {
		view, err = p.pub.DecryptRequest(ctx, ev)
	}
	reason := reasonOf(err)
	if reason.Code == "" && p.mayBeSold(view) {
		reason = readable(ev, view)
	}
	if reason.Code == "" && slices.ContainsFunc(view.Tags, isElsewhere) {
		if reason = p.gather(ctx, ev, view); reason.Code == "" {
			return // it goes on when its inputs are here
		}
	}

	p.take(ctx, ev, view, nil, reason)
}

// readable refuses a request that those who verify its receipt would read
// otherwise, or not at all: it would be run and paid, and proved to nobody.
func readable(ev, view nostr.Event) Reason {
	raw, err := ev.MarshalJSON()
	if err == nil {
		_, err = receipts.ParseEvent(raw, receipts.MaxEventBytes)
	}
	if err == nil {
		_, err = receipts.TermsOf(view.Tags)
	}
	if err != nil {
		return because(CodeInvalidInput, err.Error())
	}
	return Reason{}
}

// take admits a request as its view shows it, with the events that were its inputs,
// unless there is a reason against it already.
func (p *Provider) take(ctx context.Context, ev, view nostr.Event, inputs []receipts.Event, reason Reason) {
	log := p.log.With("request", ev.ID)
	var job Job
	var req *schemas.Request
	if reason.Code == "" {
		job, req, reason = p.admit(ctx, view, receipts.IDs(inputs))
	}
	if reason.Code != "" {
		p.refuse(ctx, ev, reason)
		return
	}
	if end, err := expiration(ev); err != nil || !end.IsZero() && !end.After(time.Now()) {
		p.gate.Leave(job.RequestID)
		log.Debug("expired while it was admitted")
		return
	}

	raw, err := ev.MarshalJSON()
	if err == nil {
		job.Request = raw // as it was signed
		job.RefundAddress = p.refunds.Address(view, job.Mode)
		err = p.cfg.Store.AddJob(ctx, job)
	}

	switch {
	case errors.Is(err, ErrDuplicate):
		p.gate.Leave(job.RequestID)
	case errors.Is(err, ErrCreditSpent): // by another request of the buyer's, meanwhile
		p.gate.Leave(job.RequestID)
		p.seen.Remove(ev.ID)
		p.request(ctx, ev)
	case errors.Is(err, ErrRefundOfAnother):
		p.gate.Leave(job.RequestID)
		p.refuse(ctx, ev, because(CodeInvalidInput, "refund: another key's request named this address first; name a fresh one"))
	case err != nil:
		p.gate.Leave(job.RequestID)
		p.seen.Remove(ev.ID)
		log.Error("admit request", "err", err)
		p.storeTrouble(err)
	default:
		p.tell(AdmissionEvent{Job: job})
		log.Info("quoted", "buyer", job.Buyer, "schema", job.SchemaID, "mode", job.Mode, "price_msats", job.PriceMsats)
		p.pub.NoteReader(view)
		p.launch(openjob.New(job, view, req))
		if p.canceled.Has(job.Buyer + job.RequestID) { // meanwhile
			p.cancelJob(job.Buyer, job.RequestID)
		}
	}
}

func (p *Provider) forUs(ev nostr.Event) bool {
	named := false
	for _, t := range ev.Tags {
		if len(t) >= 2 && t[0] == "p" {
			if t[1] == p.key {
				return true
			}
			named = true
		}
	}
	return !named && ev.PubKey != p.key
}

func (p *Provider) timely(ev nostr.Event) bool {
	now, at := time.Now(), ev.CreatedAt.Time()
	if at.Before(now.Add(-p.limits.ClockWindow)) || at.After(now.Add(futureWindow)) {
		return false
	}
	end, err := expiration(ev)
	return err == nil && (end.IsZero() || end.After(now))
}

// expiration is when a request is to be taken up no more (NIP-40); zero: never.
func expiration(ev nostr.Event) (time.Time, error) {
	t := ev.Tags.Find("expiration")
	if t == nil {
		return time.Time{}, nil
	}
	unix, err := strconv.ParseInt(t[1], 10, 64)
	if unix > farFuture && err == nil {
		return time.Time{}, nil
	}
	return time.Unix(unix, 0).UTC(), err
}

// concerns reports whether a refusal is worth saying. A request that is open to
// all and not of our kind is for others: nobody waits to hear it from us.
func (p *Provider) concerns(ev nostr.Event, reason Reason) bool {
	switch reason.Code {
	case CodeUntypedJob, CodeUnsupportedInput, CodeMissingInput, CodeUnusableInput, CodeUnsupportedSchema, CodeUnsupportedEncryption:
		return ev.Tags.ContainsAny("p", []string{p.key})
	}
	return true
}

// refuse remembers the refusal and answers once, within the refusal rate.
func (p *Provider) refuse(ctx context.Context, ev nostr.Event, reason Reason) {
	var out []OutEvent
	if p.concerns(ev, reason) && p.gate.MayAnswer(ctx, ev.PubKey) {
		to := publish.SenderOf(ev)
		if p.cfg.Cipher == nil {
			to.Scheme = "" // it cannot be hidden; the reason tells nothing of the request
		}
		fb, err := p.pub.Feedback(ctx, to, "error", reason.String(), "")
		if err != nil {
			p.log.Error("sign refusal", "request", ev.ID, "err", err)
			return
		}
		out = append(out, fb)
	}

	err := p.cfg.Store.Refuse(ctx, ev.ID, ev.PubKey, reason, out...)
	if err != nil {
		if !errors.Is(err, ErrDuplicate) {
			p.log.Error("record refusal", "request", ev.ID, "err", err)
			p.storeTrouble(err)
		}
		return
	}

	p.tell(RefusalEvent{Reason: reason})
	why := reason.String()
	if publish.IsEncrypted(ev) {
		why = string(reason.Code) // the words may say what was hidden
	}
	p.log.Info("refused", "request", ev.ID, "buyer", ev.PubKey, "reason", why)
	p.pub.Send(out...)
}

// isCancellation reports whether an event ends jobs of its author's: a deletion,
// which every NIP-90 client can send, or our own word that an offer is not taken.
func isCancellation(ev nostr.Event) bool {
	switch ev.Kind {
	case kinds.Deletion:
		return domain.Allow(domain.Deletion, ev.Tags) == nil
	case kinds.NotTaken:
		return domain.Demand(domain.NotTaken, ev.Tags) == nil
	}
	return false
}

// deleted are the event ids that a deletion names, bounded.
func deleted(ev nostr.Event) []string {
	var ids []string
	for _, t := range ev.Tags[:min(len(ev.Tags), 64)] {
		if len(t) >= 2 && t[0] == "e" && nostr.IsValid32ByteHex(t[1]) {
			ids = append(ids, t[1])
		}
	}
	return ids
}

// cancelRequest stops every open job of the key that a deletion names, or whose
// offer it does not take.
func (p *Provider) cancelRequest(ev nostr.Event) {
	for _, id := range deleted(ev) {
		p.waiting.cancel(ev.PubKey, id)
		if p.cancelJob(ev.PubKey, id) {
			p.log.Info("cancel requested", "request", id)
		}
	}
}
