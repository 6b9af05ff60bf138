package nip05

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const key = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"

// host answers for every name of a host, as a test says.
type host struct {
	answer http.HandlerFunc
	asked  atomic.Int32
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.asked.Add(1)
	h.answer(w, r)
}

// verifier asks the host whatever a name says, as if it were there.
func verifier(t *testing.T, answer http.HandlerFunc, file string) (*Verifier, *host) {
	t.Helper()
	h := &host{answer: answer}
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	tr := client.Transport.(*http.Transport)
	tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
	return New(Config{Client: client, CacheFile: file}), h
}

// says is a document with the names of bob and of the host itself.
func says(keyOf string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"names":{"bob":%q,"_":%q},"relays":{}}`, keyOf, keyOf)
	}
}

func TestVerify(t *testing.T) {
	for _, c := range []struct {
		name   string
		claim  string
		answer http.HandlerFunc
		want   error
	}{
		{"right", "bob@example.com", says(key), nil},
		{"the host's own", "_@example.com", says(key), nil},
		{"another key", "bob@example.com", says(strings.Repeat("0", 64)), ErrOtherKey},
		{"an npub", "bob@example.com", says("npub1080l37pfvdpyuzasyuy2ytjykjvq3ylr5jlqlg7tvzjrh9r8vn3sf5yaph"), ErrOtherKey},
		{"nobody of that name", "eve@example.com", says(key), ErrOtherKey},
		{"no names", "bob@example.com", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) }, ErrOtherKey},
		{"no JSON", "bob@example.com", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `<html>`) }, ErrUnanswered},
		{"a key that is a list", "bob@example.com", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"names":{"bob":[%q]}}`, key) }, ErrUnanswered},
		{"a name twice", "bob@example.com", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"names":{"bob":"","bob":%q}}`, key) }, ErrUnanswered},
		{"not found, though it says so", "bob@example.com", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			says(key)(w, r)
		}, ErrUnanswered},
		{"a redirect to the right answer", "bob@example.com", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/there" {
				http.Redirect(w, r, "/there", http.StatusFound)
				return
			}
			says(key)(w, r)
		}, ErrUnanswered},
		{"too long", "bob@example.com", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"names":{"bob":%q}}%s`, key, strings.Repeat(" ", maxAnswer))
		}, ErrUnanswered},
		{"no name", "example.com", says(key), ErrName},
		{"a port", "bob@example.com:8443", says(key), ErrName},
		{"an address", "bob@127.0.0.1", says(key), ErrName},
		{"an inner host", "bob@localhost", says(key), ErrName},
		{"upper case", "Bob@example.com", says(key), ErrName},
		{"a path", "bob@example.com/x", says(key), ErrName},
		{"a tag", "bob+x@example.com", says(key), ErrName},
		{"nothing", "", says(key), ErrName},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, h := verifier(t, c.answer, "")
			err := v.Verify(t.Context(), Claim{c.claim, key})
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if want := int32(1); errors.Is(c.want, ErrName) && h.asked.Load() != 0 || !errors.Is(c.want, ErrName) && h.asked.Load() != want {
				t.Errorf("the host was asked %d times", h.asked.Load())
			}
		})
	}
}

// TestQuestion: the host is asked over https for the one name, where NIP-05 has it.
func TestQuestion(t *testing.T) {
	v, _ := verifier(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Host + r.URL.String(); got != "example.com/.well-known/nostr.json?name=bob" || r.TLS == nil || len(r.Cookies()) != 0 {
			t.Errorf("asked for %s", got)
		}
		says(key)(w, r)
	}, "")
	if err := v.Verify(t.Context(), Claim{"bob@example.com", key}); err != nil {
		t.Error(err)
	}
}

// TestCache: what a host said is not asked again while it counts, in a later run
// either; one that did not answer is.
func TestCache(t *testing.T) {
	file := filepath.Join(t.TempDir(), "names.json")
	var down atomic.Bool
	v, h := verifier(t, func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		says(key)(w, r)
	}, file)
	right, wrong, late := Claim{"bob@example.com", key}, Claim{"eve@example.com", key}, Claim{"_@example.com", key}
	look := func(want int32, claims ...Claim) {
		t.Helper()
		before := h.asked.Load()
		got := New(v.cfg).Verified(t.Context(), claims)
		if !got[right] || got[wrong] {
			t.Errorf("got %v", got)
		}
		if n := h.asked.Load() - before; n != want {
			t.Errorf("%d questions, want %d", n, want)
		}
	}
	look(2, right, wrong, right)
	down.Store(true)
	look(1, right, wrong, late)
	look(1, right, wrong, late)
	down.Store(false)
	look(1, right, wrong, late)
	look(0, right, wrong, late)

	age := func(by time.Duration) {
		t.Helper()
		doc, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kept := cache{}
		if err := json.Unmarshal(doc, &kept); err != nil {
			t.Fatal(err)
		}
		for name, a := range kept {
			a.At = a.At.Add(-by)
			kept[name] = a
		}
		if doc, err = json.Marshal(kept); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, doc, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	age(2 * time.Hour)
	look(1, right, wrong) // who did not vouch may do so by now
	age(23 * time.Hour)
	look(2, right, wrong)
	if err := os.WriteFile(file, []byte(`{"x":`), 0o600); err != nil {
		t.Fatal(err)
	}
	look(2, right, wrong)
}

// TestBounds: however many names a crowd of keys gives itself, so many hosts are asked
// and no more, so many at once, and hosts that never answer hold nobody up for longer
// than the context allows.
func TestBounds(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	v, h := verifier(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		says(key)(w, r)
		mu.Lock()
		now--
		mu.Unlock()
	}, "")
	var claims []Claim
	for i := range 10 * maxNames {
		claims = append(claims, Claim{fmt.Sprintf("bob@host%d.example.com", i), key})
	}
	v.cfg.Client.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true // the certificate names example.com alone
	if got := v.Verified(t.Context(), claims); len(got) != maxNames || h.asked.Load() != maxNames || most > atOnce {
		t.Errorf("%d names, %d questions, %d at once", len(got), h.asked.Load(), most)
	}

	began := make(chan struct{}, maxNames)
	silent, _ := verifier(t, func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-r.Context().Done()
	}, "")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	if got := silent.Verified(ctx, []Claim{{"bob@example.com", key}}); len(got) != 0 {
		t.Errorf("a silent host vouches for %v", got)
	}
}
