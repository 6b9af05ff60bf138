package provider_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// sale is one way to sell a job.
type sale struct {
	mode     receipts.Mode
	delivery receipts.Delivery
	fee      bool // for an attempt, paid first
}

func (s sale) String() string {
	text := fmt.Sprintf("%s %s", s.mode, s.delivery)
	if s.fee {
		text += " with a fee"
	}
	return text
}

var sales = []sale{
	{receipts.ModeHold, receipts.DeliveryPlain, false},
	{receipts.ModeHold, receipts.DeliverySealed, false},
	{receipts.ModeHold, receipts.DeliverySealed, true},
	{receipts.ModePrepay, receipts.DeliveryPlain, false},
	{receipts.ModePrepay, receipts.DeliveryPlain, true},
	{receipts.ModePostpay, receipts.DeliveryPlain, false},
	{receipts.ModePostpay, receipts.DeliverySealed, false},
	{receipts.ModePostpay, receipts.DeliverySealed, true},
	{receipts.ModeFree, receipts.DeliveryPlain, false},
}

// Which sales a plight can meet.
func every(sale) bool        { return true }
func paysFirst(s sale) bool  { return s.mode == receipts.ModeHold || s.mode == receipts.ModePrepay }
func paysLater(s sale) bool  { return !paysFirst(s) }
func hasInvoice(s sale) bool { return s.mode != receipts.ModeFree }
func isAsked(s sale) bool    { return paysFirst(s) || s.fee } // for money, before a run
func isPrepay(s sale) bool   { return s.mode == receipts.ModePrepay }
func isHold(s sale) bool     { return s.mode == receipts.ModeHold }
func isPostpay(s sale) bool  { return s.mode == receipts.ModePostpay }
func isBoxed(s sale) bool    { return isPostpay(s) && s.delivery == receipts.DeliverySealed }

// plight is a state in which jobs wait, and what happens to them there.
type plight struct {
	state provider.State
	when  string
	of    func(sale) bool
	// set changes the provider, so that jobs come there; then happens once they have.
	set  func(*markettest.World, *provider.Config)
	then func(*testing.T, *trouble)
	// expires has the requests expire soon.
	expires bool
	end     provider.State
	// feeStays says that the attempt was made, and that the provider did not end it.
	feeStays bool
	// later says that the wallet is asked what came once the job has ended.
	later bool
}

// trouble is a world in which the jobs of a plight are, one for each way to sell.
type trouble struct {
	plight
	*markettest.World
	customer *markettest.Customer
	ids      map[sale]string

	mu   sync.Mutex
	told map[string][]provider.State // the ends of a job that whoever watches was told
}

// event notes the end of a job.
func (tr *trouble) event(e provider.JobEvent) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	switch e := e.(type) {
	case provider.EndEvent:
		tr.told[e.RequestID] = append(tr.told[e.RequestID], e.State)
	case provider.SettlementEvent:
		if e.Purpose == receipts.PurposeResult {
			tr.told[e.RequestID] = append(tr.told[e.RequestID], provider.StateSucceeded)
		}
	}
}

