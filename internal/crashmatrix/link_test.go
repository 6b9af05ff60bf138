//go:build lnd

package crashmatrix

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
)

// link is a proxy before a relay: it names each message, and can stop before it
// is forwarded. Blobs pass.
type link struct {
	who   string
	trap  *trap
	relay string // host:port
	blobs http.Handler
	line  *line

	mu    sync.Mutex
	names map[string]string // event id -> what the event is
}

func newLink(t *testing.T, who string, trap *trap, relay string) *link {
	t.Helper()
	blobs := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: relay})
	blobs.ErrorLog = log.New(io.Discard, "", 0)
	l := &link{who: who, trap: trap, relay: relay, blobs: blobs, line: listen(t), names: map[string]string{}}
	server := &http.Server{Handler: l, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(l.line) }()
	t.Cleanup(func() { _ = server.Close(); l.line.hangUp() })
	return l
}

func (l *link) url() string { return "ws://" + l.line.address() }

// ServeHTTP implements http.Handler.
func (l *link) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "" {
		l.blobs.ServeHTTP(rw, r)
		return
	}
	node, err := websocket.Accept(rw, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer node.CloseNow()
	relay, _, err := websocket.Dial(r.Context(), "ws://"+l.relay, nil)
	if err != nil {
		return
	}
	defer relay.CloseNow()
	node.SetReadLimit(-1)
	relay.SetReadLimit(-1)
	ctx, stop := context.WithCancel(r.Context())
	var both sync.WaitGroup
	both.Go(func() { defer stop(); l.pump(ctx, " sends ", node, relay) })
	both.Go(func() { defer stop(); l.pump(ctx, " hears ", relay, node) })
	both.Wait()
}

// pump carries messages one way until something breaks.
func (l *link) pump(ctx context.Context, verb string, from, to *websocket.Conn) {
	for {
		kind, message, err := from.Read(ctx)
		if err != nil {
			return
		}
		what := l.what(message)
		if what != "" && l.trap.see(moment(l.who+verb+what)) == drop {
			return
		}
		if to.Write(ctx, kind, message) != nil {
			return
		}
		if verb == " hears " && what != "" && to.Ping(ctx) == nil { // it has read all before the ping
			l.trap.see(moment(l.who + " has " + what))
		}
	}
}

// what names an event by kind and status ("6050", "7000-partial-1") and an
// answer by its event ("OK 6050"); "" for anything else.
func (l *link) what(message []byte) string {
	var parts []json.RawMessage
	var label, id string
	if json.Unmarshal(message, &parts) != nil || len(parts) < 2 || json.Unmarshal(parts[0], &label) != nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch label {
	case "EVENT":
		var ev nostr.Event
		if json.Unmarshal(parts[len(parts)-1], &ev) != nil {
			return ""
		}
		l.names[ev.ID] = nameOf(ev)
		return l.names[ev.ID]
	case "OK":
		if json.Unmarshal(parts[1], &id) == nil && l.names[id] != "" {
			return "OK " + l.names[id]
		}
	}
	return ""
}

func nameOf(ev nostr.Event) string {
	name := strconv.Itoa(ev.Kind)
	if t := ev.Tags.Find("status"); t != nil {
		name += "-" + t[1]
		var part struct{ Seq int }
		if t[1] == "partial" && json.Unmarshal([]byte(ev.Content), &part) == nil {
			name += "-" + strconv.Itoa(part.Seq)
		}
	}
	return name
}
