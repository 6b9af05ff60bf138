package relay

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/relay/nip01"
)

// PublisherConfig limits the addresses that a [Publisher] connects to. The zero
// value allows wss:// to public addresses other than this machine's, on port 443
// and on most ports from 1024 on.
type PublisherConfig struct {
	// AllowLoopback allows this machine, with ws:// too.
	AllowLoopback bool
	// Timeout bounds one publication, from the dial to the OK; 10 s.
	Timeout time.Duration
}

// Publisher publishes single events to relays that other people name. It opens one
// connection for each event and closes it after the answer. Because the address is
// not the owner's choice, private networks and this machine are refused.
type Publisher struct {
	guard   guard
	timeout time.Duration
	clients map[string]*http.Client // by scheme, of http
}

// maxAnswers is how many messages are read before the wait for the OK is given up.
const maxAnswers = 16

// NewPublisher makes a [Publisher].
func NewPublisher(cfg PublisherConfig) *Publisher {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	c := &Publisher{guard: guard{loopback: cfg.AllowLoopback, notOwn: true, relayPorts: true}, timeout: cfg.Timeout, clients: map[string]*http.Client{}}
	for _, scheme := range []string{"http", "https"} {
		c.clients[scheme] = c.guard.client(scheme, cfg.Timeout, 0)
	}
	return c
}

// Publish sends a signed event to the relay at the address, which may come from a
// stranger.
func (c *Publisher) Publish(ctx context.Context, address string, ev nostr.Event) PublishResult {
	r := PublishResult{URL: address}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r.OK, r.Message, r.Err = c.send(ctx, address, &ev)
	return r
}

func (c *Publisher) send(ctx context.Context, address string, ev *nostr.Event) (accepted bool, text string, err error) {
	rest, ok := strings.CutPrefix(address, "ws")
	u, err := c.guard.url("http" + rest)
	if err != nil || !ok {
		return false, "", fmt.Errorf("%w: %q", ErrBlockedAddress, clip.Text(address, 200))
	}
	ws, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(u.String(), "http"), &websocket.DialOptions{
		HTTPClient: c.clients[u.Scheme], HTTPHeader: http.Header{"User-Agent": {"lightwork"}},
	})
	if err != nil {
		return false, "", fmt.Errorf("connect: %w", err)
	}
	defer ws.CloseNow()

	ws.SetReadLimit(128 << 10)
	if err := ws.Write(ctx, websocket.MessageText, nip01.EventMessage(ev)); err != nil {
		return false, "", err
	}

	for range maxAnswers {
		_, doc, err := ws.Read(ctx)
		if err != nil {
			return false, "", err
		}
		m, err := nip01.ParseRelay(doc, nip01.Limits{})
		if err == nil && m.Label == nip01.LabelOK && m.EventID == ev.ID {
			return m.Accepted, m.Text, nil
		}
	}

	return false, "", ErrTimeout
}
