package bunker

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/relay"
)

// listen passes every answer to the waiting call.
func (c *Client) listen(ctx context.Context) error {
	since := nostr.Now()
	sub, err := c.pool.Subscribe(ctx, nostr.Filters{{
		Kinds: []int{kindRPC}, Authors: []string{c.session.Signer},
		Tags: nostr.TagMap{"p": {c.session.client.PublicKey()}}, Since: &since,
	}}, relay.SubscribeOptions{})
	if err != nil {
		return fmt.Errorf("listen to the remote signer: %w", err)
	}
	defer sub.Close()

	live := sub.Ready()
	for {
		select {
		case <-live:
			live = nil
			close(c.ready)
		case in, ok := <-sub.Events():
			if !ok {
				return ctx.Err()
			}
			c.onAnswer(ctx, in.Event)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// onAnswer handles one event signed by the signer's key.
func (c *Client) onAnswer(ctx context.Context, ev nostr.Event) {
	a, err := c.open(ctx, ev.Content)
	if err != nil {
		c.garbage.Add(1)
		c.cfg.Log.Warn("remote signer", "event", ev.ID, "err", err)
		return
	}
	c.mu.Lock()
	waiting, ok := c.pending[a.ID]
	if ok && !a.isPage() {
		delete(c.pending, a.ID) // the first answer counts
	}
	c.mu.Unlock()

	switch {
	case !ok:
		c.cfg.Log.Debug("an answer without an open request", "event", ev.ID)
	case a.isPage():
		c.cfg.Approve(clip.Line(a.Error, maxPage))
	default:
		waiting <- a
	}
}

// open decrypts and parses an answer.
func (c *Client) open(ctx context.Context, content string) (answer, error) {
	text, err := c.session.client.NIP44Decrypt(ctx, c.session.Signer, content)
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return parseAnswer(text)
}

// ask sends one request and waits for its answer.
func (c *Client) ask(ctx context.Context, method string, params ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()

	select {
	case <-c.ready: // an answer before that would be lost
	case <-c.ended:
		return "", ErrClosed
	case <-ctx.Done():
		return "", fmt.Errorf("%w: none of its relays is available", ErrAway)
	}

	id, answers := c.expect()
	defer c.forget(id)

	ev, err := c.question(ctx, id, method, params)
	if err != nil {
		return "", err
	}
	unread := c.garbage.Load()
	var g errgroup.Group
	defer func() { cancel(); _ = g.Wait() }()

	unsent := make(chan error, 1)
	g.Go(func() error {
		// Publish to every relay, because the signer may listen on any of them.
		if results := c.pool.Publish(ctx, ev); relay.Accepted(results) == 0 {
			unsent <- errors.Join(results[0].Err, errors.New(clip.Line(results[0].Message, maxText)))
		}
		return nil
	})

	select {
	case a := <-answers:
		if a.Error != "" {
			return "", &RefusedError{Method: method, Text: clip.Line(a.Error, maxText)}
		}
		return a.Result, nil
	case err := <-unsent:
		return "", fmt.Errorf("%w: no relay accepted the request: %w", ErrAway, err)
	case <-c.ended:
		return "", ErrClosed
	case <-ctx.Done():
		if c.garbage.Load() > unread {
			return "", fmt.Errorf("%w: what it sent cannot be read", ErrAnswer)
		}
		return "", fmt.Errorf("%w: no answer to %s", ErrAway, method)
	}
}

// question returns the event of a request.
func (c *Client) question(ctx context.Context, id, method string, params []string) (nostr.Event, error) {
	doc, err := wordQuestion(id, method, params)
	if err != nil {
		return nostr.Event{}, err
	}
	content, err := c.session.client.NIP44Encrypt(ctx, c.session.Signer, doc)
	if err != nil {
		return nostr.Event{}, fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	ev := nostr.Event{Kind: kindRPC, CreatedAt: nostr.Now(), Content: content, Tags: nostr.Tags{{"p", c.session.Signer}}}
	return ev, c.session.client.Sign(ctx, &ev)
}

func (c *Client) expect() (id string, answers chan answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	id, answers = "lw"+strconv.FormatUint(c.lastID, 10), make(chan answer, 1)
	c.pending[id] = answers
	return id, answers
}

func (c *Client) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}
