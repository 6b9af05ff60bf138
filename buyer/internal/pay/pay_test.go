package pay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"

	"github.com/lightwork-market/lightwork/buyer/internal/pay"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

var errDown = errors.New("the wallet is down")

// wallet answers in turn what its fields say; the last answer of each stays.
type wallet struct {
	name    string
	lookups []any // payments.State or error
	send    error
	sent    int
}

func (w *wallet) Node(context.Context) (payments.Node, error) {
	return payments.Node{Network: "play", PubKey: w.name}, nil
}

func (w *wallet) SendPayment(context.Context, payments.Pay) error {
	w.sent++
	return w.send
}

func (w *wallet) LookupPayment(_ context.Context, hash payments.Hash) (payments.Payment, error) {
	answer := w.lookups[0]
	if len(w.lookups) > 1 {
		w.lookups = w.lookups[1:]
	}
	if err, ok := answer.(error); ok {
		return payments.Payment{}, err
	}
	return payments.Payment{Hash: hash, State: answer.(payments.PaymentState)}, nil
}

func (w *wallet) TrackPayment(_ context.Context, hash payments.Hash) (payments.Payment, error) {
	return payments.Payment{Hash: hash, State: payments.PaymentSucceeded}, nil
}

// ledger notes that payments were sent, before they are.
type ledger struct {
	pay.Store
	err   error
	noted []payments.Hash
}

func (l *ledger) SetSent(_ context.Context, _ string, hash payments.Hash) error {
	if l.err == nil {
		l.noted = append(l.noted, hash)
	}
	return l.err
}

func payer(w *wallet, l *ledger) *pay.Payer {
	return &pay.Payer{Wallet: w, Store: l, Log: slog.New(slog.DiscardHandler)}
}

// paying is a purchase whose payment was begun with a wallet, and told to it so often.
func paying(walletName string, sent int) purchase.Purchase {
	return purchase.Purchase{
		RequestID: "request", State: purchase.StatePaying,
		Charge: purchase.Charge{BOLT11: "invoice", Attempt: &purchase.Attempt{PaymentHash: payments.Hash{1}, Wallet: walletName, Sent: sent}},
	}
}

// nameOf is how a wallet is called in an attempt.
func nameOf(w *wallet) string {
	node, _ := w.Node(context.Background())
	return node.Wallet()
}

func nobody(error) {}

// TestOutcome: a payment is sent at most once whatever the wallet says of it, never
// before that is written down, and never by a wallet that did not begin it.
func TestOutcome(t *testing.T) {
	unknown := payments.ErrNotFound
	for name, tt := range map[string]struct {
		wallet  wallet
		already int // how often the wallet was told before
		other   bool
		gaveUp  bool
		store   error
		want    payments.PaymentState
		err     error
		sends   int
	}{
		"a new payment":                    {wallet: wallet{lookups: []any{unknown}}, want: payments.PaymentSucceeded, sends: 1},
		"one that has succeeded":           {wallet: wallet{lookups: []any{payments.PaymentSucceeded}}, want: payments.PaymentSucceeded},
		"one in flight":                    {wallet: wallet{lookups: []any{payments.PaymentInFlight}}, want: payments.PaymentSucceeded},
		"a wallet that is away for long":   {wallet: wallet{lookups: []any{errDown, errDown, errDown, unknown}}, want: payments.PaymentSucceeded, sends: 1},
		"refused before it was sent":       {wallet: wallet{lookups: []any{unknown}, send: payments.ErrInsufficientFunds}, want: payments.PaymentFailed, sends: 1},
		"refused, and sent all the same":   {wallet: wallet{lookups: []any{unknown, payments.PaymentSucceeded}, send: payments.ErrInsufficientFunds}, want: payments.PaymentSucceeded, sends: 1},
		"canceled before it was sent":      {wallet: wallet{lookups: []any{unknown}}, store: purchase.ErrNeverSent, want: payments.PaymentFailed},
		"begun with another wallet":        {wallet: wallet{lookups: []any{unknown}}, other: true, err: pay.ErrOtherWallet},
		"given up":                         {wallet: wallet{lookups: []any{unknown}}, gaveUp: true, err: pay.ErrForgotten},
		"told twice, and failed the last":  {wallet: wallet{lookups: []any{payments.PaymentFailed}}, already: 2, err: pay.ErrForgotten},
		"told once, and failed":            {wallet: wallet{lookups: []any{payments.PaymentFailed}}, already: 1, want: payments.PaymentFailed},
		"the store is away, and then back": {wallet: wallet{lookups: []any{unknown, payments.PaymentInFlight}}, store: errDown, want: payments.PaymentSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, l := tt.wallet, ledger{err: tt.store}
				w.name = "02aa"
				p := paying(nameOf(&w), tt.already)
				if tt.other {
					p.Attempt.Wallet = "play another"
				}
				if tt.gaveUp {
					p.Reason = "the wallet is lost"
				}
				told := make(chan struct{})
				close(told)

				ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // by the test's own clock
				defer cancel()
				got, err := payer(&w, &l).Outcome(ctx, p, told, nobody)
				if !errors.Is(err, tt.err) || tt.err == nil && got.State != tt.want {
					t.Errorf("%s, %v", got.State, err)
				}
				if w.sent != tt.sends || len(l.noted) != tt.sends {
					t.Errorf("sent %d times, noted %d times", w.sent, len(l.noted))
				}
			})
		})
	}
}

