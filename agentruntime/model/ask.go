package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/internal/backoff"
)

// Waits between attempts.
const (
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 8 * time.Second
	// maxRetryAfter is the longest wait that an endpoint may impose. If it asks for
	// more, we give up: a retry before that time would only add to its load.
	maxRetryAfter = 30 * time.Second
)

// question is one request, with all its attempts.
type question struct {
	path   string
	body   []byte
	stream bool
	read   func(*answer) error
}

// answer is the body of a successful attempt.
type answer struct {
	body  io.Reader // bounded in size
	media string    // mediaJSON or mediaEvents
	alive func()    // called for each line of a stream
	// partDelivered says that part of the answer was delivered: a retry might contradict
	// it.
	partDelivered bool
}

// ask repeats the request until it is answered or fails in a way that a retry
// cannot cure.
func (c *Client) ask(ctx context.Context, q question) (attempts int, err error) {
	total, cancel := context.WithTimeoutCause(ctx, c.cfg.Total, &chat.Error{Reason: chat.ErrTimeout, Detail: "in total"})
	defer cancel()

	deadline, _ := total.Deadline()
	for n := 1; ; n++ {
		again, err := c.attempt(total, q)
		if err == nil {
			return n, nil
		}
		if ctx.Err() != nil {
			return n, fmt.Errorf("ask model: %w", context.Cause(ctx))
		}

		failed := c.asError(err)
		failed.Attempts = n
		wait := retryWait(n, failed.RetryAfter)
		if !again || n == c.cfg.Attempts || failed.RetryAfter > maxRetryAfter || time.Until(deadline) < wait {
			return n, failed
		}
		c.cfg.Logger.Warn("model endpoint failed, asking again", "attempt", n, "wait", wait, "error", failed)
		if err := backoff.Sleep(total, wait); err != nil {
			return n, fmt.Errorf("ask model: %w", err)
		}
	}
}

// attempt sends the request once. again reports whether a retry is useful and safe.
func (c *Client) attempt(ctx context.Context, q question) (again bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	a := &answer{alive: func() {}}
	if q.stream {
		// One timer bounds both the wait for the first line and each wait for the
		// next.
		late := &chat.Error{Reason: chat.ErrTimeout, Detail: "waiting for a line"}
		timer := time.AfterFunc(c.cfg.FirstByte, func() { cancel(late) })
		defer timer.Stop()
		a.alive = func() { timer.Reset(c.cfg.Idle) }
	}

	defer func() {
		// The transport reports only "canceled"; the cause says why.
		if err != nil && ctx.Err() != nil {
			again, err = false, context.Cause(ctx)
		}
	}()

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+q.path, bytes.NewReader(q.body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", mediaJSON)
	req.Header.Set("Accept", mediaJSON)
	if q.stream {
		req.Header.Set("Accept", mediaEvents)
	}
	if key := c.key(); key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()

	if resp.StatusCode != http.StatusOK {
		err := c.refusal(resp)
		return err.Reason == chat.ErrRateLimited || err.Reason == chat.ErrUnavailable, err
	}
	a.media, _, _ = mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if a.media != mediaJSON && (a.media != mediaEvents || !q.stream) {
		return false, badResponse("the content type is neither JSON nor an event stream")
	}
	if resp.ContentLength > c.cfg.MaxResponse {
		return false, &chat.Error{Reason: chat.ErrTooLarge}
	}

	a.body = &limitedReader{resp.Body, c.cfg.MaxResponse}
	err = q.read(a)
	var failed *chat.Error
	if errors.As(err, &failed) {
		return !a.partDelivered && failed.Reason == chat.ErrUnavailable, err
	}
	return !a.partDelivered, err
}

// asError converts errors of the transport to *chat.Error and cleans text from the
// endpoint.
func (c *Client) asError(err error) *chat.Error {
	var failed *chat.Error
	if errors.As(err, &failed) {
		clone := *failed
		clone.Detail = c.clean(clone.Detail)
		return &clone
	}
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	return &chat.Error{Reason: chat.ErrUnavailable, Detail: c.clean(err.Error())}
}

func retryWait(attempt int, retryAfter time.Duration) time.Duration {
	if retryAfter > 0 {
		return retryAfter + rand.N(firstBackoff)
	}
	d := min(firstBackoff<<(attempt-1), maxBackoff)
	return d/2 + rand.N(d/2)
}

// retryAfter parses seconds or a date; 0 if it is neither or has passed.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// limitedReader is a reader that fails when no bytes remain.
type limitedReader struct {
	r         io.Reader
	remaining int64
}

func (b *limitedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > b.remaining+1 {
		p = p[:b.remaining+1]
	}
	n, err := b.r.Read(p)
	if b.remaining -= int64(n); b.remaining < 0 {
		return 0, &chat.Error{Reason: chat.ErrTooLarge}
	}
	return n, err
}
