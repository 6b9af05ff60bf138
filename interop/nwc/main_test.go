// Package nwc_test runs payments/nwc against the unmodified SDK that most
// applications and wallets of Nostr Wallet Connect use. package-lock.json pins
// it; npm installs it into node_modules, once.
package nwc_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/interop/outside"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/relay/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for; it is never reached in a good run.
const patience = time.Minute

// program is a script that runs with Node.js until the test ends.
type program struct {
	in    io.WriteCloser
	lines chan []byte // of stdout; closed at its end
}

// start runs a script of this folder. Closing its stdin ends it.
func start(t *testing.T, script string, env ...string) *program {
	t.Helper()
	outside.Install(t, ".")
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	cmd := exec.CommandContext(ctx, "node", script)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &program{in: in, lines: make(chan []byte, 1000)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.lines)
		scanner := bufio.NewScanner(out)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			p.lines <- append([]byte(nil), scanner.Bytes()...)
		}
	}()
	t.Cleanup(func() {
		in.Close()
		<-read
		err := cmd.Wait()
		cancel()
		if err != nil || t.Failed() {
			t.Logf("%s ended with %v\n%s", script, err, stderr.String())
		}
	})
	return p
}

// message is a line of client.mjs.
type message struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code, Message string
	} `json:"error"`
	Notification *struct {
		Type  string         `json:"notification_type"`
		About map[string]any `json:"notification"`
	} `json:"notification"`
}

// next waits for the next line.
func (p *program) next(t *testing.T) message {
	t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			t.Fatal("the script has ended")
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return m
	case <-time.After(patience):
		t.Fatal("the script says nothing")
	}
	return message{}
}

// relayURL serves the embedded relay.
func relayURL(t *testing.T) string {
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

// run runs serve until the test ends.
func run(t *testing.T, serve func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

// wallets opens two wallets of one play-money ledger.
func wallets(t *testing.T) (one, other *playnet.Wallet) {
	t.Helper()
	l, err := playnet.Open(t.Context(), filepath.Join(t.TempDir(), "play.db"), playnet.Config{FeeMsats: 7})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if one, err = l.OpenWallet(t.Context(), "one", playnet.NewToken()); err != nil {
		t.Fatal(err)
	}
	if other, err = l.OpenWallet(t.Context(), "other", playnet.NewToken()); err != nil {
		t.Fatal(err)
	}
	return one, other
}
