package cluster

import (
	"context"
	"errors"
	"sync"
)

// peers are the readers of a gateway, one for each peer.
type peers struct {
	books *books

	mu      sync.Mutex
	serving context.Context // nil while the gateway does not serve
	all     map[string]*running
	work    sync.WaitGroup
}

// running is the reader of one peer. Cancel is nil before it begins.
type running struct {
	reader *reader
	cancel context.CancelFunc
	done   chan struct{}
}

// serve begins to read all peers, until ctx ends.
func (p *peers) serve(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.serving != nil {
		return errors.New("the gateway serves already")
	}
	p.serving = ctx
	for _, r := range p.all {
		p.start(r)
	}
	return nil
}

// start begins to read a peer. The caller holds mu, and the gateway serves.
func (p *peers) start(r *running) {
	ctx, cancel := context.WithCancel(p.serving)
	r.cancel, r.done = cancel, make(chan struct{})
	p.work.Go(func() {
		defer close(r.done)
		r.reader.run(ctx)
	})
}

// wait waits for the readers after the context of serve has ended.
func (p *peers) wait() {
	p.mu.Lock()
	p.serving = nil
	p.mu.Unlock()
	p.work.Wait()
}

// add reads a peer from now on.
func (p *peers) add(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[node] != nil {
		return
	}
	r := &running{reader: &reader{books: p.books, source: node}}
	p.all[node] = r
	if p.serving != nil {
		p.start(r)
	}
}

// remove stops to read a peer, and returns once nobody does.
func (p *peers) remove(node string) {
	p.mu.Lock()
	r := p.all[node]
	delete(p.all, node)
	p.mu.Unlock()
	if r != nil && r.cancel != nil {
		r.cancel()
		<-r.done
	}
}

func (p *peers) readers() (list []*reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.all {
		list = append(list, r.reader)
	}
	return list
}
