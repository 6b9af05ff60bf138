package bunker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/nip01"
)

func note(kind int) *nostr.Event {
	return &nostr.Event{Kind: kind, CreatedAt: 1700000000, Tags: nostr.Tags{{"t", "a\"b"}}, Content: "<hello> & \"goodbye\"\n"}
}

func TestConnectAndSign(t *testing.T) {
	s := startSigner(t, nil)
	session, err := Connect(t.Context(), s.address(t), []int{7000, 6050}, Config{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	if session.User != s.user.PublicKey() {
		t.Errorf("the session is of %s, want %s", session.User, s.user.PublicKey())
	}
	q := <-s.asked
	if got, want := q.Params[2], "nip04_decrypt,nip04_encrypt,nip44_decrypt,nip44_encrypt,sign_event:6050,sign_event:7000"; q.Method != methodConnect || got != want {
		t.Errorf("%s asks for %q, want %q", q.Method, got, want)
	}
	// The key file brings the same session back.
	text, err := session.Text()
	if err != nil {
		t.Fatal(err)
	}
	if session, err = ParseSession(text); err != nil {
		t.Fatal(err)
	}
	c, err := New(session, Config{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	run(t, c.Serve)
	ev := note(7000)
	if err := c.Sign(t.Context(), ev); err != nil {
		t.Fatal(err)
	}
	if err := nip01.Verify(ev); err != nil || ev.PubKey != s.user.PublicKey() {
		t.Errorf("signed event of %s: %v", ev.PubKey, err)
	}
	if err := c.Sign(t.Context(), note(1)); !errors.Is(err, ErrKind) {
		t.Errorf("a kind that was not asked for: %v", err)
	}
}

func TestConnectRefused(t *testing.T) {
	s := startSigner(t, nil)
	at := s.address(t)
	at.secret = "of another"
	var refused *RefusedError
	_, err := Connect(t.Context(), at, []int{7000}, Config{Timeout: patience})
	if !errors.As(err, &refused) || refused.Method != methodConnect || refused.Text != "wrong secret" {
		t.Errorf("connect with a spent secret: %v", err)
	}
	if strings.Contains(err.Error(), at.secret) {
		t.Errorf("the error quotes the secret: %v", err)
	}
}

func TestSealAndOpen(t *testing.T) {
	s := startSigner(t, nil)
	c, peer := s.client(t, patience), newKey(t)
	sealed, err := c.NIP44Encrypt(t.Context(), peer.PublicKey(), "hello")
	if err != nil {
		t.Fatal(err)
	}
	text, err := peer.NIP44Decrypt(t.Context(), c.PublicKey(), sealed)
	if err != nil || text != "hello" {
		t.Errorf("the peer reads %q: %v", text, err)
	}
	if text, err = c.NIP44Decrypt(t.Context(), peer.PublicKey(), sealed); err != nil || text != "hello" {
		t.Errorf("we read %q: %v", text, err)
	}
}

// TestHostileSigner: whatever a signer does, the caller gets an error that
// names it, and an event that it did not sign as asked is never used.
func TestHostileSigner(t *testing.T) {
	for _, tt := range []struct {
		name    string
		say     func(s *signer) func(question) string
		timeout time.Duration
		want    error
	}{
		{"silent", func(*signer) func(question) string {
			return func(question) string { return "" }
		}, time.Second, ErrAway},
		{"another key", func(s *signer) func(question) string {
			other := newKey(s.t)
			return func(q question) string { return s.signed(q, other, func(*nostr.Event) {}) }
		}, patience, ErrWrongKey},
		{"another content", func(s *signer) func(question) string {
			return func(q question) string {
				return s.signed(q, s.user, func(ev *nostr.Event) { ev.Content = "pay me" })
			}
		}, patience, ErrOtherEvent},
		{"another time", func(s *signer) func(question) string {
			return func(q question) string { return s.signed(q, s.user, func(ev *nostr.Event) { ev.CreatedAt++ }) }
		}, patience, ErrOtherEvent},
		{"its signature of another event under our id", func(s *signer) func(question) string {
			return func(q question) string {
				var ours, other nostr.Event
				_ = ours.UnmarshalJSON([]byte(q.Params[0]))
				other = ours
				other.Content = "pay me"
				_ = s.user.Sign(s.ctx, &other)
				ours.PubKey = s.user.PublicKey()
				ours.ID, ours.Sig = nip01.ID(&ours), other.Sig
				return reply(q.ID, string(nip01.Marshal(&ours)), "")
			}
		}, patience, ErrOtherEvent},
		{"a signature that is none", func(s *signer) func(question) string {
			return func(q question) string {
				return reply(q.ID, `{"id":"x","pubkey":"y","sig":"`+strings.Repeat("zz", 64)+`"}`, "")
			}
		}, patience, ErrWrongKey},
		{"no event", func(*signer) func(question) string {
			return func(q question) string { return reply(q.ID, "ack", "") }
		}, patience, ErrAnswer},
		{"not JSON", func(*signer) func(question) string {
			return func(question) string { return "yes, gladly" }
		}, time.Second, ErrAnswer},
		{"not sealed", func(*signer) func(question) string {
			return func(question) string { return "raw:" + strings.Repeat("A", 60_000) }
		}, time.Second, ErrAnswer},
		{"an answer to what was not asked", func(*signer) func(question) string {
			return func(question) string { return reply("lw999", "ack", "") }
		}, time.Second, ErrAway},
		{"always on another page", func(*signer) func(question) string {
			return func(q question) string { return reply(q.ID, "auth_url", "https://example.com/\x1b[2J") }
		}, time.Second, ErrAway},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := startSigner(t, tt.say)
			ev := note(7000)
			if err := s.client(t, tt.timeout, 7000).Sign(t.Context(), ev); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if ev.Sig != "" || ev.ID != "" || ev.PubKey != "" {
				t.Errorf("the event was touched: %v", ev)
			}
		})
	}
}

func TestRefusedKind(t *testing.T) {
	s := startSigner(t, func(*signer) func(question) string {
		return func(q question) string { return reply(q.ID, "", "no \x1b[31mkind 7000\nfor you") }
	})
	var refused *RefusedError
	err := s.client(t, patience, 7000).Sign(t.Context(), note(7000))
	if !errors.As(err, &refused) || refused.Text != "no [31mkind 7000 for you" {
		t.Errorf("got %v (%q)", err, refused)
	}
}

// A question that is never answered holds up no other, and a signer that
// answers twice is heard once.
func TestSlowQuestionHoldsUpNoOther(t *testing.T) {
	release := make(chan struct{})
	s := startSigner(t, func(s *signer) func(question) string {
		return func(q question) string {
			if strings.Contains(q.Params[0], `"kind":7000`) {
				return "" // never
			}
			s.send(s.ctx, s.to, s.honest(q))
			return s.honest(q) // and once more
		}
	})
	c := s.client(t, patience, 7000, 6050)
	s.to = c.session.client.PublicKey()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(release)
		if err := c.Sign(ctx, note(7000)); !errors.Is(err, ErrAway) {
			t.Errorf("the unanswered question: %v", err)
		}
	}()
	<-s.asked
	for range 3 {
		if err := c.Sign(t.Context(), note(6050)); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	<-release
}

func TestTooLarge(t *testing.T) {
	c, err := New(Session{Signer: newKey(t).PublicKey(), User: newKey(t).PublicKey(), Relays: []string{startRelay(t)}, Kinds: []int{1}, client: newKey(t)}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	run(t, c.Serve)
	if err := c.Sign(t.Context(), &nostr.Event{Kind: 1, Content: strings.Repeat(`"`, 20_000)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestParseAddress(t *testing.T) {
	key := newKey(t).PublicKey()
	for _, bad := range []string{
		"", "bunker://", "bunker://" + key, "https://" + key + "?relay=wss://a", "bunker://npub1?relay=wss://a&secret=hush",
		"bunker://" + key + "?secret=hush", "bunker://" + key + "?" + strings.Repeat("relay=wss://a&", 17) + "secret=hush", "\x00hush",
	} {
		if _, err := ParseAddress(bad); !errors.Is(err, ErrURI) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestParseSession(t *testing.T) {
	k := newKey(t)
	good, err := Session{Signer: k.PublicKey(), User: k.PublicKey(), Relays: []string{"wss://a"}, Kinds: []int{1}, client: k}.Text()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseSession(good); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"{", "{}", strings.Replace(good, "nsec1", "nsec1x", 1), strings.Replace(good, "bunker", "bonker", 1), strings.Replace(good, "bunker", "Bunker", 1),
		strings.Replace(good, `["wss://a"]`, `[]`, 1), strings.Replace(good, k.PublicKey(), "me", 1),
	} {
		if _, err := ParseSession(bad); !errors.Is(err, ErrSession) || strings.Contains(err.Error(), "nsec1") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

var _ interface {
	relay.Signer
	NIP44Encrypt(ctx context.Context, peer, text string) (string, error)
	NIP44Decrypt(ctx context.Context, peer, sealed string) (string, error)
} = (*Client)(nil)

func FuzzAnswers(f *testing.F) {
	f.Add(`{"id":"lw1","result":"ack"}`, "bunker://ab?relay=ws://a", `{"bunker":"ab"}`)
	f.Add(`{"id":"lw1","error":"no"}`, "", "{}")
	want := note(1)
	f.Fuzz(func(t *testing.T, text, address, session string) {
		if a, err := parseAnswer(text); err == nil {
			if sig, err := signature(a.Result, want); err == nil && len(sig) != 128 {
				t.Errorf("signature of %d digits", len(sig))
			}
		}
		_, _ = ParseAddress(address)
		_, _ = ParseSession(session)
	})
}