func plights() []plight {
	const (
		canceled = provider.StateCanceled
		expired  = provider.StateExpired
		failed   = provider.StateFailed
		done     = provider.StateSucceeded
	)
	noInvoice := func(err error) func(*markettest.World, *provider.Config) {
		return func(_ *markettest.World, cfg *provider.Config) {
			cfg.Wallet = &badWallet{Wallet: cfg.Wallet, create: err}
		}
	}
	unavailable := noInvoice(errors.New("unavailable"))
	runs := func(do runFunc) func(*markettest.World, *provider.Config) {
		return func(w *markettest.World, _ *provider.Config) { w.Runner.Do = do }
	}
	hangs := runs(markettest.Hang)
	occupied := func(w *markettest.World, cfg *provider.Config) { hangs(w, cfg); cfg.Limits.Concurrent = 1 }
	answers := func(said string) func(*markettest.World, *provider.Config) {
		return func(_ *markettest.World, cfg *provider.Config) {
			cfg.Market = &picky{Market: cfg.Market, answer: func(nostr.Event) string { return said }}
		}
	}
	silent := answers("timeout")
	noRoom := func(_ *markettest.World, cfg *provider.Config) {
		cfg.Market = &brokenBlobs{Market: cfg.Market, broken: true}
	}
	tooLarge := func(_ *markettest.World, cfg *provider.Config) { cfg.Market = fullBlobs{cfg.Market} }
	store := func(bad *badStore) func(*markettest.World, *provider.Config) {
		return func(_ *markettest.World, cfg *provider.Config) { bad.Store = cfg.Store; cfg.Store = bad }
	}
	return []plight{
		{state: provider.StateQuoted, when: "the wallet makes no invoice, and the buyer cancels", of: hasInvoice, set: unavailable, then: cancel, end: canceled},
		{state: provider.StateQuoted, when: "the wallet makes no invoice until the quote is over", of: hasInvoice, set: unavailable, expires: true, end: expired},
		{state: provider.StateQuoted, when: "the wallet makes no invoice, and the node is away", of: hasInvoice, set: unavailable, then: away, end: expired},
		{state: provider.StateQuoted, when: "the wallet may make no invoice", of: hasInvoice, set: noInvoice(payments.ErrUnauthorized), end: failed},
		{state: provider.StateQuoted, when: "the wallet is full", of: hasInvoice, set: noInvoice(payments.ErrAmount), end: failed},
		{state: provider.StateQuoted, when: "nobody pays, and the buyer cancels", of: isAsked, then: cancel, end: canceled},
		{state: provider.StateQuoted, when: "nobody pays until the quote is over", of: isAsked, expires: true, end: expired},
		{state: provider.StateQuoted, when: "nobody pays, and the node is away", of: isAsked, then: away, end: expired},
		{state: provider.StateQuoted, when: "the wallet drops the invoice", of: isAsked, then: dropInvoices, end: expired},

		{state: provider.StateQuoted, when: "the wallet makes the invoice and answers no more", of: isAsked, set: silentAt(provider.StateQuoted), expires: true, end: expired, later: true},
		{state: provider.StateQuoted, when: "the wallet answers no more, and the node is away", of: isAsked, set: silentAt(provider.StateQuoted), then: func(t *testing.T, tr *trouble) {
			tr.invoiced(t)
			away(t, tr)
		}, end: expired, later: true},
		{state: provider.StateQuoted, when: "the wallet answers no more, and the buyer cancels", of: isAsked, set: silentAt(provider.StateQuoted), then: func(t *testing.T, tr *trouble) {
			tr.invoiced(t)
			cancel(t, tr)
			away(t, tr)
		}, end: expired, later: true},
		{state: provider.StateRunning, when: "the agent fails, and the wallet answers no more", of: paysFirst, set: func(w *markettest.World, cfg *provider.Config) {
			w.Failing()
			silentAt(provider.StateRunning)(w, cfg)
		}, then: away, end: failed, later: true},
		{state: provider.StateDelivering, when: "the wallet answers no more", of: func(s sale) bool {
			return hasInvoice(s) && !isPrepay(s) // a result that was paid before asks the wallet nothing more
		}, set: silentAt(provider.StateDelivering), then: away, end: failed, later: true},
		{state: provider.StateDelivering, when: "neither relay nor wallet answers", of: isPrepay, set: func(w *markettest.World, cfg *provider.Config) {
			silent(w, cfg)
			silentAt(provider.StateDelivering)(w, cfg)
		}, then: away, end: failed, later: true},

		{state: provider.StatePaid, when: "no place is free, and the buyer cancels", of: every, set: occupied, then: cancel, end: canceled},
		{state: provider.StatePaid, when: "no place is free, and the node is away", of: every, set: occupied, then: away, end: failed},
		{state: provider.StatePaid, when: "no place is free, and the payment goes back", of: isHold, set: occupied, then: func(t *testing.T, tr *trouble) {
			dropInvoices(t, tr)
			restart(noChange)(t, tr)
		}, end: failed},

		{state: provider.StateRunning, when: "the buyer cancels", of: every, set: hangs, then: cancel, end: canceled, feeStays: true},
		{state: provider.StateRunning, when: "the agent fails", of: every, set: func(w *markettest.World, _ *provider.Config) { w.Failing() }, end: failed},
		{state: provider.StateRunning, when: "the agent is dead", of: every, set: func(w *markettest.World, cfg *provider.Config) {
			cfg.Limits.Runs = 2
			runs(func(context.Context, provider.Run) (provider.Outcome, error) {
				return provider.Outcome{}, &provider.RunError{Reason: provider.Reason{Code: provider.CodeAgentUnavailable}, Retryable: true}
			})(w, cfg)
		}, end: failed},
		{state: provider.StateRunning, when: "the agent makes no result", of: every, set: runs(func(context.Context, provider.Run) (provider.Outcome, error) {
			return provider.Outcome{Output: []byte("garbage")}, nil
		}), end: failed},
		{state: provider.StateRunning, when: "the result fits in no event", of: every, set: func(w *markettest.World, cfg *provider.Config) {
			runs(func(context.Context, provider.Run) (provider.Outcome, error) {
				out, err := w.Runner.Good(nil)
				for i := range 600 {
					out.Artifacts = append(out.Artifacts, []byte(strconv.Itoa(i)))
				}
				return out, err
			})(w, cfg)
		}, end: failed, feeStays: true},
		{state: provider.StateRunning, when: "the result cannot be stored", of: every, set: store(&badStore{finishes: 1 << 30}), end: failed},
		{state: provider.StateRunning, when: "its end cannot be stored for a while", of: every, set: func(w *markettest.World, cfg *provider.Config) {
			w.Failing()
			store(&badStore{closes: 2})(w, cfg)
		}, end: failed},
		{state: provider.StateRunning, when: "no run lasts", of: every, set: func(w *markettest.World, cfg *provider.Config) {
			hangs(w, cfg)
			cfg.Limits.Runs = 1
		}, then: restart(func(cfg *provider.Config) { cfg.Limits.Runs = 1 }), end: failed},
		{state: provider.StateRunning, when: "the node is away", of: every, set: hangs, then: away, end: failed},
		{state: provider.StateRunning, when: "the payment goes back, and the node stops", of: isHold, set: hangs, then: func(t *testing.T, tr *trouble) {
			dropInvoices(t, tr)
			restart(noChange)(t, tr)
		}, end: failed, feeStays: true},

		{state: provider.StateDelivering, when: "the relays refuse the result", of: every, set: answers("blocked: no"), end: failed},
		{state: provider.StateDelivering, when: "the blob servers refuse the result", of: every, set: tooLarge, end: failed},
		{state: provider.StateDelivering, when: "the signer refuses the result", of: every, set: func(w *markettest.World, cfg *provider.Config) {
			_, change := signsElsewhere(w, only(6050, func(context.Context, *nostr.Event) error { return provider.ErrSignerRefuses }))
			change(cfg)
		}, end: failed},
		{state: provider.StateDelivering, when: "no relay answers, and the buyer cancels", of: paysLater, set: silent, then: cancel, end: canceled, feeStays: true},
		{state: provider.StateDelivering, when: "no relay answers, and the node is away", of: every, set: silent, then: away, end: failed},
		{state: provider.StateDelivering, when: "no blob server has room, and the node is away", of: every, set: noRoom, then: away, end: failed},
		{state: provider.StateDelivering, when: "no relay answers, and the payment goes back", of: isHold, set: silent, then: dropInvoices, end: failed, feeStays: true},
		{state: provider.StateDelivering, when: "the wallet is away until the payment is about to lapse", of: isHold, set: func(_ *markettest.World, cfg *provider.Config) {
			cfg.Wallet = &lateWallet{Wallet: cfg.Wallet}
		}, end: failed},
		{state: provider.StateDelivering, when: "nobody pays, and the node is away", of: isPostpay, then: func(t *testing.T, tr *trouble) {
			tr.served(t)
			away(t, tr)
		}, end: failed, feeStays: true},
		{state: provider.StateDelivering, when: "the buyer does not open it", of: isBoxed, then: func(t *testing.T, tr *trouble) {
			tr.served(t)
			cancel(t, tr)
		}, end: failed, feeStays: true},
		{state: provider.StateDelivering, when: "the wallet drops the invoice", of: isPostpay, then: dropInvoices, end: failed, feeStays: true},

		{state: provider.StateQuoted, when: "each call of the wallet fails at first", of: func(s sale) bool { return !isPostpay(s) }, set: func(_ *markettest.World, cfg *provider.Config) {
			cfg.Wallet = &badWallet{Wallet: cfg.Wallet, first: errors.New("unavailable"), asked: map[string]bool{}}
		}, then: func(t *testing.T, tr *trouble) { tr.pay(t) }, end: done, feeStays: true},
	}
}

