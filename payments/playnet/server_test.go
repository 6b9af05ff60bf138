package playnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/faults"
	"github.com/lightwork-market/lightwork/internal/port"
	"github.com/lightwork-market/lightwork/payments"
)

// serve runs a server of the ledger until the test ends.
func serve(t *testing.T, l *Ledger) (*Server, string) {
	t.Helper()
	ln := listen(t, "127.0.0.1:0")
	s := NewServer(l, nil)
	t.Cleanup(serveOn(t, s, ln))
	return s, "http://" + ln.Addr().String()
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// serveOn returns what stops the server and waits for it.
func serveOn(t *testing.T, s *Server, ln net.Listener) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	return func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	}
}

// dial opens a wallet of that name.
func dial(t *testing.T, url, name string) *Client {
	t.Helper()
	c, err := Dial(url, NewToken())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.OpenWallet(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServeLoopbackOnly(t *testing.T) {
	ln := listen(t, "0.0.0.0:0")
	err := NewServer(openLedger(t, Config{}), nil).Serve(t.Context(), ln)
	if !errors.Is(err, payments.ErrBadRequest) {
		t.Errorf("serve on %v: %v", ln.Addr(), err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is left open: %v", err)
	}
}

func TestServeBrokenListener(t *testing.T) {
	ln := listen(t, "127.0.0.1:0")
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if err := NewServer(openLedger(t, Config{}), nil).Serve(t.Context(), ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("serve: %v", err)
	}
}

func TestDial(t *testing.T) {
	good := NewToken()
	for _, c := range []struct{ url, token string }{
		{"http://192.0.2.1:80", good},
		{"http://example.com", good},
		{"https://127.0.0.1:80", good},
		{"http://user@127.0.0.1:80", good},
		{"http://127.0.0.1:80/path", good},
		{"127.0.0.1:80", good},
		{"", good},
		{"http://127.0.0.1:80", ""},
		{"http://127.0.0.1:80", strings.Repeat("x", 64)},
	} {
		if _, err := Dial(c.url, c.token); !errors.Is(err, payments.ErrBadRequest) {
			t.Errorf("dial %q: %v", c.url, err)
		}
	}
	for _, url := range []string{"http://127.0.0.1:1", "http://[::1]:1/", "http://localhost:1"} {
		if _, err := Dial(url, good); err != nil {
			t.Errorf("dial %q: %v", url, err)
		}
	}
}

// TestRequests sends what a Client never would.
func TestRequests(t *testing.T) {
	l := openLedger(t, Config{})
	_, url := serve(t, l)
	token := NewToken()
	if _, err := l.OpenWallet(t.Context(), "ann", token); err != nil {
		t.Fatal(err)
	}
	hash := strings.Repeat("ab", 32)
	cases := []struct {
		name, path, body string
		change           func(r *http.Request)
		status           int
		says             string
	}{
		{"as it should be", "Balance", `{}`, nil, 200, `"spendable_msats":1000000000`},
		{"an unknown field", "Balance", `{"x":1}`, nil, 400, "bad_request"},
		{"a field in capitals", "LookupInvoice", `{"Payment_Hash":"` + hash + `"}`, nil, 400, "bad_request"},
		{"a field twice", "LookupInvoice", `{"payment_hash":"` + hash + `","payment_hash":"` + hash + `"}`, nil, 400, "bad_request"},
		{"data after the end", "Balance", `{} {}`, nil, 400, "bad_request"},
		{"no JSON", "Balance", `x`, nil, 400, "bad_request"},
		{"empty", "Balance", ``, nil, 400, "bad_request"},
		{"a short hash", "LookupInvoice", `{"payment_hash":"ab"}`, nil, 400, "bad_request"},
		{"a hash in capitals", "LookupInvoice", `{"payment_hash":"` + strings.ToUpper(hash) + `"}`, nil, 400, "bad_request"},
		{"a hash nobody has", "LookupInvoice", `{"payment_hash":"` + hash + `"}`, nil, 404, "not_found"},
		{"a fraction of a msat", "CreateInvoice", `{"amount_msats":1.5}`, nil, 400, "bad_request"},
		{"an expiry past all time", "CreateInvoice", `{"amount_msats":1,"payment_hash":"` + hash + `","hold":true,"expiry_s":9007199254740991}`, nil, 400, "bad_request"},
		{"too long", "Balance", `{}` + strings.Repeat(" ", maxRequest), nil, 400, "too large"},
		{"no token", "Balance", `{}`, func(r *http.Request) { r.Header.Del("Authorization") }, 401, "unauthorized"},
		{"a strange token", "Balance", `{}`, func(r *http.Request) { r.Header.Set("Authorization", bearer+NewToken()) }, 401, "unauthorized"},
		{"another scheme", "Balance", `{}`, func(r *http.Request) { r.Header.Set("Authorization", "Basic "+token) }, 401, "unauthorized"},
		{"a web form", "Balance", `{}`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 400, "bad_request"},
		{"a rebound name", "Balance", `{}`, func(r *http.Request) { r.Host = "evil.example" }, 400, "bad_request"},
		{"GET", "Balance", ``, func(r *http.Request) { r.Method = http.MethodGet }, 405, ""},
		{"no such method", "Script", `{}`, nil, 404, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+methodPath+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", contentType)
			r.Header.Set("Authorization", bearer+token)
			if c.change != nil {
				c.change(r)
			}
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			resp, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.status || !strings.Contains(string(body), c.says) {
				t.Errorf("status %d, body %s; want %d with %q", resp.StatusCode, body, c.status, c.says)
			}
		})
	}
}

// TestErrorsCrossTheWire: each error is the same for errors.Is on both sides.
func TestErrorsCrossTheWire(t *testing.T) {
	for _, c := range codes {
		resp, status := codeOf(errors.Join(errors.New("context"), c.err))
		if status == http.StatusOK {
			t.Errorf("%v is answered as a success", c.err)
		}
		if err := errorOf(resp); !errors.Is(err, c.err) || err.Error() == "" {
			t.Errorf("%v became %v", c.err, err)
		}
	}
	resp, _ := codeOf(errors.New("disk on fire at /secret/path"))
	if err := errorOf(resp); !errors.Is(err, payments.ErrWalletUnavailable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("the ledger's own trouble became %v", err)
	}
	if err := errorOf(errorResponse{Code: "from the future"}); !errors.Is(err, payments.ErrWalletUnavailable) {
		t.Errorf("a code that nobody knows became %v", err)
	}
}

// TestFaults plays each kind of failure for a method that changes something,
// and then repeats the call.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  faults.Fault
		err    error
		done   bool // whether the first call had its effect
		sendAs error
	}{
		{"refuse", faults.Fault{Kind: faults.Refuse}, payments.ErrWalletUnavailable, false, payments.ErrWalletUnavailable},
		{"drop before", faults.Fault{Kind: faults.DropBefore}, payments.ErrWalletUnavailable, false, payments.ErrUnknownOutcome},
		{"drop after", faults.Fault{Kind: faults.DropAfter}, payments.ErrWalletUnavailable, true, payments.ErrUnknownOutcome},
		{"delay", faults.Fault{Kind: faults.Delay, Delay: time.Millisecond}, nil, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := openLedger(t, Config{})
			_, url := serve(t, l)
			s := faults.Start(t, url)
			payee, payer := dial(t, s.URL, "payee"), dial(t, s.URL, "payer")
			preimage := payments.Preimage{7}
			hash := preimage.Hash()
			ask := payments.NewInvoice{PaymentHash: hash, Hold: true, AmountMsats: 100, Expiry: time.Hour}
			var inv payments.Invoice
			steps := []struct {
				method string
				call   func() error
				effect func() (bool, error)
			}{
				{MethodCreateInvoice, func() (err error) {
					inv, err = payee.CreateInvoice(t.Context(), ask)
					return err
				}, func() (bool, error) {
					_, err := payee.LookupInvoice(t.Context(), hash)
					return err == nil, nil
				}},
				{MethodSendPayment, func() error {
					return payer.SendPayment(t.Context(), payments.Pay{BOLT11: inv.BOLT11, AmountMsats: 100})
				}, func() (bool, error) {
					got, err := payee.LookupInvoice(t.Context(), hash)
					return got.State == payments.InvoiceHeld, err
				}},
				{MethodSettleInvoice, func() error { return payee.SettleInvoice(t.Context(), preimage) }, func() (bool, error) {
					p, err := payer.LookupPayment(t.Context(), hash)
					return p.State == payments.PaymentSucceeded, err
				}},
			}
			for _, step := range steps {
				fault, want := c.fault, c.err
				if fault.Method = step.method; step.method == MethodSendPayment {
					want = c.sendAs
				}
				s.Script(fault)
				if err := step.call(); !errors.Is(err, want) || want == nil && err != nil {
					t.Fatalf("%s: error %v, want %v", step.method, err, want)
				}
				if done, err := step.effect(); err != nil || done != c.done {
					t.Fatalf("%s: done %v (%v), want %v", step.method, done, err, c.done)
				}
				if err := step.call(); err != nil {
					t.Fatalf("%s again: %v", step.method, err)
				}
				if done, err := step.effect(); err != nil || !done {
					t.Fatalf("%s again: done %v, %v", step.method, done, err)
				}
			}
			if b, err := payer.Balance(t.Context()); err != nil || b.SpendableMsats != defaultFaucetMsats-100 {
				t.Errorf("payer has %+v, %v", b, err)
			}
			audit(t, l)
		})
	}
}

