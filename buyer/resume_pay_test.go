package buyer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/payments"
)

// crashing is a store whose user dies after a step.
type crashing struct {
	buyer.Store
	at  string
	die *context.CancelFunc
}

func (s crashing) done(step string, err error) error {
	if step != s.at {
		return err
	}
	(*s.die)()
	return errors.Join(err, context.Canceled)
}

func (s crashing) Reserve(ctx context.Context, id string, c buyer.Charge, l buyer.Limits) error {
	return s.done("Reserve", s.Store.Reserve(ctx, id, c, l))
}

func (s crashing) SetSent(ctx context.Context, id string, hash payments.Hash) error {
	return s.done("SetSent", s.Store.SetSent(ctx, id, hash))
}

// later is the market and the wallet of the life after. Its relays answer once the
// wallet was asked, or never.
type later struct {
	*cheat
	t        *testing.T
	looked   chan struct{}
	accepted atomic.Bool
	away     bool
	ends     *payments.Payment // how a payment that was begun ends; nil: as the cheat says
}

func (l *later) TrackPayment(ctx context.Context, h payments.Hash) (payments.Payment, error) {
	if l.ends != nil {
		return *l.ends, nil
	}
	return l.cheat.TrackPayment(ctx, h)
}

func (l *later) Listen(ctx context.Context, _ nostr.Filters, ready func(), _ func(nostr.Event)) error {
	if !l.away {
		select {
		case <-l.looked:
			ready()
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (l *later) Send(_ context.Context, ev nostr.Event) error {
	if ev.Kind == 7001 {
		l.accepted.Store(true)
	}
	return nil
}

func (l *later) LookupPayment(ctx context.Context, h payments.Hash) (payments.Payment, error) {
	select {
	case l.looked <- struct{}{}:
	default:
	}
	return l.cheat.LookupPayment(ctx, h)
}

func (l *later) SendPayment(ctx context.Context, p payments.Pay) error {
	if !l.accepted.Load() {
		l.t.Error("it was paid before the acceptance was published")
	}
	return l.cheat.SendPayment(ctx, p)
}

// goesOn lets a buyer die between the reservation and the payment, and go on until
// it is paid.
func goesOn(t *testing.T, change func(*later)) (*later, buyer.Purchase, error) {
	t.Helper()
	l, client, p := diesAt(t, "Reserve", change)
	p, err := followed(t, client, p)
	return l, p, err
}

// followed goes on with a purchase until it is paid, or ends.
func followed(t *testing.T, client *buyer.Client, p buyer.Purchase) (buyer.Purchase, error) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	return client.Follow(ctx, p.RequestID, func(pr buyer.Progress) {
		if pr.What == "paid" {
			stop()
		}
	})
}

// diesAt lets a buyer die after a step of its store, before its wallet is told to pay,
// and returns its next life.
func diesAt(t *testing.T, step string, change func(*later)) (*later, *buyer.Client, buyer.Purchase) {
	t.Helper()
	var cfg buyer.Config
	var die context.CancelFunc
	c, p, err := playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
		die = c.stop
		return []nostr.Event{c.offer(req, func(*deal) {})}
	}, nil, nil, func(made *buyer.Config) {
		cfg = *made
		made.Store = crashing{made.Store, step, &die}
	})
	if err == nil || p.State != buyer.StatePaying || len(c.sent) != 0 {
		t.Fatalf("purchase %s, sent %d, %v", p.State, len(c.sent), err)
	}
	c.pays = true
	l := &later{cheat: c, t: t, looked: make(chan struct{}, 1)}
	change(l)
	cfg.Market, cfg.Wallet = l, l
	client, err := buyer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l, client, p
}

// TestAcceptedBeforePaid: a provider that is paid issues its receipt, and waits
// only a moment for the acceptance: who goes on after a crash publishes it first.
func TestAcceptedBeforePaid(t *testing.T) {
	l, p, err := goesOn(t, func(*later) {})
	if !errors.Is(err, context.Canceled) || p.State != buyer.StatePaid || len(l.sent) != 1 {
		t.Errorf("purchase %s (%s), sent %d, %v", p.State, p.Reason, len(l.sent), err)
	}
}

// TestPaidWithoutRelays: what became of a payment that was begun is asked for,
// relays or not.
func TestPaidWithoutRelays(t *testing.T) {
	l, p, err := goesOn(t, func(l *later) {
		l.away = true
		l.looks = func() (payments.Payment, error) {
			return payments.Payment{Hash: secret.Hash(), State: payments.PaymentSucceeded, AmountMsats: price, Preimage: secret}, nil
		}
	})
	if !errors.Is(err, context.Canceled) && !errors.Is(err, buyer.ErrNoRelay) || p.State != buyer.StatePaid || len(l.sent) != 0 {
		t.Errorf("purchase %s (%s), sent %d, %v", p.State, p.Reason, len(l.sent), err)
	}
}

