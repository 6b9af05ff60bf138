// Package announce tells the market who a provider is, what it offers and that it is
// there.
package announce

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/recent"
	"github.com/lightwork-market/lightwork/lifecycle"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/market/tree"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
)

// announceEvery is how often an announcement is repeated that has not changed.
const announceEvery = time.Hour

// Store is a provider's own record, and the queue of what is announced.
type Store interface {
	Stats(ctx context.Context) (job.Stats, error)
	// Enqueue queues events of no job.
	Enqueue(ctx context.Context, out ...job.OutEvent) error
}

// Market is where the profile of a key is looked for.
type Market interface {
	Query(ctx context.Context, filter nostr.Filter) ([]nostr.Event, error)
	Relays() []string
}

// Config is what an Announcer needs.
type Config struct {
	Store     Store
	Market    Market
	Publisher *publish.Publisher
	Log       *slog.Logger

	Key          string
	Profile      Profile
	Hardware     Hardware
	RequestKinds []int                 // our own first
	Prices       func() *job.PriceList // now
	Capacity     Capacity              // while jobs are taken
	FreePoW      int
	HostImage    string // digest of the host toolchain's manifest
	Confinement  string
	Retention    *receipts.Retention // nil: nothing is promised
	Encrypts     bool                // encrypted requests are taken
	Lifecycle    lifecycle.Kinds
	Tree         *tree.Terms // nil: no trees are taken

	Node      func() payments.Node // of the wallet
	Paused    func() bool          // no new jobs are taken now
	Withdrawn func() []string      // the offers whose jobs cannot be done now, by job type
}

// Announcer speaks for the provider as a whole, not for one job.
type Announcer struct {
	cfg   Config
	log   *slog.Logger
	turn  turn
	began time.Time
	beats *recent.Set // event ids
}

// New makes an Announcer that has said nothing.
func New(cfg Config) *Announcer {
	return &Announcer{cfg: cfg, log: cfg.Log, beats: recent.New(beatsKept)}
}

// Begin is called before anything is announced, with the time when this life began: an
// earlier one may have said in the same second that it stops.
func (a *Announcer) Begin(at time.Time) {
	a.began = at
	a.turn.last = at.Unix()
}

// Differs reports whether the last announcement says otherwise of whether jobs are taken,
// or has other prices.
func (a *Announcer) Differs(paused bool) bool {
	return a.turn.differs(paused, a.cfg.Prices().PolicyID)
}

// Serve announces what is offered from the moment ready is closed, again and again.
func (a *Announcer) Serve(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
	case <-ctx.Done():
		return ctx.Err()
	}

	for {
		if err := a.Announce(ctx); err != nil && ctx.Err() == nil {
			a.log.Error("announce", "err", err)
		}
		select {
		case <-time.After(announceEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// turn lets one announcement be made at a time, and each in a second of its
// own: of two with the same date relays keep the one whose id is lower, so that a
// provider could seem paused for an hour after it was resumed.
type turn struct {
	mu     sync.Mutex
	last   int64          // the second of the last one, Unix; guarded by mu
	paused bool           // what the last one says; guarded by mu
	policy hashing.Digest // that the last one names, zero before the first; guarded by mu
}

// differs reports whether the last announcement says otherwise. What it says is what
// was true when it was made, which no look at another moment tells.
func (t *turn) differs(paused bool, policy hashing.Digest) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last != 0 && t.paused != paused || t.policy != (hashing.Digest{}) && t.policy != policy
}

// begin waits for the next second if need be. It returns with mu held, unless ctx ended.
func (t *turn) begin(ctx context.Context) error {
	t.mu.Lock()
	for time.Now().Unix() == t.last {
		select {
		case <-time.After(time.Until(time.Unix(t.last+1, 0))):
		case <-ctx.Done():
			t.mu.Unlock()
			return ctx.Err()
		}
	}
	return nil
}

// end is called once the announcement is dated.
func (t *turn) end() {
	t.last = time.Now().Unix()
	t.mu.Unlock()
}

// Announce tells relays what is offered now.
func (a *Announcer) Announce(ctx context.Context) error {
	if err := a.turn.begin(ctx); err != nil {
		return err
	}
	defer a.turn.end()

	list := a.cfg.Prices()
	said, err := a.announcement(ctx, list)
	if err != nil {
		return err
	}
	ev, err := a.announcementEvent(ctx, said)
	if err != nil {
		return err
	}
	out, err := a.cfg.Publisher.Queue(ev, "")
	if err != nil {
		return err
	}
	all, err := a.profileEvents(ctx, said)
	if err != nil {
		return err
	}
	all = append(all, out)
	if err := a.cfg.Store.Enqueue(ctx, all...); err != nil {
		return err
	}
	a.turn.paused, a.turn.policy = said.Lightwork.Paused, list.PolicyID
	a.cfg.Publisher.Send(all...)
	return nil
}

func (a *Announcer) announcementEvent(ctx context.Context, said Announcement) (nostr.Event, error) {
	content, err := json.Marshal(said)
	if err != nil {
		return nostr.Event{}, err
	}
	tags := nostr.Tags{{"d", a.d()}}
	for _, kind := range a.cfg.RequestKinds {
		tags = append(tags, nostr.Tag{"k", strconv.Itoa(kind)})
	}
	for _, job := range said.Capabilities.SupportedJobs {
		tags = append(tags, nostr.Tag{"t", job})
	}
	return a.cfg.Publisher.Sign(ctx, kinds.Announcement, domain.Announcement, tags, string(content))
}

// profileEvents tell of this node as an agent, beside its announcement.
func (a *Announcer) profileEvents(ctx context.Context, said Announcement) ([]job.OutEvent, error) {
	state := lifecycle.AgentState{Version: 1, Status: "available", Slots: int64(said.Capacity.MaxConcurrentJobs), Ticks: int64(said.Stability.JobsCompleted), At: time.Now().Unix()}
	if said.Lightwork.Paused {
		state.Status = "paused"
	}

	var out []job.OutEvent
	for _, f := range []struct {
		kind int
		doc  lifecycle.Document
	}{
		{a.cfg.Lifecycle.AgentProfile, lifecycle.AgentProfile{
			Name: said.Name, About: said.About, Picture: said.Picture, Capabilities: said.Capabilities.SupportedJobs, Autonomy: "bounded", Version: a.cfg.Profile.Producer,
		}},
		{a.cfg.Lifecycle.AgentState, state},
	} {
		if f.kind == 0 {
			continue
		}
		ev, err := a.cfg.Publisher.Lifecycle(ctx, f.kind, f.doc)
		if err != nil {
			return nil, fmt.Errorf("lifecycle: %w", err)
		}
		queued, err := a.cfg.Publisher.Queue(ev, "")
		if err != nil {
			return nil, err
		}
		out = append(out, queued)
	}

	return out, nil
}
