package model

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/internal/backoff"
)

// reply is one answer of a transport without a network: pieces of a body, with
// a wait before each.
type reply struct {
	status int
	header http.Header
	before time.Duration // the headers
	wait   time.Duration // each piece
	pieces []string
	hang   bool // after the last piece, instead of the end
	cut    bool // the same
	err    error
	typ    string
}

// transport plays replies; the last is for all that follow.
type transport struct {
	replies []reply
	asked   []time.Time
}

func (tr *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	tr.asked = append(tr.asked, time.Now())
	a := tr.replies[min(len(tr.asked), len(tr.replies))-1]
	a.pieces = slices.Clone(a.pieces)
	if err := backoff.Sleep(r.Context(), a.before); err != nil {
		return nil, err
	}
	if a.err != nil {
		return nil, a.err
	}
	h := a.header.Clone()
	if h == nil {
		h = http.Header{}
	}
	if h.Set("Content-Type", a.typ); a.typ == "" {
		h.Set("Content-Type", mediaEvents)
	}
	if a.status == 0 {
		a.status = 200
	}
	return &http.Response{StatusCode: a.status, Header: h, ContentLength: -1, Body: io.NopCloser(&slow{r.Context(), a})}, nil
}

// slow is a body that comes in pieces.
type slow struct {
	ctx context.Context
	a   reply
}

func (s *slow) Read(p []byte) (int, error) {
	if len(s.a.pieces) == 0 {
		if s.a.hang {
			<-s.ctx.Done()
			return 0, s.ctx.Err()
		}
		if s.a.cut {
			return 0, io.ErrUnexpectedEOF
		}
		return 0, io.EOF
	}
	if err := backoff.Sleep(s.ctx, s.a.wait); err != nil {
		return 0, s.ctx.Err()
	}
	n := copy(p, s.a.pieces[0])
	if s.a.pieces[0] = s.a.pieces[0][n:]; s.a.pieces[0] == "" {
		s.a.pieces = s.a.pieces[1:]
	}
	return n, nil
}

func event(s string) string { return "data: " + s + "\n\n" }

// drip is a text in single bytes.
func drip(s string) []string { return strings.Split(s, "") }

func inBubble(t *testing.T, cfg Config, replies ...reply) (*Client, *transport) {
	cfg.BaseURL, cfg.Model = "https://api.example.com", "m"
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	tr := &transport{replies: replies}
	c.http.Transport = tr
	return c, tr
}

func TestDeadlines(t *testing.T) {
	for name, test := range map[string]struct {
		reply  reply
		stream bool
		want   error
		after  time.Duration
	}{
		"in time":                 {reply{before: 5 * time.Second, wait: 4 * time.Second, pieces: []string{event(hi), event(hi), event(stop)}}, true, nil, 17 * time.Second},
		"no header":               {reply{before: time.Hour}, true, chat.ErrTimeout, 10 * time.Second},
		"no first line":           {reply{before: time.Second, hang: true}, true, chat.ErrTimeout, 10 * time.Second},
		"no next line":            {reply{pieces: []string{event(hi)}, hang: true}, true, chat.ErrTimeout, 5 * time.Second},
		"one byte a second":       {reply{wait: time.Second, pieces: drip(event(hi))}, true, chat.ErrTimeout, 10 * time.Second},
		"one byte a second later": {reply{wait: time.Second, pieces: append([]string{event(hi)}, drip(event(hi))...)}, true, chat.ErrTimeout, 6 * time.Second},
		"comments for ever":       {reply{wait: time.Second, pieces: strings.SplitAfter(strings.Repeat(": still here\n", 1000), "\n")}, true, chat.ErrTimeout, time.Minute},
		"text for ever":           {reply{wait: time.Second, pieces: strings.SplitAfter(strings.Repeat(event(hi), 1000), "\n\n")}, true, chat.ErrTimeout, time.Minute},
		"not streamed":            {reply{typ: mediaJSON, wait: time.Second, pieces: drip(strings.Repeat("x", 1000))}, false, chat.ErrTimeout, time.Minute},
		"not streamed, at last":   {reply{typ: mediaJSON, before: 50 * time.Second, pieces: []string{`{"choices":[{"finish_reason":"stop","message":{}}]}`}}, false, nil, 50 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, tr := inBubble(t, Config{FirstByte: 10 * time.Second, Idle: 5 * time.Second, Total: time.Minute}, test.reply)
				start := time.Now()
				var onText func(string)
				if test.stream {
					onText = func(string) {}
				}
				_, err := c.Chat(t.Context(), hello(), onText)
				if took := time.Since(start); !errors.Is(err, test.want) || took != test.after || len(tr.asked) != 1 {
					t.Errorf("%v after %v, %d attempts", err, took, len(tr.asked))
				}
			})
		})
	}
}