// badWallet makes no invoices, or fails at the first call of each kind for each
// payment.
type badWallet struct {
	provider.Wallet
	create error

	first error
	mu    sync.Mutex
	asked map[string]bool
}

func (b *badWallet) fails(call string, hash payments.Hash) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first == nil || b.asked[call+hash.String()] {
		return nil
	}
	b.asked[call+hash.String()] = true
	return b.first
}

func (b *badWallet) CreateInvoice(ctx context.Context, in payments.NewInvoice) (payments.Invoice, error) {
	if err := errors.Join(b.create, b.fails("create", in.PaymentHash)); err != nil {
		return payments.Invoice{}, err
	}
	return b.Wallet.CreateInvoice(ctx, in)
}

func (b *badWallet) LookupInvoice(ctx context.Context, hash payments.Hash) (payments.Invoice, error) {
	if err := b.fails("look up", hash); err != nil {
		return payments.Invoice{}, err
	}
	return b.Wallet.LookupInvoice(ctx, hash)
}

func (b *badWallet) SettleInvoice(ctx context.Context, preimage payments.Preimage) error {
	if err := b.fails("settle", preimage.Hash()); err != nil {
		return err
	}
	return b.Wallet.SettleInvoice(ctx, preimage)
}

// silentWallet answers about no invoice of a job that is in the state.
type silentWallet struct {
	provider.Wallet
	store provider.Store
	at    provider.State
}

