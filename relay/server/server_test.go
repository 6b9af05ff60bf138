package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/semaphore"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/relay/nip01"
)

func TestConfigIsChecked(t *testing.T) {
	key := strings.Repeat("a", 64)
	for name, c := range map[string]struct {
		cfg Config
		ok  bool
	}{
		"good":            {Config{PubKey: key, Uploaders: []string{key}, PublicURL: "https://relay.example"}, true},
		"URL with path":   {Config{PublicURL: "https://relay.example/x"}, false},
		"websocket URL":   {Config{PublicURL: "wss://relay.example"}, false},
		"URL, no host":    {Config{PublicURL: "https://"}, false},
		"npub":            {Config{PubKey: "npub1xyz"}, false},
		"upper-case key":  {Config{Uploaders: []string{strings.ToUpper(key)}}, false},
		"second uploader": {Config{Uploaders: []string{key, "bob"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Dir = t.TempDir()
			srv, err := New(t.Context(), c.cfg)
			if (err == nil) != c.ok || !c.ok && !errors.Is(err, ErrConfig) {
				t.Fatalf("New: %v", err)
			}
			if err == nil {
				if err := srv.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if _, err := New(t.Context(), Config{}); !errors.Is(err, ErrConfig) {
		t.Errorf("no folder: %v", err)
	}
}

func TestSecondServerIsRefused(t *testing.T) {
	dir := t.TempDir()
	start(t, Config{Dir: dir})
	if _, err := New(t.Context(), Config{Dir: dir}); !errors.Is(err, sqlite.ErrLocked) {
		t.Errorf("New: %v", err)
	}
}

func TestPublicURL(t *testing.T) {
	r := start(t, Config{PublicURL: "https://relay.example"})
	if _, body := r.upload(t, aliceSecret, "x"); !strings.Contains(body, `"url":"https://relay.example/`+sha("x")+`.html"`) {
		t.Errorf("descriptor %s", body)
	}
}

func TestUnknownPaths(t *testing.T) {
	r := start(t, Config{})
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{http.MethodPost, "/", http.StatusMethodNotAllowed},
		{http.MethodPost, "/upload", http.StatusMethodNotAllowed},
		{http.MethodGet, "/a/b", http.StatusNotFound},
		{http.MethodDelete, "/x", http.StatusNotFound},
		{http.MethodDelete, "/" + sha("x"), http.StatusUnauthorized},
	} {
		if resp, _ := r.request(t, c.method, c.path, "", nil); resp.StatusCode != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, resp.StatusCode, c.want)
		}
	}
}

// TestNothingBetweenStoredAndLive subscribes again and again while events are
// published: each subscription gets every event, once, stored or live.
func TestNothingBetweenStoredAndLive(t *testing.T) {
	r := start(t, Config{})
	const total = 150
	alice := r.dial()
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for i := range total {
			ev := nostr.Event{Kind: 1, CreatedAt: nostr.Now(), Content: fmt.Sprint(i)}
			if err := ev.Sign(aliceSecret); err != nil {
				t.Error(err)
				return
			}
			if err := alice.ws.Write(context.Background(), websocket.MessageText, nip01.AppendEventMessage(nil, &ev)); err != nil {
				t.Error(err)
				return
			}
			if m, err := alice.read(); err != nil || !m.Accepted {
				t.Errorf("%v %v", m, err)
				return
			}
		}
	})
	var readers sync.WaitGroup
	for n := range 8 {
		p := r.dial()
		readers.Go(func() {
			// Each begins at another point of the stream.
			for range n {
				_ = p.ws.Write(context.Background(), websocket.MessageText, []byte(`["REQ","early",{"kinds":[1]}]`))
				for m, err := p.read(); err == nil && m.Label != nip01.LabelEOSE; m, err = p.read() {
				}
			}
			_ = p.ws.Write(context.Background(), websocket.MessageText, []byte(`["CLOSE","early"]`))
			_ = p.ws.Write(context.Background(), websocket.MessageText, []byte(`["REQ","s",{"kinds":[1]}]`))
			got := map[string]int{}
			for len(got) < total {
				m, err := p.read()
				if err != nil {
					t.Errorf("reader %d has %d: %v", n, len(got), err)
					return
				}
				if m.SubID == "s" && m.Label == nip01.LabelEvent {
					if got[m.Event.Content]++; got[m.Event.Content] > 1 {
						t.Errorf("reader %d got %s twice", n, m.Event.Content)
					}
				}
			}
		})
	}
	publishing.Wait()
	readers.Wait()
}