// TestWalletThatForgets: a wallet was told to pay, and its buyer died before it heard
// more. Where the wallet then knows no such payment, as one that was restored from its
// seed does, the same invoice is offered once more; and since the first payment may have
// gone through, a refusal ends nothing and sets no budget free.
func TestWalletThatForgets(t *testing.T) {
	for name, tt := range map[string]struct {
		wallet func(*later)
		state  buyer.State
		err    error
		told   int
	}{
		"it takes the invoice":   {func(*later) {}, buyer.StatePaid, context.Canceled, 1},
		"it refuses the invoice": {func(l *later) { l.pays = false }, buyer.StatePaying, buyer.ErrPaymentForgotten, 1},
		"it takes the invoice, and fails": {func(l *later) {
			l.pays, l.stuck = false, true
			l.ends = &payments.Payment{Hash: secret.Hash(), State: payments.PaymentFailed, AmountMsats: price, FailureReason: "refused by the payee"}
		}, buyer.StatePaying, buyer.ErrPaymentForgotten, 1},
		"it knows that it failed": {func(l *later) {
			l.looks = func() (payments.Payment, error) {
				return payments.Payment{Hash: secret.Hash(), State: payments.PaymentFailed, AmountMsats: price, FailureReason: "no route"}, nil
			}
		}, buyer.StateFailed, buyer.ErrFailed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l, client, p := diesAt(t, "SetSent", tt.wallet)
			p, err := followed(t, client, p)
			if !errors.Is(err, tt.err) || p.State != tt.state || len(l.sent) != tt.told {
				t.Fatalf("purchase %s (%s), %v; the wallet was told to pay %d times", p.State, p.Reason, err, len(l.sent))
			}

			budget, err := l.store.BudgetOf(t.Context(), p.Attempt.ReservedAt)
			if err != nil {
				t.Fatal(err)
			}
			reserved := p.Attempt.AmountMsats + p.Attempt.FeeLimitMsats
			if tt.state != buyer.StatePaying {
				reserved = 0
			}
			if budget.ReservedMsats != reserved {
				t.Errorf("%d msats are reserved, want %d", budget.ReservedMsats, reserved)
			}
			if tt.state == buyer.StatePaying {
				givesUp(t, l, client, p)
			}
		})
	}
}

// givesUp ends the waiting for a payment that the wallet has forgotten: the wallet is
// not told to pay again, and what may be spent stays reserved.
func givesUp(t *testing.T, l *later, client *buyer.Client, p buyer.Purchase) {
	t.Helper()
	told := len(l.sent)
	if l.ends != nil { // so it answers from now on
		l.looks = func() (payments.Payment, error) { return *l.ends, nil }
	}
	if err := client.GiveUp(t.Context(), p.RequestID); err != nil {
		t.Fatal(err)
	}

	p, err := followed(t, client, p)
	if !errors.Is(err, buyer.ErrPaymentForgotten) || !p.GivenUp() || len(l.sent) != told {
		t.Errorf("given up and resumed: %s (%s), %v; the wallet was told to pay %d times more", p.State, p.Reason, err, len(l.sent)-told)
	}
	budget, err := l.store.BudgetOf(t.Context(), p.Attempt.ReservedAt)
	if err != nil || budget.ReservedMsats != p.GivenUpMsats() || p.GivenUpMsats() == 0 {
		t.Errorf("budget %+v, %v; %d msats were given up", budget, err, p.GivenUpMsats())
	}
}

// TestCanceledBeforeItWasSent: a payment that was reserved, and of which no wallet was
// told before its purchase was canceled, is not made any more. One that a wallet was
// told of is seen through.
func TestCanceledBeforeItWasSent(t *testing.T) {
	for step, want := range map[string]struct {
		state buyer.State
		err   error
		told  int
	}{
		"Reserve": {buyer.StateCanceled, buyer.ErrFailed, 0},
		"SetSent": {buyer.StatePaid, context.Canceled, 1},
	} {
		t.Run(step, func(t *testing.T) {
			l, client, p := diesAt(t, step, func(*later) {})
			check(t, client.Cancel(t.Context(), p.RequestID))
			p, err := followed(t, client, p)
			if !errors.Is(err, want.err) || p.State != want.state || len(l.sent) != want.told {
				t.Errorf("purchase %s (%s), %v; the wallet was told to pay %d times", p.State, p.Reason, err, len(l.sent))
			}
			budget, err := l.store.BudgetOf(t.Context(), p.Attempt.ReservedAt)
			if err != nil || budget.ReservedMsats != 0 {
				t.Errorf("budget %+v, %v", budget, err)
			}
		})
	}
}