func silentAt(at provider.State) func(*markettest.World, *provider.Config) {
	return func(w *markettest.World, cfg *provider.Config) {
		cfg.Wallet = &silentWallet{cfg.Wallet, w.Store, at}
		cfg.Limits.Silence = time.Second
	}
}

func (d *silentWallet) hears(ctx context.Context, hash payments.Hash) error {
	if job, err := d.store.JobByPaymentHash(ctx, hash); err != nil || job.State == d.at {
		return errors.Join(errors.New("unavailable"), err)
	}
	return nil
}

func (d *silentWallet) LookupInvoice(ctx context.Context, hash payments.Hash) (payments.Invoice, error) {
	if err := d.hears(ctx, hash); err != nil {
		return payments.Invoice{}, err
	}
	return d.Wallet.LookupInvoice(ctx, hash)
}

func (d *silentWallet) CancelInvoice(ctx context.Context, hash payments.Hash) error {
	if err := d.hears(ctx, hash); err != nil {
		return err
	}
	return d.Wallet.CancelInvoice(ctx, hash)
}

func (d *silentWallet) SettleInvoice(ctx context.Context, preimage payments.Preimage) error {
	if err := d.hears(ctx, preimage.Hash()); err != nil {
		return err
	}
	return d.Wallet.SettleInvoice(ctx, preimage)
}

// lateWallet settles nothing, and after it was told to, all that it holds is about
// to lapse.
type lateWallet struct {
	provider.Wallet
	told atomic.Bool
}

func (l *lateWallet) SettleInvoice(context.Context, payments.Preimage) error {
	l.told.Store(true)
	return errors.New("unavailable")
}

func (l *lateWallet) LookupInvoice(ctx context.Context, hash payments.Hash) (payments.Invoice, error) {
	inv, err := l.Wallet.LookupInvoice(ctx, hash)
	if inv.State == payments.InvoiceHeld && l.told.Load() {
		inv.SettleBy = time.Now()
	}
	return inv, err
}

// fullBlobs is a market whose blob servers refuse every blob for its size.
type fullBlobs struct{ provider.Market }

