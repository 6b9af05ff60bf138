//go:build lnd

package crashmatrix

import "sync"

// moment is something that can be seen from outside, as the proxies name it:
// "provider asks AddHoldInvoice", "provider hears LookupInvoice ACCEPTED",
// "provider sends 6050", "buyer hears OK 5050".
type moment string

// step is one of the moments that must follow one another; do may be nil.
type step struct {
	at moment
	do func()
}

// trap waits for a chain of moments. At the last one it strikes, once, while
// the message that made the moment is held by its proxy.
type trap struct {
	mu     sync.Mutex
	steps  []step
	strike func() verdict
	struck chan struct{}
	seen   []moment // since it was armed

	// channel is locked while the channel is down: a payment begun then would
	// fail for want of a route, which is another story.
	channel sync.RWMutex
}

// verdict is what becomes of the message at which the trap struck.
type verdict int

const (
	pass verdict = iota
	drop
)

// arm sets the trap anew. The channel is closed once it has struck.
func (t *trap) arm(steps []step, strike func() verdict) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps, t.strike, t.struck, t.seen = steps, strike, make(chan struct{}), nil
	return t.struck
}

func (t *trap) waitForChannel() {
	t.channel.RLock()
	defer t.channel.RUnlock()
}

// moments are those seen since the trap was armed.
func (t *trap) moments() []moment {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]moment(nil), t.seen...)
}

// see is called by a proxy with the message in its hand. Other messages of that
// moment wait: what follows a strike is not what went on during it.
func (t *trap) see(m moment) verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = append(t.seen, m)
	if len(t.steps) == 0 || t.steps[0].at != m {
		return pass
	}
	at := t.steps[0]
	t.steps = t.steps[1:]
	if at.do != nil {
		at.do()
	}
	if len(t.steps) > 0 {
		return pass
	}
	defer close(t.struck)
	return t.strike()
}
