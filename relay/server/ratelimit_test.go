package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// pipes is a listener whose connections are in memory, so that a relay in a
// bubble of synctest has no other clock than the bubble's.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	return nil
}

func (pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7447} }

// addressed is the relay's end of a pipe.
type addressed struct{ net.Conn }

func (addressed) LocalAddr() net.Addr  { return pipes{}.Addr() }
func (addressed) RemoteAddr() net.Addr { return pipes{}.Addr() }

// inBubble serves a relay on pipes and runs do with a way to connect.
func inBubble(t *testing.T, l Limits, do func(t *testing.T, dial func() *peer)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		srv, err := New(ctx, Config{Dir: dir, Limits: l})
		if err != nil {
			t.Fatal(err)
		}
		ln := pipes{make(chan net.Conn), make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ctx, ln) }()
		t.Cleanup(func() {
			cancel()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
		do(t, func() *peer { return ln.dial(t) })
	})
}

func (p pipes) dial(t *testing.T) *peer {
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		mine, its := net.Pipe()
		p.conns <- addressed{its}
		return mine, nil
	}}
	ws, _, err := websocket.Dial(context.Background(), "ws://relay.test", &websocket.DialOptions{
		HTTPClient:     &http.Client{Transport: tr},
		OnPingReceived: func(context.Context, []byte) bool { return false }, // no pong
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	return &peer{t, ws}
}

// flood sends the messages as fast as they are taken and returns how long the
// answers took, which have this label.
func flood(t *testing.T, p *peer, docs []string, label string) time.Duration {
	t.Helper()
	began := time.Now()
	go func() {
		for _, doc := range docs {
			if p.ws.Write(context.Background(), websocket.MessageText, []byte(doc)) != nil {
				return
			}
		}
	}()
	for i := range docs {
		if m := p.next(); m.Label != label {
			t.Fatalf("answer %d: %s", i, summary(m))
		}
	}
	return time.Since(began)
}

func requests(n int) []string {
	docs := make([]string, n)
	for i := range docs {
		docs[i] = `["REQ","s",{"kinds":[1],"limit":0}]`
	}
	return docs
}

// TestFastClientIsSlowed: who sends without end has every message answered, at
// exactly its rate, and another does not notice.
func TestFastClientIsSlowed(t *testing.T) {
	inBubble(t, Limits{MessagesPerSecond: 100, MessageBurst: 50}, func(t *testing.T, dial func() *peer) {
		const n = 550
		fast, other := dial(), dial()
		done := make(chan time.Duration, 1)
		go func() {
			done <- flood(t, fast, requests(n), nip01.LabelEOSE)
		}()
		time.Sleep(time.Second)
		if took := flood(t, other, requests(1), nip01.LabelEOSE); took > 0 {
			t.Errorf("another client waited %v", took)
		}
		// The last message is answered before it is paid for.
		if took := <-done; took < 4900*time.Millisecond || took > 5*time.Second {
			t.Errorf("%d messages took %v, want 5 s", n, took)
		}
	})
}

// TestFloodOfGarbageIsSlowed: garbage has no more than the rate either.
func TestFloodOfGarbageIsSlowed(t *testing.T) {
	inBubble(t, Limits{MessagesPerSecond: 100, MessageBurst: 50}, func(t *testing.T, dial func() *peer) {
		garbage := make([]string, 250)
		for i := range garbage {
			garbage[i] = fmt.Sprintf("garbage %d", i)
		}
		took := flood(t, dial(), garbage, nip01.LabelNotice)
		if took < 1900*time.Millisecond || took > 2*time.Second {
			t.Errorf("took %v, want 2 s", took)
		}
	})
}

// TestForgerIsSlowed: forged events cost forgeryCost each also at the rate limit,
// where every message begins with a debt.
func TestForgerIsSlowed(t *testing.T) {
	inBubble(t, Limits{MessagesPerSecond: 2 * forgeryCost, MessageBurst: 2 * forgeryCost}, func(t *testing.T, dial func() *peer) {
		const free, n = 2, 22
		p, began := dial(), time.Now()
		for i := range n {
			ev := note(t, fmt.Sprint(i), 0)
			ev.Sig = strings.Repeat("1", 128)
			p.publish(ev)
			p.expect("OK false invalid: bad signature")
		}
		// Of the last ones a second's worth may still be owed.
		if took := time.Since(began); took < (n-free)/2*time.Second-1500*time.Millisecond {
			t.Errorf("%d forged events were taken in %v, at 2 a second", n, took)
		}
	})
}

// TestTooExpensiveIsRefused: what takes longer to pay for than a client is made
// to wait is refused, and costs nothing.
func TestTooExpensiveIsRefused(t *testing.T) {
	inBubble(t, Limits{MessagesPerSecond: 4, MessageBurst: 12}, func(t *testing.T, dial func() *peer) {
		p := dial()
		long := note(t, strings.Repeat("x", 60<<10), 0) // 4
		for range 3 {
			p.publish(long)
			p.next()
		}
		p.publish(long) // a second's worth
		p.expect("OK true duplicate: already have this event")
		tags := make([]nostr.Tag, 16) // one more
		for i := range tags {
			tags[i] = nostr.Tag{"t", "x"}
		}
		p.publish(note(t, strings.Repeat("x", 60<<10), 1, tags...))
		p.expect("OK false rate-limited: slow down")
		p.publish(long)
		p.expect("OK true duplicate: already have this event")
	})
}

// TestSlowedClientIsAlive: a client whose pongs do not come is kept while what it
// sent is still being read, and no longer.
func TestSlowedClientIsAlive(t *testing.T) {
	l := Limits{MessagesPerSecond: 1, MessageBurst: 1, PingInterval: time.Second, WriteTimeout: 3 * time.Second}
	inBubble(t, l, func(t *testing.T, dial func() *peer) {
		p := dial()
		if took := flood(t, p, requests(30), nip01.LabelEOSE); took < 28*time.Second {
			t.Errorf("took %v", took)
		}
		if m, err := p.read(); err == nil {
			t.Errorf("a silent client is kept: %s", summary(m))
		}
	})
}
