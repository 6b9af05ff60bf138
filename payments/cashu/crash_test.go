package cashu

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// cut is a connection to the mint that breaks for good at the nth question to
// path: before the mint has it, or before its answer is here.
type cut struct {
	path  string
	nth   int
	after bool

	mu   sync.Mutex
	seen int
	once sync.Once
	hit  chan struct{} // closed when it broke
}

func newCut(path string, nth int, after bool) *cut {
	return &cut{path: path, nth: nth, after: after, hit: make(chan struct{})}
}

var errCut = errors.New("cut")

func (c *cut) RoundTrip(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	if req.URL.Path == c.path {
		c.seen++
	}
	now := req.URL.Path == c.path && c.seen == c.nth
	dead := c.seen >= c.nth
	c.mu.Unlock()
	if !dead {
		return http.DefaultTransport.RoundTrip(req)
	}
	if now && c.after {
		res, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			err = res.Body.Close()
		}
		c.once.Do(func() { close(c.hit) })
		return nil, errors.Join(errCut, err)
	}
	c.once.Do(func() { close(c.hit) })
	return nil, errCut
}

func (b *bench) secret() (p payments.Preimage) {
	return payments.Preimage(hashing.Bytes(fmt.Append(nil, b.Name(), time.Now())))
}

func ask(preimage payments.Preimage, hold bool, msats int64) payments.NewInvoice {
	n := payments.NewInvoice{
		PaymentHash: preimage.Hash(), Hold: hold, AmountMsats: msats, DescriptionHash: hashing.Bytes(preimage[:]), Expiry: 10 * time.Minute,
	}
	if !hold {
		n.Preimage = preimage
	}
	return n
}

// must returns v of a call that worked.
func must[T any](b *bench) func(v T, err error) T {
	return func(v T, err error) T {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
		return v
	}
}

func pay(inv payments.Invoice) payments.Pay {
	return payments.Pay{BOLT11: inv.BOLT11, AmountMsats: inv.AmountMsats, FeeLimitMsats: 50_000}
}

// order makes an invoice of the payee's, and the payer begins to pay it.
func (b *bench) order(payee, payer *Wallet, n payments.NewInvoice) payments.Invoice {
	b.Helper()
	inv := must[payments.Invoice](b)(payee.CreateInvoice(b.Context(), n))
	if err := payer.SendPayment(b.Context(), pay(inv)); err != nil {
		b.Fatal(err)
	}
	return inv
}

func (b *bench) awaitState(w *Wallet, hash payments.Hash, state payments.InvoiceState) {
	b.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; {
		changed := w.change()
		inv := must[payments.Invoice](b)(w.LookupInvoice(b.Context(), hash))
		if inv.State == state {
			return
		}
		if inv.State.Terminal() || time.Now().After(deadline) {
			b.Fatalf("the invoice is %s, want %s", inv.State, state)
		}
		select {
		case <-changed:
		case <-time.After(time.Second):
		}
	}
}

// crashes plays a payment of 777 sats for each moment at which the payer's or
// the payee's connection and process end, and counts what both have after it.
func crashes(t *testing.T, mint string, fee bool) {
	type moment struct {
		who, path string
		nth       int
	}
	for _, m := range []moment{
		{"payer", "/v1/swap", 1},
		{"payer", "/v1/checkstate", 1},
		{"payer", "/v1/checkstate", 2},
		{"payee", "/v1/checkstate", 1},
		{"payee", "/v1/swap", 1},
		{"payer", "/v1/mint/bolt11", 1},
	} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %s %d after=%v", m.who, m.path[4:], m.nth, after), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, mint)
				b.crash(m.who, newCut(m.path, m.nth, after), fee)
			})
		}
	}
}

