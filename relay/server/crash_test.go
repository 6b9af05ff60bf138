package server

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// crashDirEnv makes the test binary a relay on that directory.
const crashDirEnv = "LIGHTWORK_RELAY_TEST_DIR"

func serveUntilKilled(dir string) {
	srv, err := New(context.Background(), Config{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(ln.Addr())
	fmt.Fprintln(os.Stderr, srv.Serve(context.Background(), ln))
	os.Exit(1)
}

// TestDurableAfterOK kills the relay without warning while clients publish:
// what it acknowledged must be there afterwards.
func TestDurableAfterOK(t *testing.T) {
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), crashDirEnv+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	acknowledged := publishUntilLost(t, strings.TrimSpace(addr), 60, func() {
		if err := child.Process.Kill(); err != nil { // SIGKILL
			t.Error(err)
		}
	})
	_ = child.Wait()

	r := start(t, Config{Dir: dir})
	p := r.dial()
	for _, id := range acknowledged {
		if p.stored(`{"ids":["`+id+`"]}`) == "" {
			t.Errorf("event %s was acknowledged and is lost", id)
		}
	}
}

// publishUntilLost publishes without pause, calls kill after n OKs, and
// returns the ids of all that was acknowledged.
func publishUntilLost(t *testing.T, addr string, n int, kill func()) []string {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws://"+addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	go func() {
		for i := 0; ; i++ {
			ev := nostr.Event{Kind: 1, CreatedAt: nostr.Now(), Content: fmt.Sprint("event ", i)}
			if ev.Sign(aliceSecret) != nil || ws.Write(ctx, websocket.MessageText, nip01.AppendEventMessage(nil, &ev)) != nil {
				return
			}
		}
	}()
	var ids []string
	for {
		_, doc, err := ws.Read(ctx)
		if err != nil {
			if len(ids) < n {
				t.Fatalf("only %d OKs: %v", len(ids), err)
			}
			return ids
		}
		m, err := nip01.ParseRelay(doc, nip01.Limits{})
		if err != nil || !m.Accepted {
			t.Fatalf("got %s", doc)
		}
		if ids = append(ids, m.EventID); len(ids) == n {
			kill()
		}
	}
}
