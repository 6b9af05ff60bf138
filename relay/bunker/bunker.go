// Package bunker is the client side of NIP-46: a remote signer, reached over
// relays, holds the key and signs events.
//
// The signer is trusted as little as possible. Its answers are bounded and parsed
// strictly, signed events are compared with the requested ones and with the key
// that the signer had when it was connected, and a slow or silent signer costs only
// the caller a timeout.
package bunker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/nip01"
)

// kindRPC is the kind of requests and answers; relays do not store it.
const kindRPC = 24133

// The supported methods of NIP-46.
const (
	methodConnect   = "connect"
	methodPublicKey = "get_public_key"
	methodSign      = "sign_event"
	methodEncrypt   = "nip44_encrypt"
	methodDecrypt   = "nip44_decrypt"
	methodEncrypt04 = "nip04_encrypt"
	methodDecrypt04 = "nip04_decrypt"
)

// Config has the options of a client besides its session.
type Config struct {
	Log     *slog.Logger  // nil: nothing is logged
	Timeout time.Duration // for one answer; 30 s
	// Approve is called with the page on which the signer's owner must agree before
	// the signer answers. The text is printable. If Approve is nil, it is logged.
	// It must not block.
	Approve func(page string)
}

// Client sends requests to one signer. Its methods are safe for concurrent use;
// before Serve runs, they wait for it.
type Client struct {
	session Session
	cfg     Config
	pool    *relay.Pool
	ready   chan struct{} // closed once answers can be received
	ended   chan struct{} // closed when Serve has returned
	garbage atomic.Int64  // count of unreadable answers

	mu      sync.Mutex
	lastID  uint64
	pending map[string]chan answer // by the id of the request; capacity 1
}

var _ relay.Signer = (*Client)(nil)

// New returns a client for the session. Serve connects it.
func New(s Session, cfg Config) (*Client, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.Approve == nil {
		log := cfg.Log
		cfg.Approve = func(page string) { log.Warn("the remote signer waits for its owner", "page", page) }
	}

	pool, err := relay.NewPool(relay.Config{URLs: s.Relays, Log: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("remote signer: %w", err)
	}

	return &Client{
		session: s, cfg: cfg, pool: pool,
		ready: make(chan struct{}), ended: make(chan struct{}), pending: map[string]chan answer{},
	}, nil
}

// Serve keeps the signer's relays connected until ctx ends. It must be called only
// once.
func (c *Client) Serve(ctx context.Context) error {
	defer close(c.ended)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.pool.Serve(ctx) })
	g.Go(func() error { return c.listen(ctx) })
	return g.Wait()
}

// PublicKey is the signer's signing key, in hex. It is part of the session, so that
// a node can start while its signer is unreachable.
func (c *Client) PublicKey() string { return c.session.User }

// Status describes the signer's relays.
func (c *Client) Status() []relay.Status { return c.pool.Status() }

// Sign has the signer sign exactly this event with exactly our key. The errors are
// those of this package.
func (c *Client) Sign(ctx context.Context, ev *nostr.Event) error {
	if !slices.Contains(c.session.Kinds, ev.Kind) {
		return fmt.Errorf("sign kind %d: %w; connect it again with that kind", ev.Kind, ErrKind)
	}
	want := *ev
	want.PubKey = c.session.User
	want.Sig = ""
	want.ID = want.GetID()
	doc, err := wordEvent(&want)
	if err != nil {
		return err
	}
	text, err := c.ask(ctx, methodSign, doc)
	if err != nil {
		return fmt.Errorf("sign kind %d: %w", ev.Kind, err)
	}
	if want.Sig, err = signature(text, &want); err != nil {
		return fmt.Errorf("sign kind %d: %w", ev.Kind, err)
	}
	if err := nip01.Verify(&want); err != nil {
		return fmt.Errorf("sign kind %d: %w: %w", ev.Kind, ErrOtherEvent, err)
	}

	*ev = want
	return nil
}

// NIP44Encrypt has a text encrypted for the peer (hex).
func (c *Client) NIP44Encrypt(ctx context.Context, peer, text string) (string, error) {
	return c.ask(ctx, methodEncrypt, peer, text)
}

// NIP44Decrypt has a text decrypted that the peer encrypted for our key.
func (c *Client) NIP44Decrypt(ctx context.Context, peer, sealed string) (string, error) {
	return c.ask(ctx, methodDecrypt, peer, sealed)
}

// NIP04Encrypt has a text encrypted in the old, weak scheme.
func (c *Client) NIP04Encrypt(ctx context.Context, peer, text string) (string, error) {
	return c.ask(ctx, methodEncrypt04, peer, text)
}

// NIP04Decrypt has a text decrypted in the old, weak scheme.
func (c *Client) NIP04Decrypt(ctx context.Context, peer, hidden string) (string, error) {
	return c.ask(ctx, methodDecrypt04, peer, hidden)
}

// Connect connects to the signer at an address, requests permission to have these
// kinds signed, and pins the key that it will sign with.
func Connect(ctx context.Context, at Address, kinds []int, cfg Config) (Session, error) {
	client, err := relay.GenerateKey()
	if err != nil {
		return Session{}, err
	}
	s := Session{Signer: at.Signer, Relays: at.Relays, Kinds: kinds, client: client}
	c, err := New(s, cfg)
	if err != nil {
		return Session{}, err
	}
	serve, stop := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error { return c.Serve(serve) })
	s.User, err = c.introduce(ctx, at)
	stop()
	_ = g.Wait() // ended by cancel
	if err != nil {
		return Session{}, fmt.Errorf("connect to %s: %w", at, err)
	}
	return s, nil
}

func (c *Client) introduce(ctx context.Context, at Address) (user string, err error) {
	reply, err := c.ask(ctx, methodConnect, at.Signer, at.secret, permissions(c.session.Kinds))
	if err != nil {
		return "", err
	}
	if reply != "ack" && (at.secret == "" || reply != at.secret) {
		return "", fmt.Errorf("%w: it is neither ack nor the secret", ErrAnswer)
	}
	if user, err = c.ask(ctx, methodPublicKey); err != nil {
		return "", err
	}

	user = strings.ToLower(user)
	if !nostr.IsValidPublicKey(user) {
		return "", fmt.Errorf("%w: it has no public key", ErrAnswer)
	}
	return user, nil
}
