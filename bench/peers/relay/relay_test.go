// Package relay_test measures the relay against khatru: each relay is a process
// of its own, the clients are this one.
package relay_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fiatjaf/eventstore/lmdb"
	"github.com/fiatjaf/eventstore/slicestore"
	"github.com/fiatjaf/khatru"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/server"
)

// relays are what is measured: each serves on the listener until ctx ends.
var relays = map[string]func(ctx context.Context, ln net.Listener, dir string) error{
	"lightwork":     serveLightwork,
	"khatru-lmdb":   serveKhatruLMDB,
	"khatru-memory": serveKhatruMemory,
}

// childArgument, a relay's name and a folder make this program that relay.
const childArgument = "relay-child"

func TestMain(m *testing.M) {
	if len(os.Args) != 4 || os.Args[1] != childArgument {
		os.Exit(m.Run())
	}
	if err := serve(os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(name, dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	return relays[name](ctx, ln, dir)
}

// serveLightwork limits no client: khatru, as its README sets it up, does not
// either.
func serveLightwork(ctx context.Context, ln net.Listener, dir string) error {
	srv, err := server.New(ctx, server.Config{Dir: dir, Limits: server.Limits{MessagesPerSecond: 1 << 30, MessageBurst: 1 << 30}})
	if err != nil {
		return err
	}
	return srv.Serve(ctx, ln)
}

// serveKhatruLMDB is durable: eventstore/lmdb syncs every transaction.
func serveKhatruLMDB(ctx context.Context, ln net.Listener, dir string) error {
	db := &lmdb.LMDBBackend{Path: filepath.Join(dir, "lmdb")}
	if err := db.Init(); err != nil {
		return err
	}
	defer db.Close()
	r := khatru.NewRelay()
	r.StoreEvent = append(r.StoreEvent, db.SaveEvent)
	r.QueryEvents = append(r.QueryEvents, db.QueryEvents)
	r.DeleteEvent = append(r.DeleteEvent, db.DeleteEvent)
	r.ReplaceEvent = append(r.ReplaceEvent, db.ReplaceEvent)
	return serveHTTP(ctx, ln, r)
}

func serveKhatruMemory(ctx context.Context, ln net.Listener, _ string) error {
	db := &slicestore.SliceStore{}
	if err := db.Init(); err != nil {
		return err
	}
	defer db.Close()
	r := khatru.NewRelay()
	r.StoreEvent = append(r.StoreEvent, db.SaveEvent)
	r.QueryEvents = append(r.QueryEvents, db.QueryEvents)
	r.DeleteEvent = append(r.DeleteEvent, db.DeleteEvent)
	r.ReplaceEvent = append(r.ReplaceEvent, db.ReplaceEvent)
	return serveHTTP(ctx, ln, r)
}

func serveHTTP(ctx context.Context, ln net.Listener, h http.Handler) error {
	failed := make(chan error, 1)
	hs := &http.Server{Handler: h}
	go func() { failed <- hs.Serve(ln) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return hs.Close()
	}
}

// start launches a relay in a process of its own and returns its address.
func start(tb testing.TB, name string) string {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(self, childArgument, name, tb.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			tb.Errorf("%s: %v", name, err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// notes are signed events of one key, each with a tag.
func notes(tb testing.TB, n int) []nostr.Event {
	tb.Helper()
	secret := nostr.GeneratePrivateKey()
	list := make([]nostr.Event, n)
	for i := range list {
		ev := nostr.Event{
			Kind: 1, CreatedAt: nostr.Now(), Content: fmt.Sprint(i, strings.Repeat(" lorem ipsum", 20)),
			Tags: nostr.Tags{{"t", "bench"}, {"e", fmt.Sprintf("%064x", i)}},
		}
		if err := ev.Sign(secret); err != nil {
			tb.Fatal(err)
		}
		list[i] = ev
	}
	return list
}