func (fullBlobs) Upload(context.Context, []byte, string) error {
	return fmt.Errorf("%w: too large", provider.ErrBlobRefused)
}

// badStore fails so often at what it is named for.
type badStore struct {
	provider.Store
	mu               sync.Mutex
	finishes, closes int
}

var errDisk = errors.New("disk")

func (s *badStore) Finish(ctx context.Context, id string, run int, r provider.Result, contents [][]byte, out ...provider.OutEvent) error {
	if s.fails(&s.finishes) {
		return errDisk
	}
	return s.Store.Finish(ctx, id, run, r, contents, out...)
}

func (s *badStore) Close(ctx context.Context, id string, to provider.State, r provider.Reason, c *provider.Credit, out ...provider.OutEvent) error {
	if s.fails(&s.closes) {
		return errDisk
	}
	return s.Store.Close(ctx, id, to, r, c, out...)
}

func (s *badStore) fails(left *int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	*left--
	return *left >= 0
}

// agedStore has jobs whose every date is longer ago than any that a job waits for.
type agedStore struct{ provider.Store }

func (s agedStore) Job(ctx context.Context, id string) (provider.Job, error) {
	job, err := s.Store.Job(ctx, id)
	dates := []*time.Time{&job.AddedAt, &job.ExpiresAt, &job.StateAt, &job.Deadline}
	if job.Engagement != nil {
		fee := *job.Engagement
		job.Engagement = &fee
		dates = append(dates, &fee.ExpiresAt)
	}
	if job.Payment != nil {
		paid := *job.Payment
		job.Payment = &paid
		dates = append(dates, &paid.SettleBy)
	}
	for _, at := range dates {
		if !at.IsZero() {
			*at = at.Add(-25 * time.Hour)
		}
	}
	return job, err
}

// soon is time enough for a busy machine to take a request.
const soon = 10 * time.Second

func noChange(*provider.Config) {}

// restart begins another life of the provider, with what was set and change.
func restart(change func(*provider.Config)) func(*testing.T, *trouble) {
	return func(t *testing.T, tr *trouble) {
		tr.Store.EndLife()
		<-tr.Store.LifeOver()
		tr.begin(t, change)
	}
}

// away is a day in which the node does not run.
func away(t *testing.T, tr *trouble) {
	restart(func(cfg *provider.Config) {
		cfg.Store = agedStore{cfg.Store}
		cfg.Limits.HoldMargin = 130 * time.Minute // the ledger has no day less: all of its hour is margin
	})(t, tr)
}

func cancel(t *testing.T, tr *trouble) {
	for _, id := range tr.ids {
		markettest.Check(t, tr.customer.Market.Send(tr.Ctx, markettest.SignedEvent(t, tr.customer.Key, 5, "", nostr.Tag{"e", id}, nostr.Tag{"k", "5050"})))
	}
}

// served waits until the provider knows that a relay has the results.
func (tr *trouble) served(t *testing.T) {
	for _, id := range tr.ids {
		for took := false; !took; {
			change := tr.Store.Changed()
			job := tr.Job(t, id)
			acks, err := tr.Store.Acks(tr.Ctx, id)
			markettest.Check(t, err)
			if took = slices.ContainsFunc(acks, func(a provider.Ack) bool { return a.OK && a.EventID == job.Result.EventID }); took {
				break
			}
			select {
			case <-change:
			case <-tr.Ctx.Done():
				t.Fatalf("no relay has the result of %s: %v", id, acks)
			}
		}
	}
}

// invoiced waits until the buyers can be asked for money.
func (tr *trouble) invoiced(t *testing.T) (jobs []provider.Job) {
	for s, id := range tr.ids {
		jobs = append(jobs, tr.Until(t, id, func(j provider.Job) bool { return j.BOLT11 != "" || s.fee && j.Engagement.BOLT11 != "" }))
	}
	return jobs
}

// dropInvoices has the wallet cancel what is not paid, or held.
func dropInvoices(t *testing.T, tr *trouble) {
	for _, job := range tr.invoiced(t) {
		hash := job.PaymentHash
		if job.BOLT11 == "" {
			hash = job.Engagement.PaymentHash
		}
		markettest.Check(t, tr.Seller.Wallet.CancelInvoice(tr.Ctx, hash))
	}
}