func (b *bench) crash(who string, c *cut, fee bool) {
	broken := func(cfg *Config) {
		if c.path != "/v1/mint/bolt11" || who == "payer" {
			cfg.Transport = c
		}
	}
	open := func(name string) (*Wallet, func()) {
		if name == who {
			return b.open(name, broken)
		}
		return b.open(name)
	}
	payee, stopPayee := open("payee")
	payer, stopPayer := open("payer")
	reopened := make(chan struct{})
	again := func() {
		if who == "payer" {
			stopPayer()
			payer, _ = b.open("payer")
		} else {
			stopPayee()
			payee, _ = b.open("payee")
		}
		close(reopened)
	}
	t := must[Topup](b)(payer.Topup(b.Context(), 5000))
	if c.path == "/v1/mint/bolt11" {
		<-c.hit
		again()
	}
	if err := payer.AwaitTopup(b.Context(), t); err != nil {
		b.Fatal(err)
	}
	preimage := b.secret()
	inv := b.order(payee, payer, ask(preimage, false, 777_000))
	if c.path != "/v1/mint/bolt11" {
		<-c.hit
		again()
	}
	<-reopened
	// The same payment goes on; to send it again changes nothing.
	if err := payer.SendPayment(b.Context(), pay(inv)); err != nil {
		b.Fatal(err)
	}
	p := must[payments.Payment](b)(payer.TrackPayment(b.Context(), inv.PaymentHash))
	if p.State != payments.PaymentSucceeded || p.Preimage != preimage || !fee && p.FeeMsats != 0 {
		b.Errorf("payment %+v", p)
	}
	b.awaitState(payee, inv.PaymentHash, payments.InvoiceSettled)
	if got, want := b.spendable(payer), 5_000_000-777_000-p.FeeMsats; got != want {
		b.Errorf("the payer has %d msats, want %d", got, want)
	}
	if got := b.spendable(payee); got < 777_000 || !fee && got != 777_000 {
		b.Errorf("the payee has %d msats, want 777000", got)
	}
}

func TestCrashes(t *testing.T) {
	t.Parallel()
	for _, ppk := range []int64{0, 400} {
		t.Run(fmt.Sprintf("fee %d", ppk), func(t *testing.T) {
			t.Parallel()
			mint := newFakeMint(t, ppk)
			crashes(t, mint.place(), ppk > 0)
		})
	}
}

// A refund whose answer is lost is found; the notes come back once.
func TestRefundAfterCrash(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, newFakeMint(t, 0).place())
			b.cfg.Lock = 4 * time.Second
			payee, _ := b.open("payee")
			c := newCut("/v1/swap", 2, after) // the first locked the notes
			payer, stop := b.open("payer", func(cfg *Config) { cfg.Transport = c })
			b.fill(payer, 1000)
			inv := must[payments.Invoice](b)(payee.CreateInvoice(b.Context(), ask(b.secret(), true, 600_000)))
			if err := payee.CancelInvoice(b.Context(), inv.PaymentHash); err != nil {
				b.Fatal(err)
			}
			if err := payer.SendPayment(b.Context(), pay(inv)); err != nil {
				b.Fatal(err)
			}
			<-c.hit
			stop()
			payer, _ = b.open("payer")
			p := must[payments.Payment](b)(payer.TrackPayment(b.Context(), inv.PaymentHash))
			if p.State != payments.PaymentFailed || p.FeeMsats != 0 {
				b.Errorf("payment %+v", p)
			}
			b.total(payee, payer, 1000)
			if err := payer.SendPayment(b.Context(), pay(inv)); !errors.Is(err, payments.ErrExpired) {
				b.Errorf("paid again: %v", err)
			}
		})
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	b := newBench(t, newFakeMint(t, 0).place())
	payer, _ := b.open("payer")
	b.fill(payer, 1000)
	token := must[Token](b)(payer.Export(b.Context(), 300))
	if token.Sats != 300 || len(token.Text) < 100 || token.Text[:6] != "cashuA" {
		b.Errorf("token %+v", token)
	}
	if got := b.spendable(payer); got != 700_000 {
		b.Errorf("%d msats are left", got)
	}
	if list := must[[]Token](b)(payer.Tokens(b.Context())); len(list) != 1 || list[0] != token {
		b.Errorf("tokens %+v", list)
	}
	if _, err := payer.Export(b.Context(), 701); !errors.Is(err, payments.ErrInsufficientFunds) {
		b.Errorf("more than there is: %v", err)
	}
}
