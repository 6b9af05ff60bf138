package nwc

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/relay/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ payments.Wallet = (*Client)(nil)
	_ payments.Wallet = (*playnet.Wallet)(nil)
)

// patience bounds what a test waits for; it is never reached in a good run.
const patience = time.Minute

// run runs serve until the test ends or the returned function is called.
func run(t testing.TB, serve func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// startRelay serves the embedded relay and returns its URL.
func startRelay(t testing.TB) string {
	t.Helper()
	srv, err := server.New(t.Context(), server.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	run(t, func(ctx context.Context) error { return srv.Serve(ctx, ln) })
	return "ws://" + ln.Addr().String()
}

func openLedger(t testing.TB, cfg playnet.Config) *playnet.Ledger {
	t.Helper()
	l, err := playnet.Open(t.Context(), filepath.Join(t.TempDir(), "play.db"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func openWallet(t testing.TB, l *playnet.Ledger, name string) *playnet.Wallet {
	t.Helper()
	w, err := l.OpenWallet(t.Context(), name, playnet.NewToken())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func openBook(t testing.TB, path string) *Book {
	t.Helper()
	b, err := OpenBook(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// newApp is an app that may do everything.
func newApp(t testing.TB, url string) (App, Connection) {
	t.Helper()
	a, conn, err := NewApp("test", []string{url})
	if err != nil {
		t.Fatal(err)
	}
	a.Methods, a.BudgetMsats = AllMethods(), payments.MaxMsats
	return a, conn
}

// startService offers the wallet to the apps.
func startService(t testing.TB, url string, w payments.Wallet, apps ...App) (*Service, func()) {
	t.Helper()
	s, err := NewService(ServiceConfig{
		Wallet: w, Book: openBook(t, filepath.Join(t.TempDir(), "book.db")), Apps: apps, Relays: []string{url}, Log: logger(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, run(t, s.Serve)
}

func logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type testWriter struct{ testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.Logf("%s", b)
	return len(b), nil
}

func startClient(t testing.TB, cfg Config) *Client {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = logger(t)
	}
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, c.Serve)
	return c
}
