package job

import (
	"encoding/json"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// OutEvent is a signed event that must reach relays. It is queued in the same
// transaction as the change it tells of.
type OutEvent struct {
	EventID   string
	Event     []byte // JSON
	RequestID string // "" for events of no job
	Domain    string // of what it says; of an encrypted one, of what is inside
	Relays    []string
	Required  int // how many relays must say OK
	// Sig is the signature of an event that was queued without one.
	Sig string

	Made   *nostr.Event // what Event says, if this process wrote it
	Unpaid bool         // it is the result of a free job
}

// Parsed is what Event says.
func (o OutEvent) Parsed() (nostr.Event, error) {
	if o.Made != nil {
		return *o.Made, nil
	}
	var ev nostr.Event
	err := json.Unmarshal(o.Event, &ev)
	return ev, err
}

// Pending is a queued event that some relay has not confirmed.
type Pending struct {
	OutEvent
	Confirmed []string // relays that said OK
	Attempts  int      // answers and errors recorded so far
	QueuedAt  time.Time
}

// Ack is what one relay said of one event.
type Ack struct {
	EventID string
	Relay   string
	OK      bool
	Message string
	At      time.Time
}