func TestFaultScript(t *testing.T) {
	_, url := serve(t, openLedger(t, Config{}))
	s := faults.Start(t, url)
	c := dial(t, s.URL, "ann")
	s.Script(faults.Fault{Method: MethodBalance, Kind: faults.Refuse, Count: 2})
	s.Script(faults.Fault{Method: MethodBalance, Kind: faults.DropBefore})
	var got []bool
	for range 4 {
		if _, err := c.Node(t.Context()); err != nil {
			t.Errorf("a method without a fault: %v", err)
		}
		_, err := c.Balance(t.Context())
		got = append(got, err == nil)
	}
	if want := []bool{false, false, false, true}; !slices.Equal(got, want) {
		t.Errorf("answered %v, want %v", got, want)
	}
}

// TestServerAway: while the server is away calls say so, and a watch and a
// track that were begun before live through it.
func TestServerAway(t *testing.T) {
	l := openLedger(t, Config{})
	s := NewServer(l, nil)
	addr := port.Reserve(t)
	stop := serveOn(t, s, listen(t, addr))
	url := "http://" + addr
	payee, payer := dial(t, url, "payee"), dial(t, url, "payer")
	preimage := payments.Preimage{8}
	inv, err := payee.CreateInvoice(t.Context(), payments.NewInvoice{PaymentHash: preimage.Hash(), Hold: true, AmountMsats: 100, Expiry: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	pay := payments.Pay{BOLT11: inv.BOLT11, AmountMsats: 100}
	if err := payer.SendPayment(t.Context(), pay); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	tracked := make(chan payments.Payment, 1)
	watched := make(chan error, 1)
	hints := make(chan payments.Hash, 100)
	go func() {
		p, err := payer.TrackPayment(ctx, inv.PaymentHash)
		if err != nil {
			t.Errorf("track: %v", err)
		}
		tracked <- p
	}()
	go func() { watched <- payee.WatchInvoices(ctx, func(h payments.Hash) { hints <- h }) }()
	// The watch has begun when it has told of something.
	other := byte(0)
	waitFor(t, func() bool {
		other++
		ask := payments.NewInvoice{PaymentHash: payments.Hash{1, other}, Hold: true, AmountMsats: 1, Expiry: time.Hour}
		_, err := payee.CreateInvoice(t.Context(), ask)
		if err := errors.Join(err, payee.CancelInvoice(t.Context(), ask.PaymentHash)); err != nil {
			t.Fatal(err)
		}
		return len(hints) > 0
	})
	stop()

	// A new client, because on an old connection nobody knows what arrived.
	late, err := Dial(url, payer.token)
	if err != nil {
		t.Fatal(err)
	}
	if err := late.SendPayment(t.Context(), pay); !errors.Is(err, payments.ErrWalletUnavailable) || errors.Is(err, payments.ErrUnknownOutcome) {
		t.Errorf("nothing was sent, so nothing is unknown: %v", err)
	}
	if _, err := late.Balance(t.Context()); !errors.Is(err, payments.ErrWalletUnavailable) {
		t.Errorf("balance: %v", err)
	}
	// The invoice is settled where nobody sees it.
	w, err := l.Wallet(t.Context(), payee.token)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.SettleInvoice(t.Context(), preimage); err != nil {
		t.Fatal(err)
	}
	defer serveOn(t, s, listen(t, addr))()
	if p := <-tracked; p.State != payments.PaymentSucceeded || p.Preimage != preimage {
		t.Errorf("tracked %+v", p)
	}
	for <-hints != inv.PaymentHash { // others were canceled before
	}
	cancel()
	if err := <-watched; !errors.Is(err, context.Canceled) {
		t.Errorf("watch ended with %v", err)
	}
}

// TestTrouble: only a connection that was never made leaves nothing unknown.
func TestTrouble(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
	reset := &net.OpError{Op: "read", Err: errors.New("reset")}
	for _, c := range []struct {
		method string
		err    error
		want   error
	}{
		{MethodSendPayment, refused, payments.ErrWalletUnavailable},
		{MethodSendPayment, reset, payments.ErrUnknownOutcome},
		{MethodSendPayment, io.ErrUnexpectedEOF, payments.ErrUnknownOutcome},
		{MethodSettleInvoice, reset, payments.ErrWalletUnavailable},
	} {
		if got := trouble(c.method, c.err); got != c.want {
			t.Errorf("%s, %v: %v", c.method, c.err, got)
		}
	}
}

// waitFor looks at something that no channel tells of.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("it never happened")
		}
	}
}