// TestNothingIsSentUntold: the provider is to know of the acceptance before it is paid.
func TestNothingIsSentUntold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wallet{lookups: []any{payments.ErrNotFound}}
		l := ledger{}
		told, done := make(chan struct{}), make(chan error)
		go func() {
			_, err := payer(&w, &l).Outcome(t.Context(), paying(nameOf(&w), 0), told, nobody)
			done <- err
		}()
		synctest.Wait()
		if w.sent != 0 || len(l.noted) != 0 {
			t.Error("it was sent before the provider was told")
		}
		close(told)
		if err := <-done; err != nil || w.sent != 1 {
			t.Errorf("sent %d times, %v", w.sent, err)
		}
	})
}

// TestHaltedPaymentWaits: while the owner keeps money back, nothing is sent or noted, which
// is said once; then it is sent once. What was in flight before is asked for all the same.
func TestHaltedPaymentWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := wallet{lookups: []any{payments.ErrNotFound}}, ledger{}
		stopped, told, said := true, make(chan struct{}), 0
		close(told)
		p := payer(&w, &l)
		p.MaySpend = func() error {
			if stopped {
				return fmt.Errorf("%w: by the owner", payments.ErrSpendingStopped)
			}
			return nil
		}
		done := make(chan error)
		go func() {
			_, err := p.Outcome(t.Context(), paying(nameOf(&w), 0), told, func(error) { said++ })
			done <- err
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.sent != 0 || len(l.noted) != 0 || said != 1 {
			t.Errorf("sent %d times, noted %d times, said %d times", w.sent, len(l.noted), said)
		}

		under := wallet{lookups: []any{payments.PaymentInFlight}}
		p.Wallet = &under
		if pay, err := p.Outcome(t.Context(), paying(nameOf(&under), 1), told, nobody); err != nil || pay.State != payments.PaymentSucceeded || under.sent != 0 {
			t.Errorf("%s, %v, sent %d times", pay.State, err, under.sent)
		}
		p.Wallet = &w
		stopped = false
		if err := <-done; err != nil || w.sent != 1 {
			t.Errorf("sent %d times, %v", w.sent, err)
		}
	})
}

