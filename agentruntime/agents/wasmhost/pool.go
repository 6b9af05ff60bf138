package wasmhost

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/internal/wasm"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

var (
	errNotReady   = errors.New("wasmhost: the tool cannot run")
	errWorkerGone = errors.New("wasmhost: the worker ended")
)

// pool holds the workers. There are never more busy and idle workers together than
// slots.
type pool struct {
	cfg   *Config
	slots chan struct{} // one per busy worker

	mu     sync.Mutex
	idle   []*worker // most recently used last
	closed bool
}

func newPool(cfg *Config) *pool {
	return &pool{cfg: cfg, slots: make(chan struct{}, cfg.Workers)}
}

// close stops the idle workers, and busy ones when their calls end. It returns when
// no worker is left.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, w := range idle {
		w.stop()
	}
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
}

// greet starts a worker for the tool and returns its description of the tool.
func (p *pool) greet(ctx context.Context, tool *wasm.Tool) (ready, error) {
	w, err := p.take(ctx, tool)
	if err != nil {
		return ready{}, err
	}
	defer p.put(w)
	return w.ready, nil
}

// call makes one call of the tool. It ends when ctx does.
func (p *pool) call(ctx context.Context, tool *wasm.Tool, input json.RawMessage) (json.RawMessage, error) {
	w, err := p.take(ctx, tool)
	if err != nil {
		return nil, err
	}
	doc, err := w.exchange(ctx, input)
	if err != nil {
		p.discard(w)
		if errors.Is(err, errWorkerGone) {
			p.cfg.Log.Warn("worker ended in a call", "tool", tool.Name, "err", err)
			return nil, agent.Fail(wire.CodeFailed, "the tool used up its memory or crashed its process")
		}
		return nil, err
	}

	var r reply
	err = json.Unmarshal(doc, &r) // json.Unmarshal copies the frame, which belongs to the worker
	p.put(w)

	switch {
	case err != nil:
		return nil, err
	case r.Code != "":
		return nil, agent.Fail(r.Code, r.Message)
	}

	return r.Output, nil
}

// take waits for a slot and returns an idle worker of the tool, or a new one.
func (p *pool) take(ctx context.Context, tool *wasm.Tool) (*worker, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}

	w, surplus := p.reuse(tool)
	for _, old := range surplus {
		old.stop()
	}
	if w != nil {
		return w, nil
	}
	w, err := startWorker(ctx, p.cfg, tool)
	if err != nil {
		<-p.slots
		return nil, err
	}
	return w, nil
}

// reuse returns an idle worker of the tool. If there is none, it makes room for a
// new one; the caller must stop the surplus workers.
func (p *pool) reuse(tool *wasm.Tool) (found *worker, surplus []*worker) {
	p.mu.Lock()
	defer p.mu.Unlock()

	for i, w := range slices.Backward(p.idle) {
		if w.tool != tool {
			continue
		}
		p.idle = slices.Delete(p.idle, i, i+1)
		if !w.hasExited() {
			return w, surplus
		}
		surplus = append(surplus, w)
	}

	for len(p.slots)+len(p.idle) > cap(p.slots) && len(p.idle) > 0 {
		surplus = append(surplus, p.idle[0])
		p.idle = p.idle[1:]
	}

	return nil, surplus
}

// put returns a worker that can take another call.
func (p *pool) put(w *worker) {
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.idle = append(p.idle, w)
	}
	p.mu.Unlock()
	if closed {
		w.stop()
	}
	<-p.slots
}

// discard stops a worker whose call failed.
func (p *pool) discard(w *worker) {
	w.stop()
	<-p.slots
}
