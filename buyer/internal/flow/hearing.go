package flow

import (
	"time"

	"github.com/lightwork-market/lightwork/buyer/internal/offer"
)

const (
	// seenMax bounds the ids that are kept of a provider's events.
	seenMax = 4096
	// feedbackMax bounds the feedback that is kept of one purchase.
	feedbackMax = 64
)

// hearing is what was heard of the provider since it is followed.
type hearing struct {
	seen      map[string]bool // ids of its events
	kept      int             // feedback events that were stored
	began     time.Time       // its first event, or its first after its fee; zero if none came
	last      time.Time       // its last event
	signed    []byte          // the event that is being taken, as it was signed
	serving   bool            // it has begun to serve
	ended     bool            // it said that it is done, and signed no receipt
	reason    string          // its last error
	unchanged bool            // its last event changed nothing of the purchase, which was open
}

// see notes that an event is taken. When a provider talks without end they are
// forgotten: its events may be taken again, as after a crash.
func (h *hearing) see(id string) {
	if len(h.seen) >= seenMax {
		clear(h.seen)
	}
	h.seen[id] = true
	h.last = time.Now()
	if h.began.IsZero() {
		h.began = h.last
	}
}

// keeps bounds what a talkative provider can make us store.
func (h *hearing) keeps() bool {
	h.kept++
	return h.kept <= feedbackMax && len(h.signed) <= offer.MaxBytes
}

// quiet is how long nothing was heard.
func (h *hearing) quiet() time.Duration { return time.Since(h.last) }
