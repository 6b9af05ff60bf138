// Package cluster is the gateway of one machine among several of one owner: it carries
// messages and tasks between the agents of all. Its database is the truth. Its outbox is
// copied to a stream that only it appends to; it reads the streams of its peers, keeps
// for each how far it has read, and puts each event into a recipient's session once.
package cluster

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/cluster/event"
	"github.com/lightwork-market/lightwork/cluster/store"
	"github.com/lightwork-market/lightwork/cluster/wire"
)

// The times of the protocol.
const (
	gapTimeout     = 30 * time.Second  // how long a gap holds a cursor
	cursorLease    = 300 * time.Second // how long a cursor counts that is not renewed
	acceptTimeout  = 20 * time.Second  // after which an event is sent again that nobody accepted
	slaGrace       = 120 * time.Second // after an eta, before it counts as missed
	heartbeat      = 20 * time.Second  // how often a reader looks without being woken
	retryBase      = 2 * time.Second
	retryCap       = 300 * time.Second
	maxAttempts    = 15
	defaultLife    = 24 * time.Hour // of an event that says no deadline
	keepFor        = 24 * time.Hour // how long an event stays for gateways that are away
	keepTasks      = 30 * 24 * time.Hour
	routeWindow    = 10 * time.Minute // in which routeFailures make a review
	routeFailures  = 3
	maxSkew        = 10 * time.Minute // between the clocks of two gateways
	wireTimeout    = 15 * time.Second
	recordInterval = 250 * time.Millisecond
)

// GapPolicy says what becomes of sequences that are still missing after the timeout.
type GapPolicy string

const (
	// Skip goes on. If the source publishes the missing events anew, they are taken.
	Skip GapPolicy = "skip"
	// Tombstone goes on, and never takes the missing sequences.
	Tombstone GapPolicy = "tombstone"
)

// Config is what a gateway is made of.
type Config struct {
	Node   string // its id: [a-z0-9-], at most 32 characters
	Folder string // of its database, cluster.db
	Wire   wire.Wire
	Peers  []string // the nodes that it reads

	// ResolveSkill says whether an agent here has a version of a skill, before a
	// capability is published for it. Nil resolves none.
	ResolveSkill func(ctx context.Context, agent string, skill event.SkillRef) error
	// CheckResult holds the result of a task to the contract of its capability. Nil
	// holds none.
	CheckResult func(contractSchemaRef string, result json.RawMessage) error

	GapPolicy GapPolicy        // "" is Tombstone
	Now       func() time.Time // nil is time.Now
	Logger    *slog.Logger     // nil discards
}

// core is what the parts of a gateway share.
type core struct {
	Config
	db *store.DB

	mu       sync.Mutex
	view     *registry     // nil when the records have changed
	changed  chan struct{} // closed at the next change of the database
	outgoing chan struct{} // has a value when there may be something to publish
}

// update runs fn in a transaction, and tells those who wait that something changed.
func (c *core) update(ctx context.Context, fn func(tx *store.Tx) error) error {
	if err := c.db.Update(ctx, fn); err != nil {
		return err
	}
	c.mu.Lock()
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()

	select {
	case c.outgoing <- struct{}{}:
	default: // the publisher has not looked since the last one
	}
	return nil
}

// change is closed when the database has changed after this call.
func (c *core) change() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// registry is what the records say as of this transaction.
func (c *core) registry(tx *store.Tx) (*registry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.view == nil {
		view, err := readRegistry(tx, c.Node)
		if err != nil {
			return nil, err
		}
		c.view = view
	}
	return c.view, nil
}

// recordsChanged makes the next transaction compute the registry.
func (c *core) recordsChanged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.view = nil
}

// wait returns after a time, a wake, or the end of ctx.
func wait(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}
