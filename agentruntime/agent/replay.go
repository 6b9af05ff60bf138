package agent

import (
	"crypto/sha256"
	"sync"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

const (
	replayEntries = 1024
	replayBytes   = 16 << 20
)

// replayCache gives a call with a known idempotency key the outcome of the
// first one instead of running it again (OS-4.3.1.6). It lives as long as the
// session. Outcomes that a retry should change are not kept: retryable
// failures and cancellations.
type replayCache struct {
	mu      sync.Mutex
	entries map[string]*replayEntry
	order   []string // finished entries, oldest first
	bytes   int
}

type replayEntry struct {
	input  [sha256.Size]byte
	done   chan struct{}
	result *wire.ToolResult // set before done is closed; nil: not kept
}

// do runs execute, or waits for and repeats the outcome of the call that had
// the same tool and key before.
func (r *replayCache) do(c *Call, execute func() *wire.ToolResult) *wire.ToolResult {
	if c.IdempotencyKey == "" {
		return execute()
	}

	key := c.Tool + "\x00" + c.IdempotencyKey
	input := sha256.Sum256(c.Input)
	for {
		e, first := r.claim(key, input)
		if first {
			result := execute()
			r.finish(key, e, result)
			return result
		}
		if e.input != input {
			return c.failed(Fail(wire.CodeInvalidInput, "idempotency_key was used with another input"))
		}

		select {
		case <-e.done:
		case <-c.ctx.Done():
			return c.failure(c.ctx.Err())
		}

		if e.result != nil {
			again := *e.result
			return &again
		}
	}
}

func (r *replayCache) claim(key string, input [sha256.Size]byte) (*replayEntry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.entries[key]; ok {
		return e, false
	}
	if r.entries == nil {
		r.entries = map[string]*replayEntry{}
	}
	e := &replayEntry{input: input, done: make(chan struct{})}
	r.entries[key] = e
	return e, true
}

func (r *replayCache) finish(key string, e *replayEntry, result *wire.ToolResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer close(e.done)

	retry := result.Status == wire.Canceled || result.Error != nil && result.Error.Retryable
	if retry || len(result.Output) > replayBytes/4 {
		delete(r.entries, key)
		return
	}
	kept := *result
	e.result = &kept
	r.order = append(r.order, key)
	r.bytes += len(result.Output)

	for len(r.order) > replayEntries || r.bytes > replayBytes {
		oldest := r.order[0]
		r.bytes -= len(r.entries[oldest].result.Output)
		delete(r.entries, oldest)
		r.order = r.order[1:]
	}
}
