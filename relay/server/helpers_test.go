package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/relay/nip01"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDirEnv); dir != "" {
		serveUntilKilled(dir)
	}
	if addr := os.Getenv(strangerEnv); addr != "" {
		attackUntilKilled(addr)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds what a test waits for; it is never reached in a good run.
const patience = time.Minute

const (
	aliceSecret = "5ee1c8000ab28edd64d74a7d951ac2dd559814887b1b9e1ac7c5f89e96125c12"
	bobSecret   = "6ee1c8000ab28edd64d74a7d951ac2dd559814887b1b9e1ac7c5f89e96125c12"
)

// running is a relay on a loopback port.
type running struct {
	t    testing.TB
	srv  *Server
	addr string
	stop func() // waits; may be called twice
}

func start(t testing.TB, cfg Config) *running {
	t.Helper()
	return startOn(t, cfg, "127.0.0.1:0")
}

func startOn(t testing.TB, cfg Config, addr string) *running {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.Uploaders == nil {
		cfg.Uploaders = []string{Anyone}
	}
	srv, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, ln) }()
	stopped := false
	r := &running{t: t, srv: srv, addr: ln.Addr().String()}
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
	t.Cleanup(r.stop)
	return r
}

// peer is a client that sends and expects whole messages.
type peer struct {
	t  testing.TB
	ws *websocket.Conn
}

func (r *running) dial() *peer {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws://"+r.addr, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	ws.SetReadLimit(1 << 20)
	r.t.Cleanup(func() { _ = ws.CloseNow() })
	return &peer{r.t, ws}
}

func (p *peer) send(doc string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.ws.Write(ctx, websocket.MessageText, []byte(doc)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) read() (nip01.RelayMessage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, doc, err := p.ws.Read(ctx)
	if err != nil {
		return nip01.RelayMessage{}, err
	}
	return nip01.ParseRelay(doc, nip01.Limits{})
}

// text is the next message as it came.
func (p *peer) text() string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, doc, err := p.ws.Read(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(doc)
}

func (p *peer) next() nip01.RelayMessage {
	p.t.Helper()
	m, err := p.read()
	if err != nil {
		p.t.Fatal(err)
	}
	return m
}

// expect reads one message and compares its summary.
func (p *peer) expect(want string) {
	p.t.Helper()
	if got := summary(p.next()); got != want {
		p.t.Fatalf("got %s, want %s", got, want)
	}
}

func summary(m nip01.RelayMessage) string {
	switch m.Label {
	case nip01.LabelEvent:
		return "EVENT " + m.SubID + " " + m.Event.Content
	case nip01.LabelOK:
		return fmt.Sprintf("OK %v %s", m.Accepted, m.Text)
	case nip01.LabelEOSE:
		return "EOSE " + m.SubID
	case nip01.LabelClosed:
		return "CLOSED " + m.SubID + " " + m.Text
	}
	return m.Label + " " + m.Text
}

func (p *peer) publish(ev nostr.Event) {
	p.t.Helper()
	p.send(string(nip01.AppendEventMessage(nil, &ev)))
}

// put publishes and expects acceptance.
func (p *peer) put(ev nostr.Event) {
	p.t.Helper()
	p.publish(ev)
	p.expect("OK true ")
}

// stored returns the contents that a filter finds, in the relay's order.
func (p *peer) stored(filter string) string {
	p.t.Helper()
	p.send(`["REQ","stored",` + filter + `]`)
	var contents []string
	for {
		m := p.next()
		if m.Label == nip01.LabelEOSE {
			p.send(`["CLOSE","stored"]`)
			return strings.Join(contents, " ")
		}
		if m.Label != nip01.LabelEvent {
			p.t.Fatalf("got %s", summary(m))
		}
		contents = append(contents, m.Event.Content)
	}
}

// closed waits until the relay ends the connection, and fails if it does not.
func (p *peer) closed() {
	p.t.Helper()
	for {
		_, err := p.read()
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			p.t.Fatal("the relay kept the connection")
		case err != nil:
			return
		}
	}
}

func sign(t testing.TB, secret string, ev nostr.Event) nostr.Event {
	t.Helper()
	if ev.CreatedAt == 0 {
		ev.CreatedAt = nostr.Now()
	}
	if err := ev.Sign(secret); err != nil {
		t.Fatal(err)
	}
	return ev
}

// note is a kind 1 event of Alice's, age seconds old.
func note(t testing.TB, content string, age int, tags ...nostr.Tag) nostr.Event {
	t.Helper()
	return sign(t, aliceSecret, nostr.Event{Kind: 1, Content: content, CreatedAt: ago(age), Tags: tags})
}

func ago(seconds int) nostr.Timestamp { return nostr.Now() - nostr.Timestamp(seconds) }

func publicKey(t testing.TB, secret string) string {
	t.Helper()
	key, err := nostr.GetPublicKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// matching finds the subscriptions that an event matches, in all its steps, and
// how many look-ups that took. The last event had another number.
func (x *index) matching(ev *nostr.Event, number uint64) (found []*subscription, work int) {
	t := newTarget(ev)
	clients := map[*client]struct{}{}
	work = x.touched(t, func(c *client) { clients[c] = struct{}{} })
	for c := range clients {
		of, n := c.live.matching(t, number)
		found, work = append(found, of...), work+n
	}
	return found, work
}

// count reads one number from the store.
func count(t *testing.T, s *Server, query string, n *int) {
	t.Helper()
	err := s.store.db.View(t.Context(), func(tx *sqlite.Tx) error { return tx.QueryRow(query).Scan(n) })
	if err != nil {
		t.Fatal(err)
	}
}

// contents are those of the jobs that a scan of the store finds.
func contents(t *testing.T, st *store, jobs []*job, filter string) string {
	t.Helper()
	m, err := nip01.ParseClient([]byte(`["REQ","q",`+filter+`]`), Limits{}.withDefaults().parser())
	if err != nil {
		t.Fatal(err)
	}
	f := &m.Filters[0]
	limit := f.Limit
	if limit == 0 {
		limit = len(jobs)
	}
	q, err := newScan(f, limit, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.db.View(t.Context(), q.run); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, row := range q.rows {
		i := slices.IndexFunc(jobs, func(j *job) bool { return j.event.ID == hex.EncodeToString([]byte(row.id)) })
		found = append(found, jobs[i].event.Content)
	}
	return strings.Join(found, " ")
}
