package buyer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// Progress is one thing that happened to a purchase, for people and logs.
type Progress struct {
	At    time.Time `json:"at"`
	Who   string    `json:"who"`  // "buyer", "provider" or "wallet"
	What  string    `json:"what"` // one of the words below
	Msats int64     `json:"msats,omitempty"`
	Hash  string    `json:"hash,omitempty"`
	Text  string    `json:"text,omitempty"`
}

// Errors that Follow returns with the purchase still open.
var (
	// ErrIncomplete: the payment succeeded, the result or the receipt has not come.
	ErrIncomplete = errors.New("paid, but the result or the receipt has not arrived; lightwork buyer resume waits for it again")
	errNoWallet   = errors.New("a payment is under way, and no wallet is configured to ask for it")
	// ErrNoRelay: no relay served our subscription.
	ErrNoRelay = errors.New("no relay answered")
	// ErrUnasked: the result is here, and the provider has not asked to be paid for it.
	ErrUnasked = errors.New("the result is here, but the provider has not asked for its payment; lightwork buyer resume waits for it again")
	// ErrFailed: the purchase ended without what was bought; Purchase.Reason says why.
	ErrFailed = errors.New("the purchase failed")
)

// settleGrace is how long after our payment settled a result may arrive and
// still count as delivered first: events and HTLCs travel on different roads.
const settleGrace = 10 * time.Second

// relayPatience is how long a relay may take to serve our subscription.
const relayPatience = 30 * time.Second

// follower is one Follow call. Everything in it belongs to its one goroutine;
// other goroutines reach it through the channels.
type follower struct {
	c       *Client
	id      string
	network payments.Network
	tell    func(Progress)

	events   chan nostr.Event
	paid     chan payments.Payment // from the payment's own goroutine
	g        *errgroup.Group
	seen     map[string]bool
	heard    time.Time     // the provider's last event; zero if none came
	kept     int           // feedback events stored by this Follow
	free     *offer        // what a free job's result must be bound to
	signed   []byte        // the event that is being taken, as it was signed
	ended    bool          // the provider said that it is done, and signed no receipt
	late     []nostr.Event // receipts that came before their result
	postpay  *nostr.Event  // a request for payment that came before the result
	afterFee *nostr.Event  // one that came before our wallet knew that the engagement fee is paid
	paidAt   time.Time     // when we learned of it
	lastWord string        // the provider's last error
	early    bool          // money moved well before the result in boxes came

	// A seat of an open panel goes as far as an offer that could be paid, and no
	// further: the panel decides whether it is. Where results are read before they
	// are paid for, the fee for the attempt is paid before that.
	seated     bool
	readsFirst bool
	offered    *offer

	outputBytes int64 // of a run whose output is for sale
	toldBytes   time.Time

	// A payment that came back, while the provider's reason may still be on its way.
	back     *payments.Payment
	backLong <-chan time.Time
}

// Follow carries a purchase from wherever it stands to its end: it may be
// called for a new purchase, or after a crash at any point. It returns the
// purchase as stored; an error means it ended badly or is still open.
//
// ErrPanelOpen: the purchase is a seat of a panel that has not decided yet;
// FollowPanel follows it.
func (c *Client) Follow(ctx context.Context, requestID string, tell func(Progress)) (Purchase, error) {
	if err := c.decided(ctx, requestID); err != nil {
		return Purchase{}, err
	}
	return c.newFollower(requestID, tell).follow(ctx)
}

func (c *Client) newFollower(requestID string, tell func(Progress)) *follower {
	if tell == nil {
		tell = func(Progress) {}
	}
	return &follower{
		c: c, id: requestID, tell: tell,
		events: make(chan nostr.Event, 256), paid: make(chan payments.Payment, 1), seen: map[string]bool{},
	}
}

