// Package flow follows one purchase from wherever it stands to its end. It is the only
// place that knows the order of the stages: what is asked, checked, paid, taken and told
// when, by the state of the purchase.
package flow

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer/internal/author"
	"github.com/lightwork-market/lightwork/buyer/internal/offer"
	"github.com/lightwork-market/lightwork/buyer/internal/pay"
	"github.com/lightwork-market/lightwork/buyer/internal/profile"
	"github.com/lightwork-market/lightwork/buyer/internal/proof"
	"github.com/lightwork-market/lightwork/buyer/internal/refund"
	"github.com/lightwork-market/lightwork/buyer/internal/result"
	"github.com/lightwork-market/lightwork/buyer/internal/trees"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/payments"
)

// Errors with which a purchase is still open, and how one ends badly.
var (
	// ErrIncomplete: the payment succeeded, the result or the receipt has not come.
	ErrIncomplete = errors.New("paid, but the result or the receipt has not arrived")
	// ErrNoRelay: no relay served our subscription.
	ErrNoRelay = errors.New("no relay answered")
	// ErrUnasked: the result is here, and the provider has not asked to be paid for it.
	ErrUnasked = errors.New("the result is here, but the provider has not asked for its payment")
	// ErrFailed: the purchase ended without what was bought; its Reason says why.
	ErrFailed = errors.New("the purchase failed")

	errNoWallet = errors.New("a payment is under way, and no wallet is configured to ask for it")
	// errOffered ends a follower whose purchase could be paid now.
	errOffered = errors.New("the offer waits for a decision")
)

const (
	// settleGrace is how long after our payment settled a result may arrive and
	// still count as delivered first: events and HTLCs travel on different roads.
	settleGrace = 10 * time.Second
	// serveMost is how long a provider that talks may take for a job that nothing was
	// paid for, beside the job's own limit: more than it has by the protocol.
	serveMost = 15 * time.Minute
	// relayPatience is how long a relay may take to serve our subscription.
	relayPatience = 30 * time.Second
	// wordGrace is how long the provider's reason may take to arrive after a
	// payment came back: the two travel on different roads.
	wordGrace = 2 * time.Second
	// courtesyTime is how long the end of a purchase waits for relays that do not answer.
	courtesyTime = 2 * time.Second
)

// Store keeps where purchases stand. Every method that changes anything is one durable
// transaction.
type Store interface {
	Purchase(ctx context.Context, requestID string) (purchase.Purchase, error)
	// AddFeedback keeps a 7000 event; a known id is fine.
	AddFeedback(ctx context.Context, requestID, eventID string, event []byte, at time.Time) error
	// Close moves to done, failed or canceled. A purchase with an unresolved
	// reservation cannot be closed: [purchase.ErrConflict].
	Close(ctx context.Context, requestID string, to purchase.State, reason string) error
	// CloseUnpaid is Close for a purchase whose result nobody pays for:
	// [purchase.ErrConflict] once its payment was begun.
	CloseUnpaid(ctx context.Context, requestID string, to purchase.State, reason string) error
	// SetCancel keeps our signed cancellation request.
	SetCancel(ctx context.Context, requestID string, event []byte) error
	// GiveUp takes a purchase that is paying off the open ones, with the reason;
	// all else of it stays, the reservation too.
	GiveUp(ctx context.Context, requestID, reason string) error
}

// Market is the relays, and the blob servers beside them.
type Market interface {
	result.Blobs
	// Listen hands every verified event that matches to handle until ctx ends;
	// ready is called whenever a relay has begun to serve the subscription.
	Listen(ctx context.Context, filters nostr.Filters, ready func(), handle func(nostr.Event)) error
	// Send offers the event to all relays; nil if at least one took it.
	Send(ctx context.Context, ev nostr.Event) error
}

// Others are who could be asked in the place of a provider that does not serve an order.
type Others interface {
	// Left is how many are known; -1 before they were looked for.
	Left() int
	// Look finds out who there are, for so long. What it found counts once keep is
	// called.
	Look(ctx context.Context, wait time.Duration) (keep func(), err error)
	// Aside does what the next provider need not wait for.
	Aside(do func(ctx context.Context))
}

