package natswire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/lightwork-market/lightwork/cluster/wire"
)

// reconnectTime is how long to wait between two tries to reach a peer.
const reconnectTime = time.Second

// remote is a peer's server as this gateway reaches it.
type remote struct {
	wire  *Wire
	node  string
	conn  *nats.Conn // set before ready is closed
	fault error      // that kept the connection from being made, set before ready is closed
	ready chan struct{}
	wakes chan struct{}
	once  sync.Once
}

// Dial implements wire.Wire.
func (w *Wire) Dial(_ context.Context, node string) (wire.Remote, error) {
	p, ok := w.peers[node]
	if !ok {
		return nil, fmt.Errorf("%s: %w", node, wire.ErrUnknownPeer)
	}
	key, err := nkeys.FromSeed(p.Seed)
	if err != nil {
		return nil, fmt.Errorf("key for %s: %w", node, err)
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("key for %s: %w", node, err)
	}

	r := &remote{wire: w, node: node, ready: make(chan struct{}), wakes: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, wire.ErrClosed
	}
	w.dialed[r] = r.end
	go r.connect(p, nats.Nkey(public, key.Sign))
	return r, nil
}

// connect makes the connection, which then mends itself for as long as it takes.
func (r *remote) connect(p Peer, key nats.Option) {
	defer close(r.ready)
	r.conn, r.fault = nats.Connect("tls://"+p.Address, key,
		nats.Secure(pinned(p.Pin)), nats.CustomInboxPrefix(inbox(r.wire.node)), nats.Timeout(2*time.Second),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(reconnectTime), nats.ReconnectBufSize(-1), nats.IgnoreDiscoveredServers(),
		nats.PingInterval(5*time.Second), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
		nats.ReconnectHandler(func(*nats.Conn) { r.wake() }))
	if r.fault == nil {
		_, r.fault = r.conn.Subscribe(wakeSubject, func(*nats.Msg) { r.wake() })
	}
}

func (r *remote) wake() {
	select {
	case r.wakes <- struct{}{}:
	default: // it has one that nobody took yet
	}
}

// reach calls one of the peer's services, and bounds the time that it takes.
func (r *remote) reach(ctx context.Context, call func(context.Context, asker) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	select {
	case <-r.ready:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", r.node, wire.ErrUnreachable)
	}

	switch {
	case r.fault != nil:
		return fmt.Errorf("%s: %w: %w", r.node, wire.ErrUnreachable, r.fault)
	case r.conn.IsClosed():
		return wire.ErrClosed
	case !r.conn.IsConnected():
		if errors.Is(r.conn.LastError(), nats.ErrAuthorization) {
			return fmt.Errorf("%s does not know this gateway: %w", r.node, wire.ErrUnknownPeer)
		}
		return fmt.Errorf("%s: %w", r.node, wire.ErrUnreachable)
	}

	err := call(ctx, asker{r.conn, peerAPI})
	for _, lost := range []error{
		context.DeadlineExceeded, nats.ErrTimeout, nats.ErrReconnectBufExceeded, nats.ErrConnectionReconnecting, nats.ErrDisconnected,
	} {
		if errors.Is(err, lost) {
			return fmt.Errorf("%s: %w: %w", r.node, wire.ErrUnreachable, err)
		}
	}
	return fault(err)
}

func (r *remote) Info(ctx context.Context) (info wire.Info, err error) {
	err = r.reach(ctx, func(ctx context.Context, conn asker) error {
		info, err = where(ctx, conn, outboxStream)
		return err
	})
	return info, err
}

func (r *remote) Read(ctx context.Context, from uint64, count int) (all []wire.Message, err error) {
	err = r.reach(ctx, func(ctx context.Context, conn asker) error {
		all, err = read(ctx, conn, from, count)
		return err
	})
	return all, err
}

func (r *remote) Records(ctx context.Context) (all map[string][]byte, err error) {
	err = r.reach(ctx, func(ctx context.Context, conn asker) error {
		all, err = list(ctx, conn)
		return err
	})
	return all, err
}

func (r *remote) PutCursor(ctx context.Context, cursor []byte) error {
	if len(cursor) > wire.MaxCursor {
		return fmt.Errorf("cursor of %d bytes: %w", len(cursor), wire.ErrTooLarge)
	}
	return r.reach(ctx, func(ctx context.Context, conn asker) error {
		m, err := conn.RequestWithContext(ctx, cursorSubject+r.wire.node, cursor)
		if err != nil {
			return err
		}
		var answer struct {
			Error *jetstream.APIError `json:"error"`
		}
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			return err
		}
		if answer.Error != nil {
			return answer.Error
		}
		return nil
	})
}

func (r *remote) Wake() <-chan struct{} { return r.wakes }

// Close implements wire.Remote.
func (r *remote) Close() error {
	r.wire.mu.Lock()
	delete(r.wire.dialed, r)
	r.wire.mu.Unlock()
	r.end()
	return nil
}

func (r *remote) end() {
	r.once.Do(func() {
		<-r.ready
		if r.conn != nil {
			r.conn.Close()
		}
	})
}