func TestStrangeToken(t *testing.T) {
	_, url := serve(t, openLedger(t, Config{}))
	c, err := Dial(url, NewToken())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.WatchInvoices(t.Context(), func(payments.Hash) {}); !errors.Is(err, payments.ErrUnauthorized) {
		t.Errorf("watch: %v", err)
	}
	if _, err := c.TrackPayment(t.Context(), payments.Hash{}); !errors.Is(err, payments.ErrUnauthorized) {
		t.Errorf("track: %v", err)
	}
}

// TestBusy: more than maxRequests at once are turned away, not queued.
func TestBusy(t *testing.T) {
	s, url := serve(t, openLedger(t, Config{}))
	c := dial(t, url, "ann")
	for range maxRequests {
		s.slots <- struct{}{}
	}
	if _, err := c.Balance(t.Context()); !errors.Is(err, payments.ErrWalletUnavailable) {
		t.Errorf("balance: %v", err)
	}
	<-s.slots
	if _, err := c.Balance(t.Context()); err != nil {
		t.Errorf("balance with room again: %v", err)
	}
}

// TestSecretsAreNotLogged runs a payment and some refusals with everything logged.
func TestSecretsAreNotLogged(t *testing.T) {
	var log bytes.Buffer
	l := openLedger(t, Config{})
	ln := listen(t, "127.0.0.1:0")
	stop := serveOn(t, NewServer(l, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))), ln)
	c := dial(t, "http://"+ln.Addr().String(), "ann")
	preimage := payments.Preimage{0xfe, 0xdc}
	if err := c.SettleInvoice(t.Context(), preimage); !errors.Is(err, payments.ErrNotFound) {
		t.Errorf("settle: %v", err)
	}
	stop()
	if !strings.Contains(log.String(), "refused") {
		t.Errorf("log %q", log.String())
	}
	for _, secret := range []string{preimage.String(), c.token} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("a secret is in the log: %s", log.String())
		}
	}
}
