package bunker

import (
	"context"
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for; it is never reached in a good run.
const patience = time.Minute

// signer is a remote signer that says what the test lets it say.
type signer struct {
	t      *testing.T
	ctx    context.Context
	key    *relay.Key // by which it is addressed
	user   *relay.Key // that it signs with
	pool   *relay.Pool
	url    string
	secret string
	asked  chan question // what it was asked, in order
	to     string        // the client, for what it says unasked

	// say answers a question; "" says nothing. nil is an honest signer.
	say func(q question) string
}

func newKey(t *testing.T) *relay.Key {
	t.Helper()
	k, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// startRelay runs the embedded relay.
func startRelay(t *testing.T) (url string) {
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

// run owns a server until the test ends.
func run(t *testing.T, serve func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = serve(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func startSigner(t *testing.T, say func(*signer) func(question) string) *signer {
	t.Helper()
	s := &signer{t: t, ctx: t.Context(), key: newKey(t), user: newKey(t), url: startRelay(t), secret: "once", asked: make(chan question, 100)}
	if say != nil {
		s.say = say(s)
	}
	pool, err := relay.NewPool(relay.Config{URLs: []string{s.url}})
	if err != nil {
		t.Fatal(err)
	}
	s.pool = pool
	run(t, pool.Serve)
	since := nostr.Now()
	sub, err := pool.Subscribe(t.Context(), nostr.Filters{{Kinds: []int{kindRPC}, Tags: nostr.TagMap{"p": {s.key.PublicKey()}}, Since: &since}}, relay.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-sub.Ready():
	case <-time.After(patience):
		t.Fatal("the relay does not serve the signer")
	}
	run(t, func(ctx context.Context) error {
		defer sub.Close()
		for {
			select {
			case in := <-sub.Events():
				s.hear(ctx, in.Event)
			case <-ctx.Done():
				return nil
			}
		}
	})
	return s
}

func (s *signer) hear(ctx context.Context, ev nostr.Event) {
	text, err := s.key.NIP44Decrypt(ctx, ev.PubKey, ev.Content)
	if err != nil {
		return
	}
	var q question
	if json.Unmarshal([]byte(text), &q) != nil {
		return
	}
	s.asked <- q
	say := s.honest
	if s.say != nil {
		say = s.say
	}
	if text := say(q); text != "" {
		s.send(ctx, ev.PubKey, text)
	}
}

// send seals and publishes a text, or publishes what stands after "raw:".
func (s *signer) send(ctx context.Context, to, text string) {
	content, raw := cutRaw(text)
	if !raw {
		var err error
		if content, err = s.key.NIP44Encrypt(ctx, to, text); err != nil {
			return
		}
	}
	ev := nostr.Event{Kind: kindRPC, CreatedAt: nostr.Now(), Content: content, Tags: nostr.Tags{{"p", to}}}
	if s.key.Sign(ctx, &ev) == nil {
		s.pool.Publish(ctx, ev)
	}
}

func cutRaw(text string) (string, bool) {
	const mark = "raw:"
	if len(text) >= len(mark) && text[:len(mark)] == mark {
		return text[len(mark):], true
	}
	return text, false
}

// honest is what a signer should answer.
func (s *signer) honest(q question) string {
	switch q.Method {
	case methodConnect:
		if q.Params[1] != s.secret {
			return reply(q.ID, "", "wrong secret")
		}
		return reply(q.ID, "ack", "")
	case methodPublicKey:
		return reply(q.ID, s.user.PublicKey(), "")
	case methodSign:
		return s.signed(q, s.user, func(*nostr.Event) {})
	case methodEncrypt:
		text, err := s.user.NIP44Encrypt(s.ctx, q.Params[0], q.Params[1])
		return reply(q.ID, text, textOf(err))
	case methodDecrypt:
		text, err := s.user.NIP44Decrypt(s.ctx, q.Params[0], q.Params[1])
		return reply(q.ID, text, textOf(err))
	}
	return reply(q.ID, "", "no such method")
}

// signed signs what was asked, changed.
func (s *signer) signed(q question, with *relay.Key, change func(*nostr.Event)) string {
	var ev nostr.Event
	if err := json.Unmarshal([]byte(q.Params[0]), &ev); err != nil {
		return reply(q.ID, "", err.Error())
	}
	change(&ev)
	if err := with.Sign(s.ctx, &ev); err != nil {
		return reply(q.ID, "", err.Error())
	}
	doc, _ := json.Marshal(ev)
	return reply(q.ID, string(doc), "")
}

func reply(id, result, failure string) string {
	doc, _ := json.Marshal(answer{ID: id, Result: result, Error: failure})
	return string(doc)
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// address is where it lets us connect.
func (s *signer) address(t *testing.T) Address {
	t.Helper()
	at, err := ParseAddress("bunker://" + s.key.PublicKey() + "?relay=" + s.url + "&secret=" + s.secret)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// client is a running client of the signer, connected by hand so that a
// hostile signer cannot spoil the introduction.
func (s *signer) client(t *testing.T, timeout time.Duration, kinds ...int) *Client {
	t.Helper()
	c, err := New(Session{Signer: s.key.PublicKey(), User: s.user.PublicKey(), Relays: []string{s.url}, Kinds: kinds, client: newKey(t)}, Config{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	run(t, c.Serve)
	return c
}
