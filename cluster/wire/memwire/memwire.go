// Package memwire is a message wire in memory: for tests, and for a simulation that
// decides what is lost.
package memwire

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/lightwork-market/lightwork/cluster/wire"
)

// Network holds what the servers of all gateways keep. It outlives the gateways, as
// disks do.
type Network struct {
	mu      sync.Mutex
	servers map[string]*server
	cut     map[[2]string]bool // from a reader to the server that it asks
}

// server is what one gateway's server keeps.
type server struct {
	exists   bool
	info     wire.Info // Kept is not used: it is counted
	messages map[uint64]wire.Message
	records  map[string][]byte
	cursors  map[string][]byte // by the peer that wrote it
	failure  error             // what each append gets
	wakes    map[chan struct{}]bool
}

// New makes a network without gateways.
func New() *Network {
	return &Network{servers: map[string]*server{}, cut: map[[2]string]bool{}}
}

// Join returns the wire of a gateway, which every other one then knows.
func (n *Network) Join(node string) *Wire {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.servers[node] == nil {
		n.servers[node] = &server{
			messages: map[uint64]wire.Message{}, records: map[string][]byte{},
			cursors: map[string][]byte{}, wakes: map[chan struct{}]bool{},
		}
	}
	return &Wire{network: n, node: node}
}

// Cut stops or lets through what one gateway asks of another's server.
func (n *Network) Cut(from, to string, is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[[2]string{from, to}] = is
	if !is {
		n.servers[to].wake()
	}
}

// Fail makes each append of a gateway fail, until it is called with nil.
func (n *Network) Fail(node string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers[node].failure = err
}

// Lose deletes a gateway's stream with all messages, as a lost disk does.
func (n *Network) Lose(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.servers[node]
	s.exists, s.info, s.messages = false, wire.Info{}, map[uint64]wire.Message{}
}

// Drop deletes one message of a gateway's stream, as a damaged file does.
func (n *Network) Drop(node string, seq uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.servers[node].messages, seq)
}

// Forge puts a message into a gateway's stream, whatever was there: what a gateway that
// lies could serve.
func (n *Network) Forge(node string, m wire.Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.servers[node]
	s.messages[m.Seq] = m
	s.info.Last = max(s.info.Last, m.Seq)
	s.wake()
}

// Rename gives a gateway's stream another epoch.
func (n *Network) Rename(node, epoch string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers[node].info.Epoch = epoch
	n.servers[node].wake()
}

func (s *server) wake() {
	for ch := range s.wakes {
		select {
		case ch <- struct{}{}:
		default: // it has one that nobody took yet
		}
	}
}

// first is the lowest sequence that is kept.
func (s *server) first() uint64 {
	if len(s.messages) == 0 {
		return s.info.Last + 1
	}
	return slices.Min(slices.Collect(maps.Keys(s.messages)))
}

func (s *server) where() (wire.Info, error) {
	if !s.exists {
		return wire.Info{}, wire.ErrNoStream
	}
	info := s.info
	info.First, info.Kept = s.first(), uint64(len(s.messages))
	return info, nil
}

func (s *server) read(from uint64, count int) ([]wire.Message, error) {
	if !s.exists {
		return nil, wire.ErrNoStream
	}

	var read []wire.Message
	for seq := max(from, s.first()); seq <= s.info.Last && len(read) < count; seq++ {
		m, ok := s.messages[seq]
		if !ok {
			continue
		}
		if len(m.Data) > wire.MaxMessage {
			return read, fmt.Errorf("message %d of %d bytes: %w", seq, len(m.Data), wire.ErrTooLarge)
		}
		m.Data = slices.Clone(m.Data)
		read = append(read, m)
	}
	return read, nil
}

// Wire is one gateway's.
type Wire struct {
	network *Network
	node    string
	closed  bool // guarded by network.mu
}

var _ wire.Wire = (*Wire)(nil)

// own locks the network and returns the gateway's server.
func (w *Wire) own(ctx context.Context) (*server, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w.network.mu.Lock()
	if w.closed {
		w.network.mu.Unlock()
		return nil, wire.ErrClosed
	}
	return w.network.servers[w.node], nil
}

// Outbox implements wire.Wire.
func (w *Wire) Outbox() wire.Outbox { return outbox{w} }

// Records implements wire.Wire.
func (w *Wire) Records() wire.Records { return records{w} }

// Cursors implements wire.Wire.
func (w *Wire) Cursors(ctx context.Context) (map[string][]byte, error) {
	s, err := w.own(ctx)
	if err != nil {
		return nil, err
	}
	defer w.network.mu.Unlock()
	return maps.Clone(s.cursors), nil
}

// Dial implements wire.Wire.
func (w *Wire) Dial(ctx context.Context, node string) (wire.Remote, error) {
	if _, err := w.own(ctx); err != nil {
		return nil, err
	}
	defer w.network.mu.Unlock()
	s := w.network.servers[node]
	if s == nil || node == w.node {
		return nil, fmt.Errorf("%s: %w", node, wire.ErrUnknownPeer)
	}
	r := &remote{wire: w, node: node, wakes: make(chan struct{}, 1)}
	s.wakes[r.wakes] = true
	return r, nil
}

// Close implements wire.Wire. What the server keeps stays.
func (w *Wire) Close() error {
	w.network.mu.Lock()
	defer w.network.mu.Unlock()
	w.closed = true
	return nil
}

