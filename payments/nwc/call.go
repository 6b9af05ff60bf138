package nwc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/relay"
)

// maxPending bounds the unanswered requests.
const maxPending = 4096

// pendingCall is an unanswered request.
type pendingCall struct {
	method Method
	scheme Scheme
	until  time.Time // the time at which it can be dropped
	// deliver receives the answer, once, with Client.mu held; it must not block.
	deliver func(result jsontext.Value, err error)
}

// sealedRequest is a sealed and signed request that was not yet sent.
type sealedRequest struct {
	event  nostr.Event
	scheme Scheme
}

// prepare seals and signs a request. If it fails, nothing was sent.
func (c *Client) prepare(ctx context.Context, m Method, params any, timeout time.Duration) (sealedRequest, error) {
	info, err := c.Info(ctx)
	if err != nil {
		return sealedRequest{}, err
	}
	if !info.Has(m) {
		return sealedRequest{}, fmt.Errorf("%w: it does not offer %s", payments.ErrUnsupported, m)
	}

	raw, err := json.Marshal(params)
	if err != nil {
		return sealedRequest{}, fmt.Errorf("word %s: %w", m, err)
	}
	doc, err := json.Marshal(request{Method: m, Params: raw})
	if err != nil {
		return sealedRequest{}, fmt.Errorf("word %s: %w", m, err)
	}
	content, err := c.channel.seal(info.Encryption, doc)
	if err != nil {
		return sealedRequest{}, fmt.Errorf("%w: %w", payments.ErrBadRequest, err)
	}
	p := sealedRequest{scheme: info.Encryption}
	p.event = nostr.Event{
		Kind: kindRequest, CreatedAt: nostr.Now(), Content: content,
		Tags: nostr.Tags{
			{"p", c.cfg.Connection.Wallet},
			{"encryption", string(info.Encryption)},
			// Relays and the wallet must not keep the request for later.
			{"expiration", strconv.FormatInt(time.Now().Add(timeout).Unix()+1, 10)},
		},
	}
	return p, c.cfg.Connection.Secret.sign(&p.event)
}

// expect registers the request, so that its answer is passed to deliver.
func (c *Client) expect(p sealedRequest, m Method, keep time.Duration, deliver func(jsontext.Value, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	if len(c.pending) >= maxPending {
		for id, old := range c.pending {
			if time.Now().After(old.until) {
				delete(c.pending, id)
			}
		}
	}

	if len(c.pending) >= maxPending {
		return fmt.Errorf("%w: too many unanswered requests", payments.ErrWalletUnavailable)
	}
	c.pending[p.event.ID] = &pendingCall{method: m, scheme: p.scheme, until: time.Now().Add(keep), deliver: deliver}
	return nil
}

// wrapUnclear marks a malformed answer: the request may have taken effect anyway.
func wrapUnclear(err error) error {
	if errors.Is(err, ErrAnswer) {
		return fmt.Errorf("%w: %w", payments.ErrWalletUnavailable, err)
	}
	return err
}

func (c *Client) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// publish returns nil if a relay accepted the request.
func (c *Client) publish(ctx context.Context, p sealedRequest) error {
	results := c.pool.PublishQuorum(ctx, p.event, 1)
	if relay.Accepted(results) > 0 {
		return nil
	}
	err := results[0].Err
	if err == nil {
		err = fmt.Errorf("%s refuses: %s", results[0].URL, clip.Line(results[0].Message, 200))
	}
	return fmt.Errorf("%w: no relay accepted the request: %w", payments.ErrWalletUnavailable, err)
}

// call sends a request and waits for the answer. If there is none, even because ctx
// ended, the error is ErrWalletUnavailable: the request may have taken effect.
func (c *Client) call(ctx context.Context, m Method, params, result any) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()

	p, err := c.prepare(ctx, m, params, c.cfg.CallTimeout)
	if err != nil {
		return err
	}
	type answer struct {
		result jsontext.Value
		err    error
	}
	answers := make(chan answer, 1)
	err = c.expect(p, m, c.cfg.CallTimeout, func(r jsontext.Value, err error) { answers <- answer{r, err} })
	if err != nil {
		return err
	}
	defer c.forget(p.event.ID)

	if err := c.publish(ctx, p); err != nil {
		return err
	}

	select {
	case a := <-answers:
		if a.err == nil {
			a.err = decodeResult(a.result, result)
		}
		return wrapUnclear(a.err)
	case <-c.ended:
		return fmt.Errorf("%w: the connection is closed", payments.ErrWalletUnavailable)
	case <-ctx.Done():
		return fmt.Errorf("%w: no answer to %s: %w", payments.ErrWalletUnavailable, m, ctx.Err())
	}
}

// onAnswer passes an answer to the waiting call. An answer without an open request
// is late, or an old one that a relay sent again.
func (c *Client) onAnswer(ev *nostr.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for _, t := range ev.Tags {
		if len(t) < 2 || t[0] != "e" {
			continue
		}
		call, ok := c.pending[t[1]]
		if !ok {
			continue
		}
		delete(c.pending, t[1])
		doc, err := c.channel.open(call.scheme, ev.Content)
		if err != nil {
			call.deliver(nil, fmt.Errorf("%w: %w", ErrAnswer, err))
			return
		}
		call.deliver(parseResponse(doc, call.method))
		return
	}

	c.cfg.Log.Debug("an answer without an open request", "event", ev.ID)
}
