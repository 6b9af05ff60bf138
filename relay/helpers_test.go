package relay

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/internal/port"
	"github.com/lightwork-market/lightwork/relay/nip01"
	"github.com/lightwork-market/lightwork/relay/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for; it is never reached in a good run.
const patience = time.Minute

// testRelay is the embedded relay, which can be stopped and started again on
// the same port and store.
type testRelay struct {
	t      testing.TB
	cfg    server.Config
	addr   string
	cancel context.CancelFunc
	served chan error
}

func startRelay(t testing.TB) *testRelay {
	t.Helper()
	r := &testRelay{t: t, cfg: server.Config{Dir: t.TempDir(), Uploaders: []string{server.Anyone}}, addr: port.Reserve(t)}
	r.start()
	t.Cleanup(r.stop)
	return r
}

func (r *testRelay) url() string { return "ws://" + r.addr }

func (r *testRelay) start() {
	r.t.Helper()
	srv, err := server.New(context.Background(), r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ln, err := net.Listen("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.served = cancel, make(chan error, 1)
	go func() { r.served <- srv.Serve(ctx, ln) }()
}

func (r *testRelay) stop() {
	r.t.Helper()
	if r.cancel == nil {
		return
	}
	r.cancel()
	if err := <-r.served; err != nil {
		r.t.Errorf("relay: %v", err)
	}
	r.cancel = nil
}

// fakeRelay is a relay of which the test writes every message. Messages are
// handed to answer with a function that sends.
func fakeRelay(t testing.TB, answer func(m nip01.ClientMessage, send func(string))) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		ws.SetReadLimit(1 << 20)
		for {
			_, doc, err := ws.Read(context.Background())
			if err != nil {
				return
			}
			m, err := nip01.ParseClient(doc, nip01.Limits{})
			if err != nil {
				t.Errorf("the pool sent %s: %v", doc, err)
				return
			}
			answer(m, func(s string) { _ = ws.Write(context.Background(), websocket.MessageText, []byte(s)) })
		}
	}))
	t.Cleanup(srv.Close)
	return "ws" + strings.TrimPrefix(srv.URL, "http")
}

// deadURL is an address where nobody listens.
func deadURL(t testing.TB) string {
	t.Helper()
	return "ws://" + port.Reserve(t)
}

// startPool serves a pool with short waits until the test ends.
func startPool(t testing.TB, cfg Config) *Pool {
	t.Helper()
	if cfg.MinBackoff == 0 {
		cfg.MinBackoff, cfg.MaxBackoff = 5*time.Millisecond, 50*time.Millisecond
	}
	p, err := NewPool(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("pool: %v", err)
		}
	})
	return p
}

func subscribe(t testing.TB, p *Pool, opt SubscribeOptions, filters ...nostr.Filter) *Subscription {
	t.Helper()
	s, err := p.Subscribe(context.Background(), filters, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func ready(t testing.TB, s *Subscription) {
	t.Helper()
	select {
	case <-s.Ready():
	case <-time.After(patience):
		t.Fatal("subscription is not accepted")
	}
}

// receive waits for the next event's content.
func receive(t testing.TB, s *Subscription) string {
	t.Helper()
	select {
	case in, ok := <-s.Events():
		if !ok {
			t.Fatal("subscription has ended")
		}
		return in.Event.Content
	case <-time.After(patience):
		t.Fatal("no event")
	}
	return ""
}

func testKey(t testing.TB) *Key {
	t.Helper()
	k, err := ParseKey("5ee1c8000ab28edd64d74a7d951ac2dd559814887b1b9e1ac7c5f89e96125c12")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// note is a signed event, age seconds old.
func note(t testing.TB, content string, age int, tags ...nostr.Tag) nostr.Event {
	t.Helper()
	ev := nostr.Event{Kind: 1, Content: content, CreatedAt: nostr.Now() - nostr.Timestamp(age), Tags: tags}
	if err := testKey(t).Sign(context.Background(), &ev); err != nil {
		t.Fatal(err)
	}
	return ev
}

// publish tries, as an outbox does, until a relay has the event.
func publish(t testing.TB, p *Pool, ev nostr.Event) {
	t.Helper()
	waitFor(t, "an OK", func() bool { return Accepted(p.Publish(context.Background(), ev)) > 0 })
}

// delivery is the message that brings an event.
func delivery(subID string, ev nostr.Event) string {
	return string(nip01.AppendDelivery(nil, subID, nip01.Marshal(&ev)))
}

func quoted(parts ...string) string {
	b, _ := json.Marshal(parts)
	return string(b)
}

// waitFor waits until ok holds.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s", what)
		}
		time.Sleep(time.Millisecond) // only the pace of looking
	}
}
