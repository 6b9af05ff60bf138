package relay

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// CourierConfig says where a Courier may go. The zero value allows wss:// to
// public addresses that are not this machine's, at port 443 and most from 1024 on.
type CourierConfig struct {
	// AllowLoopback allows this machine, with ws:// too.
	AllowLoopback bool
	// Timeout bounds one errand, from the dial to the OK; 10 s.
	Timeout time.Duration
}

// Courier brings single events to relays that strangers name: one connection,
// one event, one answer. It goes to no address that a stranger must not lead to.
type Courier struct {
	guard   guard
	timeout time.Duration
	clients map[string]*http.Client // by scheme, of http
}

// courierMessages is how many messages are read in wait for the OK.
const courierMessages = 16

// NewCourier makes a courier. It keeps no connections.
func NewCourier(cfg CourierConfig) *Courier {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	c := &Courier{guard: guard{loopback: cfg.AllowLoopback, others: true, ports: true}, timeout: cfg.Timeout, clients: map[string]*http.Client{}}
	for _, scheme := range []string{"http", "https"} {
		c.clients[scheme] = c.guard.client(scheme, cfg.Timeout, 0)
	}
	return c
}

// Publish offers a signed event to the relay at a stranger's address.
func (c *Courier) Publish(ctx context.Context, address string, ev nostr.Event) PublishResult {
	r := PublishResult{URL: address}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r.OK, r.Message, r.Err = c.errand(ctx, address, &ev)
	return r
}

func (c *Courier) errand(ctx context.Context, address string, ev *nostr.Event) (accepted bool, text string, err error) {
	rest, ok := strings.CutPrefix(address, "ws")
	u, err := c.guard.url("http" + rest)
	if err != nil || !ok {
		return false, "", fmt.Errorf("%w: %q", ErrBlockedAddress, clip(address))
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
	for range courierMessages {
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

// clip shortens an address from outside for an error.
func clip(s string) string { return s[:min(len(s), 200)] }