// Flow has the stages that every purchase goes through.
type Flow struct {
	Store   Store
	Market  Market
	Author  *author.Author
	Offers  *offer.Desk
	Payer   *pay.Payer
	Results result.Store
	Proofs  proof.Store
	Refunds *refund.Desk
	Trees   *trees.Trees // nil: no purchase has one
	Log     *slog.Logger
	// AnswerTimeout is how long a provider may be silent after a request.
	AnswerTimeout time.Duration
	// AskTimeout is the same while others could be asked.
	AskTimeout time.Duration
	// ReceiptTimeout is how long a receipt may take once result and payment are there.
	ReceiptTimeout time.Duration
}

// Follower follows one purchase. Everything in it belongs to its one goroutine; other
// goroutines reach it through the channels.
type Follower struct {
	*Flow
	// Others are set for a request of an order that names no provider: while it is not
	// served, others are looked for, and one of them is asked in its place.
	Others Others
	// Undecided: others decide whether the result is paid, so the purchase goes as far
	// as an offer that could be paid, and no further.
	Undecided bool
	// ReadsFirst: its result is read before it is paid for, so the fee for the attempt
	// is paid before that.
	ReadsFirst bool

	id      string
	tell    func(purchase.Progress)
	terms   *purchase.Terms
	profile profile.Profile // that the provider may speak
	network payments.Network
	results *result.Desk
	judge   *proof.Judge

	g      *errgroup.Group
	events chan nostr.Event
	told   chan struct{}         // closed once what is ours to publish was offered to the relays
	paid   chan payments.Payment // from the payment's own goroutine
	halted chan error            // from there: why the owner keeps it back
	found  chan func()           // keeps the others that were found; cap 1
	sent   chan upload           // from the goroutine that sends the purchase's tree

	heard   hearing
	askedAt time.Time
	offered *offer.Offer // that could be paid, of an undecided purchase
	free    *offer.Offer // what a free job's result must be bound to
	// Demands that came too soon: before the result, and before our wallet knew that
	// the fee for the attempt is paid.
	postpay, afterFee *nostr.Event

	sending bool // the tree's goroutine runs

	paidAt   time.Time // when we learned of the payment
	early    bool      // money moved well before the result in boxes came
	back     *payments.Payment
	backLong <-chan time.Time // the provider's reason for a payment that came back may come until then
}

// upload is news of the chunks that are sent.
type upload struct {
	chunks, of   int64
	bytes, total int64
	over         bool
	err          error // with over
}

// Follower makes one for a purchase. tell may be nil.
func (f *Flow) Follower(requestID string, tell func(purchase.Progress)) *Follower {
	if tell == nil {
		tell = func(purchase.Progress) {}
	}
	return &Follower{
		Flow: f, id: requestID, tell: tell, heard: hearing{seen: map[string]bool{}},
		events: make(chan nostr.Event, 256), told: make(chan struct{}), paid: make(chan payments.Payment, 1), halted: make(chan error, 1), found: make(chan func(), 1), sent: make(chan upload),
	}
}

// view reads the purchase as it stands now.
func (f *Follower) view(ctx context.Context) (purchase.View, error) {
	p, err := f.Store.Purchase(ctx, f.id)
	return purchase.View{Purchase: p, Terms: f.terms}, err
}

func (f *Follower) say(who, what string, msats int64, hash, text string) {
	f.tell(purchase.Progress{At: time.Now().UTC(), Who: who, What: what, Msats: msats, Hash: hash, Text: text})
}

func (f *Follower) reject(ev nostr.Event, err error) error {
	f.Log.Warn("event rejected", "request", f.id, "event", ev.ID, "err", err)
	f.say("buyer", "refused", 0, ev.ID, err.Error())
	return nil
}

// isHere reports whether the result has come, perhaps in boxes.
func isHere(p purchase.View) bool { return p.Output != nil || p.SealedEvent != nil }

// late reports whether the provider has had all the time that the job may take.
func (f *Follower) late() bool {
	return !f.heard.began.IsZero() && time.Since(f.heard.began) > serveMost+f.terms.RunLimit
}

// takesAsDone notes that a provider which signs no receipt is done, where its result is
// here and it has had its time.
func (f *Follower) takesAsDone(p purchase.View) bool {
	if f.profile.EndsSilent() && isHere(p) && (f.late() || f.heard.quiet() > f.ReceiptTimeout) {
		f.heard.ended = true
		return true
	}
	return false
}
