package server

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// TestSlowReaderGetsWholeFrames has a subscriber that reads nothing until more
// waits for it than its connection holds, each event written as it came alone.
// Nobody waits for it, and it then gets every event whole and in order.
func TestSlowReaderGetsWholeFrames(t *testing.T) {
	r := start(t, Config{Limits: Limits{PingInterval: time.Hour, WriteTimeout: time.Hour}}) // however long publishing takes
	slow, publisher := r.dial(), r.dial()
	slow.send(`["REQ","s",{"kinds":[1],"limit":0}]`)
	slow.expect("EOSE s")
	const events = 240
	filling := strings.Repeat("x", 60<<10)
	for i := range events {
		publisher.put(note(t, fmt.Sprint(i, " ", filling), i))
		// A pong goes out between the events. The library gives it five seconds,
		// so it is asked for just before the client reads on.
		if i == events-1 {
			slow.ws.SetReadLimit(1 << 20)
			go func() { _ = slow.ws.Ping(context.Background()) }() // ends with the connection
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range events {
		_, doc, err := slow.ws.Read(ctx)
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		if want := fmt.Appendf(nil, `"content":"%d x`, i); !bytes.Contains(doc, want) || !bytes.HasSuffix(doc, []byte(`"}]`)) {
			t.Fatalf("event %d: %.300s", i, doc)
		}
	}
}

// TestHeader has a payload of each length form: what the library reads is what
// was framed.
func TestHeader(t *testing.T) {
	r := start(t, Config{Limits: Limits{MaxMessageBytes: 1 << 20, MaxEventBytes: 1 << 20}})
	p, publisher := r.dial(), r.dial()
	p.ws.SetReadLimit(1 << 20)
	p.send(`["REQ","s",{"kinds":[1],"limit":0}]`)
	p.expect("EOSE s")
	for i, size := range []int{1, 65_000, 66_000} {
		publisher.put(note(t, strings.Repeat("x", size), i))
		kind, doc, err := p.ws.Read(t.Context())
		if err != nil || kind != websocket.MessageText || !bytes.HasSuffix(doc, []byte(`"}]`)) || len(doc) < size {
			t.Errorf("content of %d bytes: %d bytes came, %v", size, len(doc), err)
		}
	}
	for length, want := range map[int]string{125: "817d", 126: "817e007e", 65535: "817effff", 65536: "817f0000000000010000"} {
		if got := fmt.Sprintf("%x", appendHeader(nil, length)); got != want {
			t.Errorf("header of %d bytes: %s, want %s", length, got, want)
		}
	}
}