func (f *follower) follow(ctx context.Context) (Purchase, error) {
	c, requestID := f.c, f.id
	if c.cfg.Wallet != nil {
		node, err := c.cfg.Wallet.Node(ctx)
		if err != nil {
			return Purchase{}, fmt.Errorf("ask the wallet who it is: %w", err)
		}
		f.network = node.Network
	}
	p, err := c.cfg.Store.Purchase(ctx, requestID)
	if err != nil {
		return Purchase{}, err
	}
	if p.State.Terminal() {
		if p, err = c.awaitRefund(ctx, p, f.tell); err != nil {
			return p, err
		}
		return p, ended(p)
	}
	caller := ctx
	ctx, stop := context.WithCancel(ctx)
	g, gctx := errgroup.WithContext(ctx)
	f.g = g
	err = f.run(gctx, p)
	broken := gctx.Err() != nil && ctx.Err() == nil // run only saw the end of what another goroutine met
	stop()
	if gerr := g.Wait(); err != nil && broken {
		err = gerr
	}
	p, readErr := c.cfg.Store.Purchase(context.WithoutCancel(ctx), requestID)
	if err == nil {
		err = readErr
	}
	if err == nil {
		p, err = c.awaitRefund(caller, p, f.tell)
	}
	if err == nil {
		err = ended(p)
	}
	return p, err
}

func ended(p Purchase) error {
	if p.State == StateDone {
		return nil
	}
	return fmt.Errorf("%w: %s: %s", ErrFailed, p.State, p.Reason)
}

