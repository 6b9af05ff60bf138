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

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/relay"
)

// maxPending bounds the questions without an answer.
const maxPending = 4096

// pendingCall is a question whose answer is awaited.
type pendingCall struct {
	method Method
	scheme Scheme
	until  time.Time // when it may be forgotten
	// deliver takes the answer, once, with Client.mu held; it must not block.
	deliver func(result jsontext.Value, err error)
}

// prepared is a question that is sealed and signed and not yet sent.
type prepared struct {
	event  nostr.Event
	scheme Scheme
}

// prepare makes the question. Its errors mean that nothing was asked.
func (c *Client) prepare(ctx context.Context, m Method, params any, timeout time.Duration) (prepared, error) {
	info, err := c.Info(ctx)
	if err != nil {
		return prepared{}, err
	}
	if !info.Has(m) {
		return prepared{}, fmt.Errorf("%w: it does not offer %s", payments.ErrUnsupported, m)
	}

	raw, err := json.Marshal(params)
	if err != nil {
		return prepared{}, fmt.Errorf("word %s: %w", m, err)
	}
	doc, err := json.Marshal(request{Method: m, Params: raw})
	if err != nil {
		return prepared{}, fmt.Errorf("word %s: %w", m, err)
	}
	content, err := c.channel.seal(info.Encryption, doc)
	if err != nil {
		return prepared{}, fmt.Errorf("%w: %w", payments.ErrBadRequest, err)
	}
	p := prepared{scheme: info.Encryption}
	p.event = nostr.Event{
		Kind: kindRequest, CreatedAt: nostr.Now(), Content: content,
		Tags: nostr.Tags{
			{"p", c.cfg.Connection.Wallet},
			{"encryption", string(info.Encryption)},
			// A question that lay somewhere must not be acted on later.
			{"expiration", strconv.FormatInt(time.Now().Add(timeout).Unix()+1, 10)},
		},
	}
	return p, c.cfg.Connection.Secret.sign(&p.event)
}

// expect registers the question, so that its answer finds deliver.
func (c *Client) expect(p prepared, m Method, keep time.Duration, deliver func(jsontext.Value, error)) error {
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

// unclear marks an answer that makes no sense: the question may have had its
// effect all the same.
func unclear(err error) error {
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

// publish returns nil if a relay took the question.
func (c *Client) publish(ctx context.Context, p prepared) error {
	results := c.pool.PublishQuorum(ctx, p.event, 1)
	if relay.Accepted(results) > 0 {
		return nil
	}
	err := results[0].Err
	if err == nil {
		err = fmt.Errorf("%s refuses: %s", results[0].URL, payments.Printable(results[0].Message, 200))
	}
	return fmt.Errorf("%w: no relay accepted the request: %w", payments.ErrWalletUnavailable, err)
}

// call asks and waits for the answer. No answer is ErrWalletUnavailable, also
// when ctx ends: the question may have had its effect.
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
		return unclear(a.err)
	case <-c.ended:
		return fmt.Errorf("%w: the connection is closed", payments.ErrWalletUnavailable)
	case <-ctx.Done():
		return fmt.Errorf("%w: no answer to %s: %w", payments.ErrWalletUnavailable, m, ctx.Err())
	}
}

// answered hands an answer to who asked. One that names no open question is
// late, or an old one that a relay brings again.
func (c *Client) answered(ev *nostr.Event) {
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
