package cashu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip44"
	"github.com/nbd-wtf/go-nostr/nip59"

	"github.com/lightwork-market/lightwork/relay"
)

// Post sends payments over Nostr relays, as in NUT-18's transport "nostr" with
// NIP-17: a direct message, sealed and gift-wrapped to the payee's key, so that
// relays learn neither the payer nor the content.
type Post struct {
	pool   *relay.Pool
	secret string // our private key, in hex
	public string
}

var _ MessageTransport = (*Post)(nil)

const (
	kindMessage = 14   // NIP-17
	kindWrap    = 1059 // NIP-59
	// mailKept is how long before our start a message may have been sent; older
	// payments have been taken back. A wrap may be dated two days early.
	mailKept = 4 * 24 * time.Hour
)

// NewPost checks the relay addresses and that there is a seed (ErrSeed). It does
// not connect; Receive does.
func NewPost(seed Seed, relays []string, log *slog.Logger) (*Post, error) {
	if seed.secret == nil {
		return nil, fmt.Errorf("open relays for payments: %w", ErrSeed)
	}
	key := seed.nodeKey()
	p := &Post{secret: scalarText(&key.Key), public: pointText(key.PubKey())[2:]}
	var err error
	p.pool, err = relay.NewPool(relay.Config{URLs: relays, Log: log, Signer: p})
	if err != nil {
		return nil, fmt.Errorf("open relays for payments: %w", err)
	}
	return p, nil
}

// PublicKey is the wallet's key. Relays that keep such messages private ask for it.
func (p *Post) PublicKey() string { return p.public }

// Sign signs with the wallet's key.
func (p *Post) Sign(_ context.Context, ev *nostr.Event) error { return ev.Sign(p.secret) }

// Send wraps the message and returns when one relay has stored it.
func (p *Post) Send(ctx context.Context, to string, message []byte) error {
	conversation, err := nip44.GenerateConversationKey(to, p.secret)
	if err != nil {
		return errors.New("seal payment: not a key of the payee") // the cause may quote our key
	}
	rumor := nostr.Event{
		Kind: kindMessage, PubKey: p.public, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"p", to}}, Content: string(message),
	}
	rumor.ID = rumor.GetID()
	wrap, err := nip59.GiftWrap(rumor, to,
		func(text string) (string, error) { return nip44.Encrypt(text, conversation) },
		func(ev *nostr.Event) error { return ev.Sign(p.secret) }, nil)
	if err != nil {
		return fmt.Errorf("seal payment: %w", err)
	}

	var errs []error
	for _, r := range p.pool.PublishQuorum(ctx, wrap, 1) {
		if r.OK {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", r.URL, firstError(r.Err, errors.New("refused: "+r.Message))))
	}

	return fmt.Errorf("send payment's message: %w", errors.Join(errs...))
}

// Receive keeps the connections to the relays open, also for Send, and opens the
// messages to our key. Messages that cannot be opened are ignored.
func (p *Post) Receive(ctx context.Context, arrived func(message []byte)) error {
	var serving sync.WaitGroup
	defer serving.Wait()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	serving.Go(func() { _ = p.pool.Serve(ctx) }) // always returns nil
	since := nostr.Timestamp(time.Now().Add(-mailKept).Unix())
	sub, err := p.pool.Subscribe(ctx, []nostr.Filter{{
		Kinds: []int{kindWrap}, Tags: nostr.TagMap{"p": {p.public}}, Since: &since,
	}}, relay.SubscribeOptions{})
	if err != nil {
		return fmt.Errorf("subscribe to payments: %w", err)
	}
	defer sub.Close()

	for {
		select {
		case in, ok := <-sub.Events():
			if !ok {
				return ctx.Err()
			}
			if message, err := p.open(in.Event); err == nil {
				arrived(message)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// open unwraps an event. The sender is not checked, because the notes carry their
// value themselves.
func (p *Post) open(ev nostr.Event) ([]byte, error) {
	rumor, err := nip59.GiftUnwrap(ev, func(other, text string) (string, error) {
		if !nostr.IsValidPublicKey(other) {
			return "", ErrMessage
		}
		key, err := nip44.GenerateConversationKey(other, p.secret)
		if err != nil {
			return "", ErrMessage
		}
		return nip44.Decrypt(text, key)
	})
	if err != nil || rumor.Kind != kindMessage {
		return nil, fmt.Errorf("%w: not a direct message", ErrMessage)
	}
	return []byte(rumor.Content), nil
}
