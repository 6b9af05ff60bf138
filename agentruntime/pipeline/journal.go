package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
)

// Direction is a journal entry's, as the pipeline sees it: a message goes out
// to a handler, its response comes in.
type Direction string

// The two directions.
const (
	Outbound Direction = "Outbound"
	Inbound  Direction = "Inbound"
)

// RetentionPolicy says when an entry may be deleted, as a whole.
type RetentionPolicy string

// The policies.
const (
	RetainForever   RetentionPolicy = "retain_forever"
	PruneOnDelivery RetentionPolicy = "prune_on_delivery"
	RetainDays      RetentionPolicy = "retain_days"
)

// Retention is a policy with its number of days, which only RetainDays has.
type Retention struct {
	Policy RetentionPolicy `json:"policy"`
	Days   int             `json:"days,omitempty"`
}

func (r Retention) orDefault() Retention {
	if r.Policy == "" {
		r.Policy = RetainForever
	}
	return r
}

func (r Retention) check() error {
	switch r.Policy {
	case RetainForever, PruneOnDelivery:
		if r.Days != 0 {
			return fmt.Errorf("retention %s has no days", r.Policy)
		}
		return nil
	case RetainDays:
		if r.Days < 1 {
			return fmt.Errorf("retention %s needs at least one day", r.Policy)
		}
		return nil
	}

	return fmt.Errorf("retention policy %q is unknown", r.Policy)
}

// Entry is one line of the journal. It holds the payload's hash; the payload is
// beside it only where Config.Keep asks for that.
type Entry struct {
	// ID is the sequence number. The journal assigns it; the pipeline leaves
	// it 0.
	ID          uint64
	Timestamp   time.Time // UTC
	Thread      ThreadID
	Profile     string // the thread's
	Direction   Direction
	Handler     string
	PayloadTag  string
	PayloadHash hashing.Digest
	Retention   Retention
	// Content is the payload, for a tag that Config.Keep names, else "". The
	// journal stores it by its hash, and no longer than the entry.
	Content string
}

// Journal is where messages that pass are recorded. Append takes all the entries
// or none, and returns once they are as durable as the journal makes them; on
// error the message stops.
type Journal interface {
	Append(ctx context.Context, entries ...Entry) error
}

// RejectReason is why a message went no further.
type RejectReason string

// The reasons.
const (
	RejectMalformed       RejectReason = "malformed"
	RejectValidation      RejectReason = "validation_failed"
	RejectRoute           RejectReason = "route_not_found"
	RejectPeer            RejectReason = "peer_violation"
	RejectDirective       RejectReason = "no_directive"
	RejectResponse        RejectReason = "response_invalid"
	RejectSecondReply     RejectReason = "second_reply"
	RejectHandlerPanicked RejectReason = "handler_panic"
)

// Reject is one line of the audit log. A rejected message is in no journal and
// its payload is stored nowhere: not even its hash is here.
type Reject struct {
	Time    time.Time // UTC
	Reason  RejectReason
	Tag     string
	Profile string
	Thread  ThreadID
	Sender  string
}

// Audit records rejected messages. It cannot stop or pass a message.
type Audit interface {
	Reject(ctx context.Context, r Reject)
}
