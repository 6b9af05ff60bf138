// Package relay_test measures the relay against khatru: each relay is a process
// of its own, the clients are this one.
package relay_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/bench/peers/relays"
)

// measured are the relays: each serves on the listener until ctx ends.
var measured = map[string]func(ctx context.Context, ln net.Listener, dir string) error{
	"lightwork":     relays.Lightwork,
	"khatru-lmdb":   relays.KhatruLMDB,
	"khatru-memory": relays.KhatruMemory,
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
	return measured[name](ctx, ln, dir)
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
