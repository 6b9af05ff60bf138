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

// crashing is a store whose user dies once it has reserved a payment.
type crashing struct {
	buyer.Store
	die *context.CancelFunc
}

func (s crashing) Reserve(ctx context.Context, id string, a buyer.Attempt, quote []byte, bolt11 string, acceptance []byte, l buyer.Limits) error {
	err := s.Store.Reserve(ctx, id, a, quote, bolt11, acceptance, l)
	(*s.die)()
	return errors.Join(err, context.Canceled)
}

// later is the market and the wallet of the life after. Its relays answer once the
// wallet was asked, or never.
type later struct {
	*cheat
	t        *testing.T
	looked   chan struct{}
	accepted atomic.Bool
	away     bool
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
	var cfg buyer.Config
	var die context.CancelFunc
	c, p, err := playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
		die = c.stop
		return []nostr.Event{c.offer(req, func(*deal) {})}
	}, nil, nil, func(made *buyer.Config) {
		cfg = *made
		made.Store = crashing{made.Store, &die}
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
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	p, err = client.Follow(ctx, p.RequestID, func(pr buyer.Progress) {
		if pr.What == "paid" {
			stop()
		}
	})
	return l, p, err
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