type outbox struct{ w *Wire }

func (o outbox) Info(ctx context.Context) (wire.Info, error) {
	s, err := o.w.own(ctx)
	if err != nil {
		return wire.Info{}, err
	}
	defer o.w.network.mu.Unlock()
	return s.where()
}

func (o outbox) Append(ctx context.Context, messages []wire.Message) error {
	s, err := o.w.own(ctx)
	if err != nil {
		return err
	}
	defer o.w.network.mu.Unlock()
	defer s.wake()

	switch {
	case !s.exists:
		return wire.ErrNoStream
	case s.failure != nil:
		return s.failure
	}
	for _, m := range messages {
		switch {
		case len(m.Data) > wire.MaxMessage:
			return fmt.Errorf("message %d of %d bytes: %w", m.Seq, len(m.Data), wire.ErrTooLarge)
		case m.Seq != s.info.Last+1:
			return &wire.SequenceError{Seq: m.Seq, Last: s.info.Last}
		}
		m.Data = slices.Clone(m.Data)
		s.messages[m.Seq], s.info.Last = m, m.Seq
	}
	return nil
}

func (o outbox) Read(ctx context.Context, from uint64, count int) ([]wire.Message, error) {
	s, err := o.w.own(ctx)
	if err != nil {
		return nil, err
	}
	defer o.w.network.mu.Unlock()
	return s.read(from, count)
}

func (o outbox) Purge(ctx context.Context, upTo uint64) error {
	s, err := o.w.own(ctx)
	if err != nil {
		return err
	}
	defer o.w.network.mu.Unlock()
	if !s.exists {
		return wire.ErrNoStream
	}
	maps.DeleteFunc(s.messages, func(seq uint64, _ wire.Message) bool { return seq <= upTo })
	return nil
}

func (o outbox) Reset(ctx context.Context, epoch string, first uint64) error {
	s, err := o.w.own(ctx)
	if err != nil {
		return err
	}
	defer o.w.network.mu.Unlock()
	s.exists, s.messages = true, map[uint64]wire.Message{}
	s.info = wire.Info{Epoch: epoch, Last: first - 1}
	s.wake()
	return nil
}

type records struct{ w *Wire }

func (r records) Put(ctx context.Context, key string, value []byte) error {
	if err := wire.CheckKey(key); err != nil {
		return err
	}
	s, err := r.w.own(ctx)
	if err != nil {
		return err
	}
	defer r.w.network.mu.Unlock()
	switch {
	case len(value) > wire.MaxRecord:
		return fmt.Errorf("record %.40q of %d bytes: %w", key, len(value), wire.ErrTooLarge)
	case len(s.records) >= wire.MaxRecords && s.records[key] == nil:
		return fmt.Errorf("record %s: %w", key, wire.ErrFull)
	}
	s.records[key] = slices.Clone(value)
	s.wake()
	return nil
}

func (r records) Delete(ctx context.Context, key string) error {
	if err := wire.CheckKey(key); err != nil {
		return err
	}
	s, err := r.w.own(ctx)
	if err != nil {
		return err
	}
	defer r.w.network.mu.Unlock()
	delete(s.records, key)
	s.wake()
	return nil
}

func (r records) All(ctx context.Context) (map[string][]byte, error) {
	s, err := r.w.own(ctx)
	if err != nil {
		return nil, err
	}
	defer r.w.network.mu.Unlock()
	return maps.Clone(s.records), nil
}

// remote is a peer's server as one gateway reaches it.
type remote struct {
	wire  *Wire
	node  string
	wakes chan struct{}
}

// peer locks the network and returns the peer's server.
func (r *remote) peer(ctx context.Context) (*server, error) {
	if _, err := r.wire.own(ctx); err != nil {
		return nil, err
	}
	n := r.wire.network
	if n.cut[[2]string{r.wire.node, r.node}] {
		n.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", r.node, wire.ErrUnreachable)
	}
	return n.servers[r.node], nil
}

func (r *remote) Info(ctx context.Context) (wire.Info, error) {
	s, err := r.peer(ctx)
	if err != nil {
		return wire.Info{}, err
	}
	defer r.wire.network.mu.Unlock()
	return s.where()
}

func (r *remote) Read(ctx context.Context, from uint64, count int) ([]wire.Message, error) {
	s, err := r.peer(ctx)
	if err != nil {
		return nil, err
	}
	defer r.wire.network.mu.Unlock()
	return s.read(from, count)
}

func (r *remote) Records(ctx context.Context) (map[string][]byte, error) {
	s, err := r.peer(ctx)
	if err != nil {
		return nil, err
	}
	defer r.wire.network.mu.Unlock()
	return maps.Clone(s.records), nil
}

func (r *remote) PutCursor(ctx context.Context, cursor []byte) error {
	s, err := r.peer(ctx)
	if err != nil {
		return err
	}
	defer r.wire.network.mu.Unlock()
	if len(cursor) > wire.MaxCursor {
		return fmt.Errorf("cursor of %d bytes: %w", len(cursor), wire.ErrTooLarge)
	}
	s.cursors[r.wire.node] = slices.Clone(cursor)
	return nil
}

func (r *remote) Wake() <-chan struct{} { return r.wakes }

func (r *remote) Close() error {
	n := r.wire.network
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.servers[r.node].wakes, r.wakes)
	return nil
}
