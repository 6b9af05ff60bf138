package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

func TestEventLimits(t *testing.T) {
	r := start(t, Config{Limits: Limits{MaxEventBytes: 2000, MaxTags: 3, MaxAge: time.Hour, MaxAhead: time.Minute}})
	sized := func(n int) nostr.Event {
		ev := note(t, "", 0)
		rest := n - len(nip01.Marshal(&ev))
		return note(t, strings.Repeat("x", rest), 0)
	}
	tagged := func(n int) nostr.Event {
		ev := nostr.Event{Kind: 1}
		for i := range n {
			ev.Tags = append(ev.Tags, nostr.Tag{"t", fmt.Sprint(i)})
		}
		return sign(t, aliceSecret, ev)
	}
	forged := func(change func(*nostr.Event)) nostr.Event {
		ev := note(t, "good", 0)
		change(&ev)
		return ev
	}
	for name, c := range map[string]struct {
		ev   nostr.Event
		want string
	}{
		"size at limit":    {sized(2000), "OK true "},
		"size above limit": {sized(2001), "OK false invalid: event is larger than 2000 bytes"},
		"tags at limit":    {tagged(3), "OK true "},
		"tags above limit": {tagged(4), "OK false invalid: too many elements: an event has at most 3 tags"},
		"old":              {note(t, "a", 3500), "OK true "},
		"too old":          {note(t, "b", 3700), "OK false invalid: created_at is too long ago"},
		"ahead":            {note(t, "c", -50), "OK true "},
		"too far ahead":    {note(t, "d", -120), "OK false invalid: created_at is too far ahead"},
		"wrong id":         {forged(func(ev *nostr.Event) { ev.Content = "evil" }), "OK false invalid: event id does not match"},
		"wrong signature":  {forged(func(ev *nostr.Event) { ev.Content = "evil"; ev.ID = nip01.ID(ev) }), "OK false invalid: bad signature"},
	} {
		t.Run(name, func(t *testing.T) {
			p := r.dial()
			p.publish(c.ev)
			p.expect(c.want)
		})
	}
}

func TestReqLimits(t *testing.T) {
	r := start(t, Config{Limits: Limits{MaxFilters: 2, MaxSubscriptions: 2, MaxLimit: 3, MaxFilterValues: 4, MaxSubIDBytes: 6}})
	p := r.dial()
	for i := range 5 { // far enough apart for a second that passes between two of them
		p.put(note(t, fmt.Sprint(i), 1000*i, nostr.Tag{"t", "x"}))
	}
	for _, filter := range []string{`{}`, `{"limit":100}`, `{"kinds":[1]}`, `{"#t":["x"],"limit":4}`} {
		if got := p.stored(filter); got != "0 1 2" {
			t.Errorf("%s: %q, want the newest 3", filter, got)
		}
	}
	p.send(`["REQ","many",{},{},{}]`)
	p.expect("CLOSED many invalid: too many elements: a request has at most 2 filters")
	p.send(`["REQ","wide",{"kinds":[1,2,3,4,5]}]`)
	p.expect("CLOSED wide invalid: too many elements: a list of a filter has at most 4 values")
	p.send(`["REQ","toolong",{}]`)
	p.expect("CLOSED toolong invalid: not a message of the protocol: a subscription id has 1 to 6 bytes")
	p.send(`["REQ","odd",{"search":"x"}]`)
	p.expect("CLOSED odd unsupported: filter contains unknown elements")
	for _, id := range []string{"a", "b"} {
		p.send(`["REQ","` + id + `",{"kinds":[9]}]`)
		p.expect("EOSE " + id)
	}
	p.send(`["REQ","c",{"kinds":[9]}]`)
	p.expect("CLOSED c rate-limited: more than 2 subscriptions")
	p.send(`["REQ","a",{"kinds":[8]}]`) // overwriting is no further one
	p.expect("EOSE a")
	p.send(`["CLOSE","b"]`)
	p.send(`["REQ","c",{"kinds":[9]}]`)
	p.expect("EOSE c")
}