// TestEveryStateEnds: whatever way a job is sold, and wherever it waits, what goes
// wrong there brings it to its end. The buyer is told, and what it paid for nothing
// is its own again.
func TestEveryStateEnds(t *testing.T) {
	var all []*trouble
	list := plights()
	for _, p := range list { // all begin before one is waited for: they wait side by side
		tr := &trouble{plight: p, World: markettest.NewFor(t, time.Duration(len(list))*markettest.Patience/10), ids: map[sale]string{}, told: map[string][]provider.State{}}
		tr.meet(t)
		all = append(all, tr)
	}
	for _, tr := range all {
		t.Run(fmt.Sprintf("%s, %s", tr.state, tr.when), func(t *testing.T) {
			for _, s := range sales {
				if id, ok := tr.ids[s]; ok {
					t.Run(s.String(), func(t *testing.T) { tr.over(t, id, s) })
				}
			}
			for _, s := range sales {
				if id, ok := tr.ids[s]; ok {
					tr.heardEnd(t, id)
				}
			}
		})
	}
}

func (tr *trouble) begin(t *testing.T, change func(*provider.Config)) {
	t.Helper()
	tr.Serve(t, func(cfg *provider.Config) {
		markettest.Engaging(cfg)
		cfg.Events = tr.event
		l := &cfg.Limits
		l.Concurrent, l.Queue, l.QueuePerBuyer, l.UnpaidPerBuyer, l.HeldPerBuyer = 100, 100, 100, 100, 100
		if tr.expires {
			l.PostpayTTL = soon
		}
		if tr.set != nil {
			tr.set(tr.World, cfg)
		}
		change(cfg)
	})
}

// meet brings jobs to the state, and has happen what happens there.
func (tr *trouble) meet(t *testing.T) {
	t.Helper()
	open := make(chan struct{}) // the agent works once all jobs are taken: what it meets could stop that
	tr.begin(t, noChange)
	do := tr.Runner.Do
	tr.Runner.Do = func(ctx context.Context, run provider.Run) (provider.Outcome, error) {
		select {
		case <-open:
		case <-ctx.Done():
			return provider.Outcome{}, ctx.Err()
		}
		if do == nil {
			return tr.Runner.Good(nil)
		}
		return do(ctx, run)
	}
	tr.customer = tr.World.NewCustomer(t, nil)
	if tr.state == provider.StatePaid { // somebody else has the only place
		ev := tr.Request(t, markettest.NewKey(t), markettest.SandboxInput(""), nostr.Tag{"param", "payment_mode", "free"})
		markettest.Check(t, tr.customer.Market.Send(tr.Ctx, ev))
		tr.Passes(t, ev.ID, provider.StateRunning)
	}
	for _, s := range sales {
		if tr.of(s) {
			tr.ids[s] = tr.buy(t, s)
		}
	}
	for _, id := range tr.ids {
		tr.Passes(t, id, provider.StateQuoted)
	}
	if tr.state != provider.StateQuoted {
		tr.pay(t)
	}
	for s, id := range tr.ids {
		switch {
		case tr.state == provider.StateQuoted:
		case tr.state == provider.StatePaid && !paysFirst(s):
		case tr.state == provider.StatePaid:
			tr.Passes(t, id, provider.StatePaid)
		default:
			tr.Passes(t, id, provider.StateRunning)
		}
	}
	close(open)
	if tr.state == provider.StateDelivering {
		for _, id := range tr.ids {
			tr.Passes(t, id, provider.StateDelivering)
		}
	}
	if tr.then != nil {
		tr.then(t, tr)
	}
}

func (tr *trouble) buy(t *testing.T, s sale) string {
	t.Helper()
	tags := nostr.Tags{{"param", "payment_mode", string(s.mode)}, {"param", "delivery", string(s.delivery)}}
	if tr.expires && (s.mode != receipts.ModePostpay || s.fee) {
		tags = append(tags, nostr.Tag{"expiration", strconv.FormatInt(time.Now().Add(soon).Unix(), 10)})
	}
	more := ""
	if s.fee {
		more = markettest.Expects
	}
	ev := tr.Request(t, tr.customer.Key, markettest.SandboxInput(more), tags...)
	markettest.Check(t, tr.customer.Market.Send(tr.Ctx, ev))
	return ev.ID
}