// run subscribes, publishes what is ours to publish, and then takes one thing
// at a time until the purchase is terminal.
func (f *follower) run(ctx context.Context, p Purchase) error {
	if p.State == StatePaying { // relays or not, what became of the money is asked for
		if f.c.cfg.Wallet == nil {
			return errNoWallet
		}
		f.pay(ctx, p)
	}
	if err := f.listen(ctx, p); err != nil {
		return err
	}
	if err := f.publish(ctx, p); err != nil {
		return err
	}
	if p.State == StatePaid {
		f.paidAt = time.Now()
		if err := f.unseal(ctx, p); err != nil {
			return err
		}
	}
	answer := time.NewTimer(f.c.cfg.AnswerTimeout)
	defer answer.Stop()
	for {
		done, err := f.settleUp(ctx)
		if done || err != nil {
			return err
		}
		select {
		case ev := <-f.events:
			err = f.event(ctx, ev)
		case pay := <-f.paid:
			err = f.payment(ctx, pay)
		case <-f.backLong:
			err = f.cameBack(ctx)
		case <-answer.C:
			err = f.silence(ctx)
			answer.Reset(f.c.cfg.AnswerTimeout)
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// listen subscribes to the provider's answers and waits until a relay serves
// the subscription: an answer that comes before would be lost.
func (f *follower) listen(ctx context.Context, p Purchase) error {
	kinds := f.c.cfg.Kinds
	filters := nostr.Filters{{
		Kinds:   []int{kindFeedback, kinds.Request + 1000, kinds.Receipt},
		Authors: []string{p.Provider}, Tags: nostr.TagMap{"e": {p.RequestID}},
	}}
	ready := make(chan struct{}, 1)
	f.g.Go(func() error {
		return f.c.cfg.Market.Listen(ctx, filters, func() {
			select {
			case ready <- struct{}{}:
			default:
			}
		}, func(ev nostr.Event) {
			select {
			case f.events <- ev:
			case <-ctx.Done():
			}
		})
	})
	patience := time.NewTimer(relayPatience)
	defer patience.Stop()
	for {
		select {
		case <-ready:
			return nil
		case pay := <-f.paid:
			if err := f.payment(ctx, pay); err != nil {
				return err
			}
		case <-patience.C:
			return fmt.Errorf("%w in %v", ErrNoRelay, relayPatience)
		case <-ctx.Done():
			return fmt.Errorf("no relay answered: %w", context.Cause(ctx))
		}
	}
}

// publish sends what we have signed so far; sending it twice is harmless. Only
// a request that must still be heard has to be taken: relays refuse one that
// its cancellation has deleted, or that has expired.
func (f *follower) publish(ctx context.Context, p Purchase) error {
	var feeAcceptance []byte
	if p.Engagement != nil {
		feeAcceptance = p.Engagement.Acceptance
	}
	for i, raw := range [][]byte{p.Request, feeAcceptance, p.Acceptance, p.Cancel} {
		if raw == nil || i == 0 && p.Cancel != nil {
			continue
		}
		var ev nostr.Event
		if err := json.Unmarshal(raw, &ev); err != nil {
			return fmt.Errorf("stored event: %w", err)
		}
		if i == 1 || i == 2 {
			var err error
			if ev, err = f.c.wrap(ctx, p, ev); err != nil {
				return err
			}
		}
		if err := f.c.cfg.Market.Send(ctx, ev); err != nil && i == 0 && p.State == StateRequested && p.SealedEvent == nil {
			return fmt.Errorf("publish request: %w", err)
		}
	}
	if p.State == StateRequested && p.Cancel != nil {
		return f.c.cfg.Store.Close(ctx, f.id, StateCanceled, canceledText(p))
	}
	f.say("buyer", "requested", p.MaxMsats, p.JobHash.String(), p.SchemaID)
	return nil
}

func (f *follower) say(who, what string, msats int64, hash, text string) {
	f.tell(Progress{At: time.Now().UTC(), Who: who, What: what, Msats: msats, Hash: hash, Text: text})
}

// event takes one event of the provider's. Events that do not fit are logged
// and dropped; only a signed quote that cheats ends the purchase.
func (f *follower) event(ctx context.Context, ev nostr.Event) error {
	p, err := f.c.cfg.Store.Purchase(ctx, f.id)
	if err != nil {
		return err
	}
	if f.seen[ev.ID] || ev.PubKey != p.Provider || !ev.Tags.ContainsAny("e", []string{p.RequestID}) {
		return nil
	}
	f.seen[ev.ID] = true
	f.heard = time.Now()
	raw, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	outer := ev.ID
	if ev, err = f.c.reveal(ctx, p, ev); err != nil {
		return f.distrust(ev, err)
	}
	if ev.ID != outer { // a signed event came out of it
		if raw, err = json.Marshal(ev); err != nil {
			return err
		}
	}
	f.signed = raw
	switch ev.Kind {
	case kindFeedback:
		return f.feedback(ctx, p, ev)
	case f.c.cfg.Kinds.Request + 1000:
		return f.result(ctx, p, ev)
	case f.c.cfg.Kinds.Receipt:
		if isFeeReceipt(ev) {
			return f.feeReceipt(ctx, p, ev)
		}
		if p.Output == nil {
			f.late = append(f.late[:min(len(f.late), 4)], ev)
			return nil
		}
		return f.receipt(ctx, p, ev)
	}
	return nil
}

func (f *follower) feedback(ctx context.Context, p Purchase, ev nostr.Event) error {
	status := ev.Tags.Find("status")
	if status == nil {
		return nil
	}
	info := ""
	if len(status) > 2 {
		info = clean(status[2])
	}
	if status[1] != "partial" && f.keeps(f.signed) {
		if err := f.c.cfg.Store.AddFeedback(ctx, f.id, ev.ID, f.signed, ev.CreatedAt.Time()); err != nil {
			return err
		}
	}
	switch status[1] {
	case "payment-required", "payment_required": // the latter is NDK's
		return f.paymentRequired(ctx, p, ev)
	case "processing":
		if err := f.freeQuote(p, ev); err != nil {
			return f.distrust(ev, err)
		}
		f.say("provider", "processing", 0, "", progressText(info, ev.Content))
	case "partial":
		f.partial(ev)
	case "refund":
		f.say("provider", "refund", 0, "", info)
	case "success":
		f.say("provider", "success", 0, "", "")
		f.ended = f.ended || !namesMore(ev, p.RequestID)
	case "error":
		f.say("provider", "error", 0, "", info)
		return f.refused(ctx, p, info)
	}
	return nil
}

// freeQuote takes the quote of a job that nobody pays for, which comes with the
// first word about it.
func (f *follower) freeQuote(p Purchase, ev nostr.Event) error {
	if p.Attempt != nil || !isQuote(ev.Content) {
		return nil
	}
	o, err := f.c.checkQuote(p, ev.Content)
	if err != nil {
		return err
	}
	if o.quote.Mode == receipts.ModeFree {
		f.free = &o
	}
	return nil
}

// Bounds of the feedback that is kept of one purchase.
const (
	feedbackMax   = 64
	feedbackBytes = 16 << 10
)

// keeps bounds what a talkative provider can make us store.
func (f *follower) keeps(raw []byte) bool {
	f.kept++
	return f.kept <= feedbackMax && len(raw) <= feedbackBytes
}

func (f *follower) partial(ev nostr.Event) {
	var part struct {
		Bytes int64  `json:"bytes"`
		Text  string `json:"text"`
	}
	if json.Unmarshal([]byte(ev.Content), &part) != nil {
		part.Text = ev.Content // any words, from other programs
	}
	if part.Text != "" {
		f.say("provider", "partial", 0, "", clean(part.Text))
		return
	}
	// The output itself is for sale: only how much there is of it is told.
	f.outputBytes += max(part.Bytes, 0)
	if time.Since(f.toldBytes) >= time.Second {
		f.toldBytes = time.Now()
		f.say("provider", "working", 0, "", fmt.Sprintf("%d bytes of output so far", f.outputBytes))
	}
}

// refused ends a purchase that the provider gave up, if no money of ours is on
// the way. With a held payment the end is what the wallet says.
func (f *follower) refused(ctx context.Context, p Purchase, info string) error {
	f.lastWord = info
	switch p.State {
	case StateRequested:
		return f.c.cfg.Store.Close(ctx, f.id, StateFailed, info)
	case StatePaying:
		if f.back != nil {
			return f.cameBack(ctx)
		}
	case StatePaid:
		if p.Output == nil {
			return f.c.cfg.Store.Close(ctx, f.id, StateFailed, "paid, no result: "+info)
		}
	}
	return nil
}

// paymentRequired checks the offer, approves it within the budget, and pays.
// Everything that a restart needs is durable before the first message to the
// wallet (B1).
func (f *follower) paymentRequired(ctx context.Context, p Purchase, ev nostr.Event) error {
	if p.State == StatePaying && p.Attempt == nil && !isEngagement(ev.Content) {
		f.afterFee = &ev
	}
	if p.State != StateRequested {
		return nil
	}
	if p.Cancel != nil {
		err := f.c.cfg.Store.Close(ctx, f.id, StateCanceled, canceledText(p))
		if errors.Is(err, ErrConflict) {
			return nil // Cancel has closed it meanwhile
		}
		return err
	}
	if f.c.cfg.Wallet == nil {
		return f.c.cfg.Store.Close(ctx, f.id, StateFailed, "payment required, and no wallet is configured")
	}
	if p.Outside && !isQuote(ev.Content) {
		return f.payBare(ctx, p, ev)
	}
	if isEngagement(ev.Content) {
		return f.engagement(ctx, p, ev)
	}
	o, err := f.c.checkOffer(p, ev, f.network)
	if err != nil {
		f.say("buyer", "refused", 0, "", err.Error())
		return f.c.cfg.Store.Close(ctx, f.id, StateFailed, err.Error())
	}
	sealed := o.quote.Delivery == receipts.DeliverySealed
	if o.quote.Mode == receipts.ModePostpay && (p.Output == nil && !sealed || p.SealedEvent == nil && sealed) {
		f.postpay = &ev // looked at again when the result is here
		return nil
	}
	if o.quote.Mode == receipts.ModePostpay {
		if sealed {
			err = receipts.CheckSealedEvent(p.SealedEvent, p.Provider, p.RequestID, o.hash)
		} else if err = checkWorth(p); err == nil && !p.Bound() {
			err = &MismatchError{"result", "its event names no job_hash or no output_hash"}
		}
		if err != nil {
			f.say("buyer", "refused", 0, "", clean(err.Error()))
			return f.c.cfg.Store.Close(ctx, f.id, StateFailed, "not paid: "+clean(err.Error()))
		}
	}
	if err := f.keepOffer(ctx, ev); err != nil {
		f.say("buyer", "refused", 0, "", err.Error())
		return f.c.cfg.Store.Close(ctx, f.id, StateFailed, err.Error())
	}
	f.say("provider", "quoted", o.quote.PriceMsats, o.hash.String(), string(o.quote.Mode)+creditText(ev))
	if f.seated {
		return f.takeSeat(ctx, p, o)
	}
	award, err := f.c.award(ctx, p, o)
	if notApproved(err) {
		f.say("buyer", "refused", 0, "", err.Error())
		return f.c.cfg.Store.Close(ctx, f.id, StateFailed, err.Error())
	}
	if err != nil {
		return err
	}
	return f.reserveAndPay(ctx, p, award)
}

// keepOffer stores the offer that is about to be paid, whatever else was said
// before: a dispute needs it.
func (f *follower) keepOffer(ctx context.Context, ev nostr.Event) error {
	offer, err := ev.MarshalJSON()
	if err != nil {
		return err
	}
	if len(offer) > feedbackBytes {
		return fmt.Errorf("not paid: the offer has %d bytes, the limit is %d", len(offer), feedbackBytes)
	}
	return f.c.cfg.Store.AddFeedback(ctx, f.id, ev.ID, offer, ev.CreatedAt.Time())
}

// reserveAndPay makes an award durable and begins its payment.
func (f *follower) reserveAndPay(ctx context.Context, p Purchase, award Award) error {
	err := f.c.cfg.Store.Reserve(ctx, f.id, award.Attempt, award.Quote, award.BOLT11, award.Acceptance, f.c.cfg.Limits)
	var over *BudgetError
	switch {
	case errors.As(err, &over), errors.Is(err, ErrSecondPayment):
		f.say("buyer", "refused", 0, "", err.Error())
		return f.c.cfg.Store.Close(ctx, f.id, StateFailed, err.Error())
	case err != nil:
		return fmt.Errorf("reserve budget: %w", err)
	}
	if err = f.c.sendAcceptance(ctx, p, award); err != nil {
		f.c.log.Warn("acceptance not published yet", "request", f.id, "err", err)
	} else {
		f.say("buyer", "accepted", award.Attempt.AmountMsats, hashing.Bytes(award.Quote).String(), approvedBy(award.rule))
	}
	if p, err = f.c.cfg.Store.Purchase(ctx, f.id); err != nil {
		return err
	}
	f.pay(ctx, p)
	return nil
}

// result keeps a result that is what it says it is, with its blobs.
func (f *follower) result(ctx context.Context, p Purchase, ev nostr.Event) error {
	if p.Output != nil {
		return nil
	}
	switch commitment, err := commitmentOf(ev); {
	case err != nil:
		return f.distrust(ev, err)
	case commitment != nil:
		return f.sealedResult(ctx, p, ev)
	case promised(p) == receipts.DeliverySealed || p.SealedEvent != nil:
		return f.distrust(ev, &MismatchError{"result", "it is not sealed, as the quote promised"})
	}
	d, err := f.c.checkResult(p, ev)
	if t := ev.Tags.Find("quote_hash"); err == nil && f.free != nil && (t == nil || t[1] != f.free.hash.String()) {
		err = &MismatchError{"result", "quote_hash differs"}
	}
	if err != nil {
		return f.distrust(ev, err)
	}
	fetching, cancel := context.WithTimeout(ctx, f.c.cfg.ReceiptTimeout)
	defer cancel()
	contents, output, err := f.fetch(fetching, d)
	if err != nil {
		return f.unfetched(ctx, ev, err)
	}
	res, err := checkOutput(p, signedHash(p, ev), output)
	if err == nil {
		err = checkArtifacts(res, d.blobs)
	}
	if err != nil && p.Outside && p.Quote == nil {
		return f.outsideResult(ctx, p, ev, output)
	}
	if err != nil {
		return f.distrust(ev, err)
	}
	f.early = !f.paidAt.IsZero() && time.Since(f.paidAt) > settleGrace && p.Attempt != nil
	f.say("provider", "result", 0, res.OutputHash.String(), sizes(res.Canonical, len(d.blobs)))
	return errors.Join(f.believe(ctx, f.signed, res.Canonical, contents), f.payAfterwards(ctx, ev))
}

func sizes(output []byte, blobs int) string {
	return fmt.Sprintf("%d bytes, %d blobs", len(output), blobs)
}

// believe stores a result that was checked, and goes on with what waited for it.
func (f *follower) believe(ctx context.Context, event, output []byte, contents [][]byte) error {
	contents = append(contents, output)
	err := f.c.cfg.Store.SetResult(ctx, f.id, event, output, contents, f.early)
	if err != nil {
		return fmt.Errorf("store result: %w", err)
	}
	p, err := f.c.cfg.Store.Purchase(ctx, f.id)
	if err != nil {
		return err
	}
	if f.postpay != nil && p.Attempt == nil {
		return f.paymentRequired(ctx, p, *f.postpay)
	}
	for _, late := range slices.Clone(f.late) {
		if err := f.receipt(ctx, p, late); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) distrust(ev nostr.Event, err error) error {
	f.c.log.Warn("event not believed", "request", f.id, "event", ev.ID, "err", err)
	f.say("buyer", "refused", 0, ev.ID, err.Error())
	return nil
}

// unfetched goes on without a result whose parts are nowhere: it must not stand
// in the way of another, nor of the end. It is tried again when the purchase is
// resumed.
func (f *follower) unfetched(ctx context.Context, ev nostr.Event, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return f.distrust(ev, fmt.Errorf("what it refers to cannot be fetched: %w", err))
}

// fetch gets the blobs. The provider may still be uploading them, so a missing
// one is asked for again for a while.
func (f *follower) fetch(ctx context.Context, d delivered) (contents [][]byte, output []byte, err error) {
	output = d.output
	for _, b := range d.blobs {
		data, err := f.fetchOne(ctx, b, d.key)
		if err != nil {
			return nil, nil, fmt.Errorf("%s %s: %w", b.role, b.digest, err)
		}
		if b.role == "result" {
			output = data
			continue
		}
		contents = append(contents, data)
	}
	return contents, output, nil
}

func (f *follower) fetchOne(ctx context.Context, b blobRef, key *receipts.SealKey) ([]byte, error) {
	if b.box != nil {
		if key == nil {
			return nil, &MismatchError{"result", "it is in a box, and no key came with it"}
		}
		box, err := f.fetchOne(ctx, blobRef{role: b.role, digest: *b.box, size: b.size + receipts.BoxOverhead, urls: b.urls}, nil)
		if err != nil {
			return nil, err
		}
		data, err := key.Open(b.number, box)
		if err == nil && hashing.Bytes(data) != b.digest {
			err = errors.New("the box holds something else")
		}
		return data, err
	}

	const tries = 12
	for i, pause := 0, 100*time.Millisecond; ; i, pause = i+1, min(2*pause, 5*time.Second) {
		data, err := f.c.cfg.Market.Fetch(ctx, b.urls, b.digest, b.size)
		if err == nil {
			if hashing.Bytes(data) == b.digest {
				return data, nil
			}
			err = errors.New("it has another hash")
		}
		if i == tries {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// silence is called when AnswerTimeout passed once more. It ends a purchase
// that nobody answers, or answers no more, before any money moved, and stops
// waiting for a provider that has the money and sends nothing more.
func (f *follower) silence(ctx context.Context) error {
	p, err := f.c.cfg.Store.Purchase(ctx, f.id)
	if err != nil {
		return err
	}
	quiet, here := time.Since(f.heard), p.Output != nil || p.SealedEvent != nil
	switch {
	case p.State == StateRequested && f.heard.IsZero():
		return f.giveUp(ctx, "the provider did not answer in %v", f.c.cfg.AnswerTimeout)
	case p.State == StateRequested && !here && quiet > f.c.cfg.AnswerTimeout+runLimit(p):
		return f.giveUp(ctx, "the provider began and was not heard of again for %v", quiet.Round(time.Second))
	case p.State == StateRequested && here && quiet > f.c.cfg.ReceiptTimeout && !p.Outside:
		return ErrUnasked
	case p.State == StatePaying && quiet > f.c.cfg.ReceiptTimeout:
		// Only the wallet can end this: a wallet that takes the payment for in
		// flight may be right.
		due, _ := p.due()
		f.say("wallet", "in_flight", due.AmountMsats, due.PaymentHash.String(), f.stillPaying(ctx, due.PaymentHash))
	case p.Outside && here && quiet > f.c.cfg.ReceiptTimeout:
		f.ended = true // it has had its time
	case p.State == StatePaid && time.Since(f.paidAt) > f.c.cfg.ReceiptTimeout:
		return ErrIncomplete
	}
	return nil
}

func (f *follower) giveUp(ctx context.Context, format string, after time.Duration) error {
	if err := f.c.Cancel(ctx, f.id); err != nil {
		return err
	}
	return fmt.Errorf("%w: "+format, ErrFailed, after)
}
