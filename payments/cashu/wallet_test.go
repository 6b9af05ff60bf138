package cashu

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ payments.Wallet = (*Wallet)(nil)

// mailroom carries messages between wallets of a test; it keeps them, as relays
// do, for who comes later.
type mailroom struct {
	mu   sync.Mutex
	mail map[string][][]byte // by key
	news chan struct{}       // closed and replaced when there is new mail
}

func newMailroom() *mailroom {
	return &mailroom{mail: map[string][][]byte{}, news: make(chan struct{})}
}

// desk is one wallet's place in the room.
type desk struct {
	room *mailroom
	key  string
}

func (d desk) Send(_ context.Context, to string, message []byte) error {
	d.room.mu.Lock()
	defer d.room.mu.Unlock()
	d.room.mail[to] = append(d.room.mail[to], message)
	close(d.room.news)
	d.room.news = make(chan struct{})
	return nil
}

func (d desk) Receive(ctx context.Context, arrived func([]byte)) error {
	for read := 0; ; {
		d.room.mu.Lock()
		mail, news := d.room.mail[d.key][read:], d.room.news
		d.room.mu.Unlock()
		for _, message := range mail {
			arrived(message)
		}
		read += len(mail)
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// bench is two wallets on one mint. Their files outlive them.
type bench struct {
	*testing.T
	room  *mailroom
	cfg   Config // of both
	seeds map[string]Seed
	dir   string
}

// testLock is longer than any test on any machine. A test in which a lock ends
// sets its own.
const testLock = 10 * time.Minute

func newBench(t *testing.T, mint string) *bench {
	return &bench{
		T: t, room: newMailroom(), dir: t.TempDir(),
		cfg:   Config{Mint: mint, Relays: []string{"wss://relay.example"}, Lock: testLock, Poll: 100 * time.Millisecond, CallTimeout: 20 * time.Second},
		seeds: map[string]Seed{"payee": newSeed(t), "payer": newSeed(t)},
	}
}

// open opens a wallet and serves it until stop, at the test's end at the latest.
func (b *bench) open(name string, change ...func(*Config)) (w *Wallet, stop func()) {
	b.Helper()
	cfg := b.cfg
	cfg.Seed, cfg.Path = b.seeds[name], filepath.Join(b.dir, name+".db")
	cfg.Messages = desk{b.room, pointText(cfg.Seed.nodeKey().PubKey())[2:]}
	cfg.Log = slog.New(slog.NewTextHandler(b.Output(), nil)).With("wallet", name)
	for _, c := range change {
		c(&cfg)
	}
	w, err := Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			b.Error(err)
		}
		if err := w.Close(); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(stop)
	return w, stop
}

// fill tops the wallet up; the mints of these tests are paid at once.
func (b *bench) fill(w *Wallet, sats int64) {
	b.Helper()
	t, err := w.Topup(b.Context(), sats)
	if err != nil {
		b.Fatal(err)
	}
	if err := w.AwaitTopup(b.Context(), t); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) spendable(w *Wallet) int64 {
	b.Helper()
	balance, err := w.Balance(context.WithoutCancel(b.Context())) // in a Cleanup too
	if err != nil {
		b.Fatal(err)
	}
	return balance.SpendableMsats
}

func TestConformance(t *testing.T) {
	t.Parallel()
	// Outside of the bubbles: a server that waits for connections would keep
	// their clocks from going on.
	m := newFakeMint(t, 0)
	conformance.RunInBubbles(t, func(t *testing.T) conformance.Pair {
		b := newBench(t, m.place())
		b.cfg.Lock = 10 * time.Second // of the clock of the bubble
		inProcess := func(c *Config) { c.Transport = inProcess{m} }
		payee, _ := b.open("payee", inProcess)
		payer, _ := b.open("payer", inProcess)
		b.fill(payer, 50_000)
		t.Cleanup(func() {
			synctest.Wait() // what the wallets are about goes on after the test
			// What was not paid is the payer's again.
			b.total(payee, payer, 50_000)
		})
		return conformance.Pair{Payee: payee, Payer: payer}
	})
}

// inProcess asks the mint without a connection.
type inProcess struct{ mint *fakeMint }

func (p inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	p.mint.ServeHTTP(rec, req)
	return rec.Result(), nil
}

// total checks that no sat was lost or made.
func (b *bench) total(payee, payer *Wallet, sats int64) {
	b.Helper()
	if got := b.spendable(payee) + b.spendable(payer); got != sats*1000 {
		b.Errorf("both have %d msats, want %d", got, sats*1000)
	}
}