// pay pays the fees and, where they come first, the prices.
func (tr *trouble) pay(t *testing.T) {
	t.Helper()
	send := func(bolt11 string, msats int64) {
		go func() { // a held payment is under way until it is settled or comes back
			_ = tr.customer.Wallet.SendPayment(tr.Ctx, payments.Pay{BOLT11: bolt11, AmountMsats: msats, FeeLimitMsats: markettest.FeeMsats})
		}()
	}
	for s, id := range tr.ids {
		if s.fee {
			job := tr.Until(t, id, func(j provider.Job) bool { return j.Engagement.BOLT11 != "" })
			send(job.Engagement.BOLT11, markettest.AttemptMsats)
		}
	}
	for s, id := range tr.ids {
		if s.fee {
			tr.Until(t, id, func(j provider.Job) bool { return j.Engagement.Receipt != nil })
		}
		if paysFirst(s) {
			job := tr.Until(t, id, func(j provider.Job) bool { return j.BOLT11 != "" })
			send(job.BOLT11, markettest.RateMsats)
		}
	}
}

// over checks a job's end, and what is left of its money.
func (tr *trouble) over(t *testing.T, id string, s sale) {
	job := tr.Ended(t, id)
	if job.State != tr.end {
		t.Errorf("ended as %s (%s), want %s", job.State, job.Reason, tr.end)
	}
	if s.fee != (job.Engagement != nil) {
		t.Fatalf("it has a fee: %v", job.Engagement != nil)
	}
	for tr.later {
		change := tr.Store.Changed()
		unknown, err := tr.Store.UnknownPayments(tr.Ctx)
		markettest.Check(t, err)
		if !slices.Contains(unknown, id) {
			break
		}
		select {
		case <-change:
		case <-tr.Ctx.Done():
			t.Fatal("its payment stays unknown")
		}
	}
	if got := job.Reason.Code == provider.CodePaymentUnknown; got != tr.later {
		t.Errorf("ended as %s, so its payment is unknown: %v, want %v", job.Reason, got, tr.later)
	}
	kept := tr.came(t, job.BOLT11, job.PaymentHash)
	if s.fee {
		kept += tr.came(t, job.Engagement.BOLT11, job.Engagement.PaymentHash)
	}
	for _, c := range tr.Store.Owed() {
		if c.RequestID == id {
			kept -= c.Msats
		}
	}
	want := int64(0)
	if s.fee && tr.feeStays {
		want = markettest.AttemptMsats
	}
	if tr.end == provider.StateSucceeded && hasInvoice(s) {
		want += markettest.RateMsats
	}
	if kept != want {
		t.Errorf("the provider keeps %d msats, want %d", kept, want)
	}
}

// came is what an invoice brought. None is open when its job has ended.
func (tr *trouble) came(t *testing.T, bolt11 string, hash payments.Hash) int64 {
	t.Helper()
	if bolt11 == "" {
		return 0
	}
	inv, err := tr.Seller.Wallet.LookupInvoice(tr.Ctx, hash)
	markettest.Check(t, err)
	switch inv.State {
	case payments.InvoiceSettled:
		return inv.PaidMsats
	case payments.InvoiceCanceled:
		return 0
	}
	t.Errorf("an invoice is still %s", inv.State)
	return 0
}

// heardEnd checks that the buyer hears of the end.
func (tr *trouble) heardEnd(t *testing.T, id string) {
	t.Helper()
	tr.Hear(t, tr.customer.Market, nostr.Filter{Kinds: []int{7000}, Tags: nostr.TagMap{"e": {id}}}, func(ev nostr.Event) bool {
		status := ev.Tags.Find("status")
		return status != nil && slices.Contains([]string{"error", "success"}, status[1])
	})

	// The buyer is told after whoever watches the provider.
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if got := tr.told[id]; len(got) != 1 || got[0] != tr.end {
		t.Errorf("its events say that it ended %v, want once, %s", got, tr.end)
	}
}