func TestQueue(t *testing.T) {
	f := frame{text: []byte(strings.Repeat("x", 1000-frameOverhead))}
	q := newQueue(4000, &host{})
	for range 4 {
		if !q.push(f) {
			t.Fatal("refused below the limit")
		}
	}
	if q.push(frame{}) {
		t.Error("accepted above the limit")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("wait on a full queue: %v", err)
	}
	first, err := q.next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if q.push(f) {
		t.Error("a frame under way is not charged")
	}
	waited := make(chan error, 1)
	go func() { waited <- q.wait(t.Context()) }()
	q.done(first)
	second, err := q.next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	q.done(second) // half is free
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if q.claim(f) {
		t.Error("a frame is written before those that wait")
	}
	for range 2 {
		f, err := q.next(t.Context())
		if err != nil {
			t.Error(err)
		}
		q.done(f)
	}
	if !q.claim(f) || q.claim(f) {
		t.Error("want one frame to be written at a time")
	}
	q.push(frame{text: []byte("later")})
	q.putBack(f)
	if got, err := q.next(t.Context()); err != nil || len(got.text) != len(f.text) {
		t.Errorf("after a frame was put back: %.10s, %v", got.text, err)
	} else {
		q.done(got)
	}
	if got, err := q.next(t.Context()); err != nil || string(got.text) != "later" {
		t.Errorf("the next: %s, %v", got.text, err)
	} else {
		q.done(got)
	}
	if _, err := q.next(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("next on an empty queue: %v", err)
	}
}

// TestOneBadEventSpoilsNoBatch stores a batch of which one event breaks a
// CHECK of the schema: the others are stored and acknowledged.
func TestOneBadEventSpoilsNoBatch(t *testing.T) {
	srv, err := New(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	at := srv.hosts.join("192.0.2.1")
	c := &client{srv: srv, out: newQueue(1<<20, at), inFlight: semaphore.NewWeighted(3), host: at}
	srv.deliveries.join(&c.toSpread, &at.toSpread)
	var batch []*job
	for i := range 3 {
		ev := note(t, fmt.Sprint(i), 0)
		if i == 1 {
			ev.ID = "00" // cannot happen behind the parser
		}
		if err := c.enterFlight(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		batch = append(batch, &job{client: c, event: &ev, raw: nip01.Marshal(&ev), cost: 1})
	}
	srv.ingest(batch)
	close(srv.spread)
	srv.spreadLoop()
	var answers []string
	for range 3 {
		f, err := c.out.next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, string(f.text))
		c.out.done(f)
	}
	want := []string{
		string(nip01.AppendOK(nil, "00", false, "error: could not store the event")),
		string(nip01.AppendOK(nil, batch[0].event.ID, true, "")),
		string(nip01.AppendOK(nil, batch[2].event.ID, true, "")),
	}
	if !slices.Equal(answers, want) || !c.inFlight.TryAcquire(3) || !at.inFlight.TryAcquire(256) {
		t.Errorf("answers %q, or some are still in flight", answers)
	}
}

// TestBlobUploadsAndDeletionsMeet runs them for one blob at once: afterwards
// the count of bytes is right and the file is there exactly if the row is.
func TestBlobUploadsAndDeletionsMeet(t *testing.T) {
	r := start(t, Config{})
	const data = "contended"
	hash := sha(data)
	var all sync.WaitGroup
	for _, secret := range []string{aliceSecret, bobSecret} {
		up, down := authFor(t, secret, "upload", hash, nil), authFor(t, secret, "delete", hash, nil)
		for range 5 {
			all.Go(func() { r.request(t, http.MethodPut, "/upload", up, strings.NewReader(data)) })
			all.Go(func() { r.request(t, http.MethodDelete, "/"+hash, down, nil) })
		}
	}
	all.Wait()
	resp, got := r.request(t, http.MethodGet, "/"+hash, "", nil)
	var want int64
	switch {
	case resp.StatusCode == http.StatusOK && got == data:
		want = int64(len(data)) + r.srv.blobs.owners(t, data)*ownedCost
	case resp.StatusCode != http.StatusNotFound:
		t.Errorf("GET: %d %q", resp.StatusCode, got)
	}
	if r.srv.blobs.room.used() != want {
		t.Errorf("%d bytes counted, want %d", r.srv.blobs.room.used(), want)
	}
	assertNoTempFiles(t, r)
}

// FuzzAuthorization decodes what a stranger puts into the header.
func FuzzAuthorization(f *testing.F) {
	f.Add("Nostr e30=")
	f.Add("nostr eyJpZCI6IiJ9")
	f.Add("Nostr ")
	f.Add("Bearer x")
	f.Fuzz(func(t *testing.T, header string) {
		ev, err := authEvent(header)
		if err == nil && !nostr.IsValid32ByteHex(ev.PubKey) {
			t.Errorf("accepted %q", header)
		}
	})
}

// deadlines notes those for writing the answer.
type deadlines struct {
	*httptest.ResponseRecorder
	write []time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.write = append(d.write, at)
	return nil
}

func (d *deadlines) SetReadDeadline(time.Time) error { return nil }

// Connections are kept, so no answer may be left with the deadline of the one
// before: a connection that a blob was fetched by serves uploads for longer.
func TestEveryAnswerHasItsTime(t *testing.T) {
	h := start(t, Config{}).srv.handler(t.Context())
	for _, c := range []struct{ method, path string }{
		{http.MethodPut, "/upload"},
		{http.MethodGet, "/" + sha("no blob")},
		{http.MethodDelete, "/" + sha("no blob")},
		{http.MethodGet, "/"},
	} {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if len(w.write) == 0 || !w.write[0].After(time.Now().Add(transferTimeout)) {
			t.Errorf("%s %s: deadlines %v", c.method, c.path, w.write)
		}
	}
}