func TestGarbage(t *testing.T) {
	r := start(t, Config{Limits: Limits{MaxMessageBytes: 4000}})
	p := r.dial()
	for doc, want := range map[string]string{
		"":                          "NOTICE invalid: not valid JSON",
		"garbage":                   "NOTICE invalid: not valid JSON",
		"{}":                        "NOTICE invalid: not a message of the protocol",
		`["EVENT",{}]`:              "NOTICE invalid: not a message of the protocol",
		`["COUNTS","x",{}]`:         "NOTICE invalid: message type is not supported",
		`["CLOSE",""]`:              "NOTICE invalid: not a message of the protocol: a subscription id has 1 to 64 bytes",
		`["AUTH","x"]`:              "NOTICE invalid: not a message of the protocol",
		strings.Repeat("[", 3000):   "NOTICE invalid: nested too deeply",
		`["CLOSE","x"]` + "\x00":    "NOTICE invalid: not valid JSON",
		`["REQ","x",{"ids":["y"]}]`: "CLOSED x invalid: not a message of the protocol",
	} {
		p.send(doc)
		p.expect(want)
	}
	p.send(`["NEG-OPEN","sync",{"kinds":[1]},"6100000200"]`)
	if got := p.text(); got != `["NEG-ERR","sync","blocked: this relay has no negentropy (NIP-77), ask with REQ"]` {
		t.Errorf("got %s", got)
	}
	p.send(`["NEG-MSG","sync","61"]`)
	if got := p.text(); !strings.HasPrefix(got, `["NEG-ERR","sync","blocked: `) {
		t.Errorf("got %s", got)
	}
	p.put(note(t, "the connection lives", 0))
	p.send(strings.Repeat(" ", 8*4000+1)) // far too long to be read past
	p.closed()

	binary := r.dial()
	if err := binary.ws.Write(t.Context(), websocket.MessageBinary, []byte(`["CLOSE","x"]`)); err != nil {
		t.Fatal(err)
	}
	binary.closed()
}

// TestLongMessages: what is longer than a message may be is named in the answer
// and skipped.
func TestLongMessages(t *testing.T) {
	r := start(t, Config{})
	p := r.dial()
	authors := make([]string, 3000)
	for i := range authors {
		authors[i] = fmt.Sprintf("%064x", i)
	}
	list, err := json.Marshal(authors)
	if err != nil {
		t.Fatal(err)
	}
	p.send(`["REQ","many",{"authors":` + string(list) + `}]`)
	p.expect("CLOSED many invalid: message is larger than 131072 bytes")
	p.send(`["COUNT","many",{"authors":` + string(list) + `}]`)
	p.expect("CLOSED many invalid: message is larger than 131072 bytes")
	p.publish(note(t, strings.Repeat("x", 200_000), 0))
	p.expect("OK false invalid: message is larger than 131072 bytes")
	p.send(`["CLOSE",` + strings.Repeat(" ", 200_000) + `"x"]`)
	p.expect("NOTICE invalid: message is larger than 131072 bytes")
	long := strings.Repeat("x", 65)
	p.send(`["REQ","` + long + `",{}]`)
	if got := p.text(); got != `["CLOSED","`+long+`","invalid: not a message of the protocol: a subscription id has 1 to 64 bytes"]` {
		t.Errorf("got %s", got)
	}
	p.put(note(t, "the connection lives", 0))
}

func TestRateLimit(t *testing.T) {
	r := start(t, Config{Limits: Limits{MessageBurst: 3}})
	r.srv.cfg.Limits.MessagesPerSecond = 0 // nothing is added during the test
	p := r.dial()
	p.put(note(t, "1", 0))
	p.put(note(t, "2", 1))
	p.send(`["REQ","s",{"limit":0}]`)
	p.expect("EOSE s")
	p.publish(note(t, "3", 2))
	p.expect("OK false rate-limited: slow down")
	p.send(`["REQ","t",{}]`)
	p.expect("CLOSED t rate-limited: slow down")
	r.dial().put(note(t, "4", 3)) // another connection has its own
	p.send("garbage")
	p.closed()
}