func TestRetry(t *testing.T) {
	good := reply{pieces: []string{event(hi), event(stop)}}
	limited := func(after string) reply {
		return reply{status: 429, header: http.Header{"Retry-After": {after}}}
	}
	cut := reply{pieces: []string{event(`{"choices":[{"delta":{"role":"assistant"}}]}`)}}
	for name, test := range map[string]struct {
		replies  []reply
		want     error
		asked    int
		min, max time.Duration // how long it takes
	}{
		"429":                {[]reply{limited(""), good}, nil, 2, 250 * time.Millisecond, 500 * time.Millisecond},
		"429 seconds":        {[]reply{limited("7"), good}, nil, 2, 7 * time.Second, 7500 * time.Millisecond},
		"429 date":           {[]reply{limited("Sat, 01 Jan 2000 00:00:09 GMT"), good}, nil, 2, 9 * time.Second, 9500 * time.Millisecond},
		"429 past":           {[]reply{limited("Sat, 01 Jan 1990 00:00:09 GMT"), good}, nil, 2, 250 * time.Millisecond, 500 * time.Millisecond},
		"429 nonsense":       {[]reply{limited("-5"), limited("soon"), good}, nil, 3, 750 * time.Millisecond, 1500 * time.Millisecond},
		"429 for an hour":    {[]reply{limited("3600"), good}, chat.ErrRateLimited, 1, 0, 0},
		"429 for too long":   {[]reply{limited("40"), good}, chat.ErrRateLimited, 1, 0, 0},
		"429 beyond total":   {[]reply{limited("25"), limited("25"), limited("25"), good}, chat.ErrRateLimited, 3, 50 * time.Second, 51 * time.Second},
		"503":                {[]reply{{status: 503}, good}, nil, 2, 250 * time.Millisecond, 500 * time.Millisecond},
		"500 always":         {[]reply{{status: 500}}, chat.ErrUnavailable, 4, 1750 * time.Millisecond, 3500 * time.Millisecond},
		"refused connection": {[]reply{{err: errors.New("connection refused")}, good}, nil, 2, 250 * time.Millisecond, 500 * time.Millisecond},
		"cut before output":  {[]reply{cut, good}, nil, 2, 250 * time.Millisecond, 500 * time.Millisecond},
		"error in stream":    {[]reply{{pieces: []string{event(`{"error":{"message":"overloaded"}}`)}}, good}, nil, 2, 250 * time.Millisecond, 500 * time.Millisecond},
		"cut after text":     {[]reply{{pieces: []string{event(hi)}}, good}, chat.ErrUnavailable, 1, 0, 0},
		"cut after a call":   {[]reply{{pieces: []string{event(callDelta(0, "a"))}}, good}, chat.ErrUnavailable, 1, 0, 0},
		"half a line":        {[]reply{{pieces: []string{"data: {\"choi"}}, good}, nil, 2, 250 * time.Millisecond, 500 * time.Millisecond},
		"400":                {[]reply{{status: 400}, good}, chat.ErrRefused, 1, 0, 0},
		"401":                {[]reply{{status: 401}, good}, chat.ErrUnauthorized, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, tr := inBubble(t, Config{Attempts: 4, Total: time.Minute}, test.replies...)
				start := time.Now()
				text := ""
				got, err := c.Chat(t.Context(), hello(), func(s string) { text += s })
				took := time.Since(start)
				if !errors.Is(err, test.want) || len(tr.asked) != test.asked || took < test.min || took > test.max {
					t.Fatalf("%v after %v, %d attempts", err, took, len(tr.asked))
				}
				if err == nil && (got.Attempts != test.asked || text != "hi") {
					t.Errorf("%d attempts, %q", got.Attempts, text)
				}
				var failed *chat.Error
				if errors.As(err, &failed) && failed.Attempts != test.asked {
					t.Errorf("%+v", failed)
				}
				if name == "429 for an hour" && failed.RetryAfter != time.Hour {
					t.Errorf("%+v", failed)
				}
			})
		})
	}
}

// Half an answer may have been charged for: only none at all is asked for again.
func TestRetryWhole(t *testing.T) {
	good := reply{typ: mediaJSON, pieces: []string{`{"choices":[{"finish_reason":"stop","message":{"content":"x"}}]}`}}
	for piece, asked := range map[string]int{"": 2, "{": 1} {
		synctest.Test(t, func(t *testing.T) {
			cut := reply{typ: mediaJSON, cut: true}
			if piece != "" {
				cut.pieces = []string{piece}
			}
			c, tr := inBubble(t, Config{}, cut, good)
			_, err := c.Chat(t.Context(), hello(), nil)
			if len(tr.asked) != asked || (err == nil) != (asked == 2) || err != nil && !errors.Is(err, chat.ErrUnavailable) {
				t.Errorf("%q: %v after %d attempts", piece, err, len(tr.asked))
			}
		})
	}
}

// Waits have jitter: clients that fail together do not come back together.
func TestBackoff(t *testing.T) {
	for attempt, limit := range map[int]time.Duration{1: firstBackoff, 3: 4 * firstBackoff, 10: maxBackoff} {
		seen := map[time.Duration]bool{}
		for range 200 {
			d := retryWait(attempt, 0)
			if seen[d] = true; d < limit/2 || d >= limit {
				t.Errorf("attempt %d: %v", attempt, d)
			}
		}
		if len(seen) < 100 {
			t.Errorf("attempt %d: only %d different waits", attempt, len(seen))
		}
	}
}

// A caller who gives up while the client waits is not kept.
func TestCancelledWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := inBubble(t, Config{}, reply{status: 429, header: http.Header{"Retry-After": {"20"}}})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		if _, err := c.Chat(ctx, hello(), nil); !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