// TestHaltedPaymentEnds: an invoice that expires while money is kept back is paid no more;
// that is certain only where no wallet was told of it.
func TestHaltedPaymentEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := wallet{lookups: []any{payments.ErrNotFound}}, ledger{}
		told := make(chan struct{})
		close(told)
		p := payer(&w, &l)
		p.MaySpend = func() error { return payments.ErrSpendingStopped }
		of := paying(nameOf(&w), 0)
		of.BOLT11 = invoiceFor(t, 10*time.Minute)
		began := time.Now()
		pay, err := p.Outcome(t.Context(), of, told, nobody)
		if err != nil || pay.State != payments.PaymentFailed || w.sent != 0 || time.Since(began) > 11*time.Minute {
			t.Errorf("%s, %v after %v", pay.State, err, time.Since(began))
		}

		of.Attempt.Sent = 1
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if pay, err := p.Outcome(ctx, of, told, nobody); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s, %v", pay.State, err)
		}
	})
}

// invoiceFor is an invoice that expires so soon.
func invoiceFor(t *testing.T, expiry time.Duration) string {
	t.Helper()
	key, _ := btcec.PrivKeyFromBytes([]byte{31: 1})
	inv := &bolt11.Invoice{
		Network: payments.Play, AmountMsats: 1000, CreatedAt: time.Now(), PaymentHash: payments.Hash{1}, PaymentSecret: [32]byte{1}, Expiry: expiry, Features: []int{8, 14},
	}
	text, err := bolt11.Encode(inv, func(digest [32]byte) ([65]byte, error) {
		return [65]byte(ecdsa.SignCompact(key, digest[:], true)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestLostAndNow: what the wallet cannot tell is lost; what was never sent for long has
// failed, and everything else is still under way.
func TestLostAndNow(t *testing.T) {
	const long = time.Hour
	for name, tt := range map[string]struct {
		answer any
		sent   int
		age    time.Duration
		lost   bool
		now    payments.PaymentState
	}{
		"never sent":             {payments.ErrNotFound, 0, 0, false, payments.PaymentInFlight},
		"never sent, long ago":   {payments.ErrNotFound, 0, long, false, payments.PaymentFailed},
		"sent and not known":     {payments.ErrNotFound, 1, long, true, payments.PaymentInFlight},
		"sent and failed":        {payments.PaymentFailed, 1, 0, false, payments.PaymentFailed},
		"sent twice, and failed": {payments.PaymentFailed, 2, 0, true, payments.PaymentInFlight},
		"paid":                   {payments.PaymentSucceeded, 1, 0, false, payments.PaymentSucceeded},
	} {
		w := wallet{lookups: []any{tt.answer}}
		a := *paying(nameOf(&w), tt.sent).Attempt
		a.ReservedAt = time.Now().Add(-tt.age)
		p := payer(&w, &ledger{})
		if lost, err := p.Lost(t.Context(), a); err != nil || lost != tt.lost {
			t.Errorf("%s: lost is %v, %v", name, lost, err)
		}
		if now, err := p.Now(t.Context(), a); err != nil || now.State != tt.now {
			t.Errorf("%s: now it is %s, %v", name, now.State, err)
		}
	}

	w := wallet{lookups: []any{errDown}}
	if _, err := payer(&w, &ledger{}).Lost(t.Context(), *paying(nameOf(&w), 1).Attempt); !errors.Is(err, errDown) {
		t.Errorf("a wallet that is away: %v", err)
	}
	if lost, err := (&pay.Payer{}).Lost(t.Context(), purchase.Attempt{}); err != nil || !lost {
		t.Errorf("without a wallet: lost is %v, %v", lost, err)
	}
}

// TestRecordWantsTheDuePayment: a payment that is not the one under way, or shows no
// preimage, is not recorded.
func TestRecordWantsTheDuePayment(t *testing.T) {
	p := paying("play 02aa", 1)
	for _, other := range []payments.Payment{{Hash: payments.Hash{2}, State: payments.PaymentSucceeded}, {Hash: payments.Hash{1}, State: payments.PaymentSucceeded}} {
		if err := payer(&wallet{}, &ledger{}).Record(t.Context(), p, other); !errors.Is(err, purchase.ErrConflict) {
			t.Errorf("%s: %v", fmt.Sprint(other.Hash), err)
		}
	}
}
