package server

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// A client that is faster than its rate is slowed down: what it sends is answered
// at once, and then it is not read from until that is paid for. So nothing of it
// waits here while it waits, and nothing is parsed for it beyond its rate.
const (
	// maxDebt is how long a client may have to pay for what it sent. What would
	// take longer is refused.
	maxDebt = time.Second
	// overRate is how long a client is not read from that was refused something.
	overRate = 100 * time.Millisecond
)

// charge enters a message of that cost, and reports whether the client may have
// it answered. It is called by the client's reader.
func (c *client) charge(cost int) bool {
	now := time.Now()
	cost = min(cost, c.limiter.Burst())
	if c.owes(now, cost) > maxDebt.Seconds() {
		return false
	}
	c.reserve(now, cost)
	return true
}

// fine charges the client for an event that is not what its id or its signature
// says. An honest client sends none, and to find out costs more than all else
// that is done for a message. Who is more than maxDebt behind has had enough fines.
func (c *client) fine() {
	now := time.Now()
	if c.owes(now, 0) < maxDebt.Seconds() {
		c.reserve(now, min(forgeryCost, c.limiter.Burst()))
	}
}

// reserve charges the client and its address.
func (c *client) reserve(now time.Time, cost int) {
	c.limiter.ReserveN(now, cost)
	if c.host.limiter != nil {
		c.host.limiter.ReserveN(now, cost)
	}
}

// owes is how many seconds it takes the client to pay for what it sent, and for
// so much more, or its address for what all its clients sent.
func (c *client) owes(now time.Time, more int) float64 {
	owed := debt(c.limiter, now, more)
	if c.host.limiter != nil {
		owed = max(owed, debt(c.host.limiter, now, more))
	}
	return owed
}

func debt(l *rate.Limiter, now time.Time, more int) float64 {
	owed := float64(more) - l.TokensAt(now)
	if owed <= 0 {
		return 0
	}
	return owed / float64(l.Limit())
}

// turn waits until the client owes nothing, or as long as one message waits.
func (c *client) turn(ctx context.Context) error {
	seconds := min(c.owes(time.Now(), 0), maxDebt.Seconds())
	if seconds == 0 {
		return nil
	}
	c.srv.metrics.slowed.Add(seconds)
	return pause(ctx, time.Duration(seconds*float64(time.Second)))
}

// pause waits so long, or returns why it did not.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