func TestMaxConnections(t *testing.T) {
	r := start(t, Config{Limits: Limits{MaxConnections: 2}})
	first, second := r.dial(), r.dial()
	second.put(note(t, "x", 0)) // both are served
	first.put(note(t, "y", 0))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, resp, err := websocket.Dial(ctx, "ws://"+r.addr, nil)
	if err == nil || resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("third connection: %v %v", resp, err)
	}
	_ = first.ws.CloseNow()
	for { // the place is free again once the relay has noticed
		ws, _, err := websocket.Dial(ctx, "ws://"+r.addr, nil)
		if err == nil {
			_ = ws.CloseNow()
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// TestSlowReader has a client that subscribes and never reads: it is dropped
// when its queue is full, and the publisher and other readers do not notice.
func TestSlowReader(t *testing.T) {
	r := start(t, Config{Limits: Limits{MaxQueueBytes: 4 << 20}})
	slow, good, alice := r.dial(), r.dial(), r.dial()
	for _, p := range []*peer{slow, good} {
		p.send(`["REQ","s",{"kinds":[1]}]`)
		p.expect("EOSE s")
	}
	content := strings.Repeat("x", 60<<10)
	received := make(chan error, 1)
	const total = 200 // 12 MB, more than the queue and the socket buffers hold
	go func() {
		for range total {
			if m, err := good.read(); err != nil || m.Label != nip01.LabelEvent {
				received <- errors.Join(err, errors.New(summary(m)))
				return
			}
		}
		received <- nil
	}()
	for i := range total {
		alice.put(note(t, content+fmt.Sprint(i), 0))
	}
	if err := <-received; err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		if _, err := slow.read(); err != nil {
			if n >= total || errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("the slow client was kept: %d events, %v", n, err)
			}
			return
		}
	}
}

// TestSilentClient has a client that reads everything and answers no ping.
func TestSilentClient(t *testing.T) {
	r := start(t, Config{Limits: Limits{PingInterval: 10 * time.Millisecond, WriteTimeout: 20 * time.Millisecond}})
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", r.addr)
	got, err := io.ReadAll(conn) // until the relay ends the connection
	if !bytes.HasPrefix(got, []byte("HTTP/1.1 101")) || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestLongAnswerWaits checks that stored events are held back for a reader
// that is merely slower than the disk: an answer larger than the queue arrives
// whole.
func TestLongAnswerWaits(t *testing.T) {
	r := start(t, Config{Limits: Limits{MaxQueueBytes: 200 << 10}})
	alice := r.dial()
	content := strings.Repeat("x", 30<<10)
	const total = 60
	for i := range total {
		alice.put(note(t, content+fmt.Sprint(i), 0))
	}
	got := strings.Fields(alice.stored(`{"kinds":[1]}`))
	if len(got) != total {
		t.Errorf("%d of %d events", len(got), total)
	}
}

func TestManyPublishers(t *testing.T) {
	r := start(t, Config{})
	const clients, each = 16, 20
	events := make([][]nostr.Event, clients)
	for c := range clients {
		for i := range each {
			events[c] = append(events[c], note(t, fmt.Sprintf("%d-%d", c, i), 0))
		}
	}
	reader := r.dial()
	reader.send(`["REQ","s",{"kinds":[1]}]`)
	reader.expect("EOSE s")
	errs := make(chan error, clients)
	for c := range clients {
		p := r.dial()
		go func() {
			for i := range events[c] {
				doc := nip01.AppendEventMessage(nil, &events[c][i])
				if err := p.ws.Write(context.Background(), websocket.MessageText, doc); err != nil {
					errs <- err
					return
				}
			}
			for range events[c] {
				if m, err := p.read(); err != nil || summary(m) != "OK true " {
					errs <- errors.Join(err, errors.New(summary(m)))
					return
				}
			}
			errs <- nil
		}()
	}
	seen := map[string]bool{}
	for range clients * each {
		m := reader.next()
		if seen[m.Event.ID] {
			t.Errorf("twice: %s", m.Event.Content)
		}
		seen[m.Event.ID] = true
	}
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if st := r.srv.store.db.Stats(); st.Commits >= clients*each {
		t.Errorf("%d commits for %d events: no sharing", st.Commits, clients*each)
	}
}

func BenchmarkIngest(b *testing.B) {
	r := start(b, Config{Limits: Limits{MessageBurst: 1 << 30}})
	p := r.dial()
	events := make([][]byte, b.N)
	for i := range events {
		ev := note(b, fmt.Sprint(i), 0, nostr.Tag{"p", strings.Repeat("a", 64)}, nostr.Tag{"t", "x"})
		events[i] = nip01.AppendEventMessage(nil, &ev)
	}
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for _, doc := range events {
			if p.ws.Write(context.Background(), websocket.MessageText, doc) != nil {
				return
			}
		}
	}()
	for range b.N {
		p.expect("OK true ")
	}
}
