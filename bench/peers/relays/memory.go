package relays

import (
	"context"
	"sync"

	"github.com/fiatjaf/eventstore"
	"github.com/fiatjaf/eventstore/slicestore"
	"github.com/nbd-wtf/go-nostr"
)

// memory is a SliceStore under a lock. khatru calls it from many goroutines, and
// of its methods only ReplaceEvent locks: an event that is saved while another
// is looked for is found as nil now and then, and ends the process.
type memory struct {
	mu    sync.Mutex
	slice slicestore.SliceStore // guarded by mu, with the goroutine of each query
}

var _ eventstore.Store = (*memory)(nil)

func (m *memory) Init() error { return m.slice.Init() }

func (m *memory) Close() { m.slice.Close() }

// QueryEvents finds all before it returns: the slice is read by a goroutine of
// its own, which is to be done before the next event is saved. It is, too, if
// the client has left: that goroutine would not say so.
func (m *memory) QueryEvents(ctx context.Context, filter nostr.Filter) (chan *nostr.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()

	from, err := m.slice.QueryEvents(context.WithoutCancel(ctx), filter)
	if err != nil {
		return nil, err
	}
	var list []*nostr.Event
	for ev := range from {
		list = append(list, ev)
	}
	all := make(chan *nostr.Event, len(list))
	for _, ev := range list {
		all <- ev
	}
	close(all)
	return all, nil
}

func (m *memory) SaveEvent(ctx context.Context, ev *nostr.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.slice.SaveEvent(ctx, ev)
}

func (m *memory) DeleteEvent(ctx context.Context, ev *nostr.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.slice.DeleteEvent(ctx, ev)
}

func (m *memory) ReplaceEvent(ctx context.Context, ev *nostr.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.slice.ReplaceEvent(context.WithoutCancel(ctx), ev)
}
