package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/cluster/event"
	"github.com/lightwork-market/lightwork/cluster/store"
	"github.com/lightwork-market/lightwork/hashing"
)

// Gateway is one machine's. Its methods may be called from many goroutines, also while it
// does not serve: what they say is durable, and goes out once it does.
type Gateway struct {
	books     *books
	publisher *publisher
	peers     *peers
}

// Open opens a gateway and its database, which is made if it is missing.
func Open(ctx context.Context, cfg Config) (*Gateway, error) {
	if !event.IsNode(cfg.Node) {
		return nil, event.Refuse(event.InvalidEvent, "node", "%.60q is no id of a gateway: a-z, 0-9 and -, at most 32", cfg.Node)
	}
	if cfg.GapPolicy == "" {
		cfg.GapPolicy = Tombstone
	}
	if cfg.GapPolicy != Skip && cfg.GapPolicy != Tombstone {
		return nil, fmt.Errorf("gap policy %.40q is neither %s nor %s", cfg.GapPolicy, Skip, Tombstone)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}

	db, err := store.Open(ctx, filepath.Join(cfg.Folder, "cluster.db"), store.Options{Node: cfg.Node, Now: cfg.Now, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	shared := &core{Config: cfg, db: db, changed: make(chan struct{}), outgoing: make(chan struct{}, 1)}
	g := &Gateway{books: &books{shared}, publisher: &publisher{core: shared}}
	g.peers = &peers{books: g.books, all: map[string]*running{}}
	for _, peer := range cfg.Peers {
		if err := g.AddPeer(peer); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return g, nil
}

// Serve publishes, reads and does what is due until ctx ends, and then waits for what it
// began. It returns nil, or why the database takes no more writes.
func (g *Gateway) Serve(ctx context.Context) error {
	if err := g.peers.serve(ctx); err != nil {
		return err
	}
	var work sync.WaitGroup
	work.Go(func() { g.publisher.run(ctx) })
	work.Go(func() { (&clock{g.books, g.publisher}).run(ctx) })

	<-ctx.Done()
	work.Wait()
	g.peers.wait()
	return g.books.db.Err()
}

// Close closes the database. Serve has to have returned. The wire is its owner's.
func (g *Gateway) Close() error { return g.books.db.Close() }

// AddPeer reads another gateway from now on. The wire has to know how it is reached.
func (g *Gateway) AddPeer(node string) error {
	if !event.IsNode(node) || node == g.books.Node {
		return event.Refuse(event.InvalidEvent, "peer", "%.60q is no id of another gateway", node)
	}
	g.peers.add(node)
	return nil
}

// RemovePeer forgets another gateway, with its agents and capabilities. What its agents
// sent stays in the inboxes.
func (g *Gateway) RemovePeer(ctx context.Context, node string) error {
	g.peers.remove(node)
	err := g.books.update(ctx, func(tx *store.Tx) error {
		if err := (store.Inbox{Tx: tx}).RemoveSource(node); err != nil {
			return err
		}
		return store.Control{Tx: tx}.Replace(node, nil)
	})
	g.books.recordsChanged()
	return err
}

// SetAgent says that an agent lives here, and whether it is active.
func (g *Gateway) SetAgent(ctx context.Context, agent string, active bool) error {
	record := event.AgentRecord{AgentID: agent, NodeID: g.books.Node, Status: event.Active, UpdatedAt: event.At(g.books.Now())}
	if !active {
		record.Status = "inactive"
	}
	if err := event.CheckRecord(&record); err != nil {
		return err
	}
	return g.putRecord(ctx, event.KeyAgent+agent, record)
}

func (g *Gateway) putRecord(ctx context.Context, key string, record any) error {
	doc, err := hashing.CanonicalValue(record)
	if err != nil {
		return err
	}
	err = g.books.update(ctx, func(tx *store.Tx) error { return store.Control{Tx: tx}.Put(g.books.Node, key, doc) })
	g.books.recordsChanged()
	return err
}

// Agent is the session of an active agent of this gateway. *event.Refusal.
func (g *Gateway) Agent(ctx context.Context, agent string) (*Agent, error) {
	err := g.books.db.View(ctx, func(tx *store.Tx) error {
		view, err := readRegistry(tx, g.books.Node)
		if err != nil {
			return err
		}
		return view.local(agent)
	})
	if err != nil {
		return nil, err
	}
	return &Agent{books: g.books, id: agent}, nil
}

// Task is all parts of a task, here as requester and as executor.
func (g *Gateway) Task(ctx context.Context, taskID string) (parts []store.Task, err error) {
	err = g.books.db.View(ctx, func(tx *store.Tx) error {
		parts, err = store.Tasks{Tx: tx}.Parts(taskID)
		return err
	})
	return parts, err
}

// WaitTask is Task, once all parts that this gateway asked for have ended.
func (g *Gateway) WaitTask(ctx context.Context, taskID string) ([]store.Task, error) {
	for {
		changed := g.books.change()
		parts, err := g.Task(ctx, taskID)
		open := func(k store.Task) bool { return k.Role == store.Requester && !k.Ended() }
		if err != nil || !slices.ContainsFunc(parts, open) {
			return parts, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return parts, ctx.Err()
		}
	}
}

// Reviews are what a person should look at, the latest first.
func (g *Gateway) Reviews(ctx context.Context, count int) (list []event.Review, err error) {
	err = g.books.db.View(ctx, func(tx *store.Tx) error {
		list, err = store.Tasks{Tx: tx}.Reviews(count)
		return err
	})
	return list, err
}

// Sent says what became of an event at each of its recipients.
func (g *Gateway) Sent(ctx context.Context, eventID string) (list []store.Recipient, err error) {
	err = g.books.db.View(ctx, func(tx *store.Tx) error {
		list, err = store.Outbox{Tx: tx}.Recipients(eventID)
		return err
	})
	return list, err
}

// Status says where the gateway stands.
func (g *Gateway) Status(ctx context.Context) (s Status, err error) {
	err = g.books.db.View(ctx, func(tx *store.Tx) error {
		s, err = readStatus(tx, g.books.Node)
		return err
	})
	if err != nil {
		return s, err
	}

	s.add(ctx, g.publisher, g.peers.readers())
	return s, nil
}
