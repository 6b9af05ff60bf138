// Package admission decides who may buy, and how much one buyer, or all of them, may take
// at a time.
package admission

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip13"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/provider/internal/slots"
	"github.com/lightwork-market/lightwork/receipts"
)

// State is whether new jobs are taken. Jobs that are open go on in any case.
type State string

// The states of admission.
const (
	Open     State = "open"
	Paused   State = "paused"
	Draining State = "draining" // paused; Serve ends with the last open job
)

// Access says who may buy, x-only keys in hex.
type Access struct {
	Allow []string // if any, or with Trust, only these
	Deny  []string // not even if allowed or trusted
	// Trust lets in whom others follow, beside Allow.
	Trust Trust
	// Of are the keys whose follows count; none is the provider's own.
	Of []string
}

// hurriedQuote is how long a stranger's quote lasts where half of the strangers'
// places for unpaid invoices are taken. Who means to buy pays within seconds; keys
// that cost nothing would else keep every new customer out for limits.quote_ttl
// with one round of requests.
const hurriedQuote = time.Minute

// Store knows who has bought here.
type Store interface {
	// HasPaid reports whether a job of this key was ever paid for.
	HasPaid(ctx context.Context, buyer string) (bool, error)
}

// Config is what a Gate needs.
type Config struct {
	Store  Store
	Limits Limits // with their defaults
	Access Access
	Prices func() *job.PriceList // now
	Log    *slog.Logger
	// Query returns stored events of our relays.
	Query func(ctx context.Context, filter nostr.Filter) ([]nostr.Event, error)
	// State is what the operator says; nil: open.
	State func() State
	// CannotDeliver reports that results could not be delivered now.
	CannotDeliver func() bool
}

// Gate lets requests in, or not. It is safe for concurrent use.
type Gate struct {
	cfg      Config
	load     *load
	follows  *followSet
	refusals *replies
	pongs    *replies
	slots    *slots.Pool // one for each job that may run at once
	paused   atomic.Bool // see Pause
}

// New makes a Gate that nobody has come through.
func New(cfg Config) *Gate {
	return &Gate{
		cfg: cfg, load: newLoad(), follows: newFollowSet(cfg.Access, cfg.Query, cfg.Log), slots: slots.New(cfg.Limits.Concurrent),
		refusals: newReplies(cfg.Limits.RefusalsPerMin), pongs: newReplies(cfg.Limits.RefusalsPerMin), // bad requests do not make us look dead
	}
}

// State is what the operator says, and paused while results could not be
// delivered.
func (g *Gate) State() State {
	said := Open
	if g.cfg.State != nil {
		said = g.cfg.State()
	}
	if g.paused.Load() || said == Open && g.cfg.CannotDeliver() {
		return Paused
	}
	return said
}

// Pause takes no more jobs in this life.
func (g *Gate) Pause() { g.paused.Store(true) }

// MayBuy is what is decided before the request itself is looked at: a [job.Refusal] if
// the key may not buy now.
func (g *Gate) MayBuy(ctx context.Context, key string) error {
	if g.State() != Open {
		return job.Refuse(job.CodePaused, "no new jobs are taken now; ask again later, or another provider")
	}

	switch a := g.cfg.Access; {
	case slices.Contains(a.Deny, key):
		return job.Refuse(job.CodeNotAllowed, "this key is not served here; ask another provider")
	case len(a.Allow) == 0 && a.Trust == TrustNobody, slices.Contains(a.Allow, key), g.follows.has(ctx, key):
		return nil
	case a.Trust != TrustNobody:
		return job.Refuse(job.CodeNotAllowed, "only keys are served here that ours follows, or those that it trusts; ask the provider, or another one")
	}
	return job.Refuse(job.CodeNotAllowed, "only known keys are served here; ask the provider, or another one")
}

// IsFreeEnough bounds what is given away: work has to be shown for a free job.
func (g *Gate) IsFreeEnough(ev nostr.Event, mode receipts.Mode) error {
	if mode != receipts.ModeFree {
		return nil
	}
	if bits := g.cfg.Limits.FreePoW; nip13.CommittedDifficulty(&ev) < bits {
		return job.Refuse(job.CodeProofOfWork, fmt.Sprintf("a free job needs %d bits of proof of work, committed to in a nonce tag (NIP-13)", bits))
	}
	return nil
}

// IsCustomer reports whether a key has the slots that unpaid buyers do not get: it has
// paid here, or the operator chose who may buy. Where nothing costs anything there
// are no payers to keep slots for, and all are alike.
func (g *Gate) IsCustomer(ctx context.Context, key string) (bool, error) {
	sold := slices.ContainsFunc(g.cfg.Prices().Offers, func(o job.Offer) bool {
		return slices.ContainsFunc(o.Modes, func(m receipts.Mode) bool { return m != receipts.ModeFree })
	})
	if a := g.cfg.Access; !sold || len(a.Allow) > 0 || a.Trust != TrustNobody {
		return true, nil
	}
	return g.cfg.Store.HasPaid(ctx, key)
}

// HasPaid is IsCustomer for what is only a courtesy.
func (g *Gate) HasPaid(ctx context.Context, key string) bool {
	known, err := g.IsCustomer(ctx, key)
	return err == nil && known
}

// MayAnswer counts a refusal that is told to a key, and reports whether it may be.
func (g *Gate) MayAnswer(ctx context.Context, key string) bool {
	return g.refusals.allow(key, time.Now(), func() bool { return g.HasPaid(ctx, key) })
}

// MayPong is MayAnswer for pings.
func (g *Gate) MayPong(ctx context.Context, key string) bool {
	return g.pongs.allow(key, time.Now(), func() bool { return g.HasPaid(ctx, key) })
}

// Enter takes a place for a new job, for which its quote may be paid until quoteTTL has
// passed. The error is a [job.Refusal] where a limit is reached.
func (g *Gate) Enter(ctx context.Context, requestID, buyer string, mode receipts.Mode, hasFee bool) (quoteTTL time.Duration, err error) {
	known, filling := false, g.load.filling(g.cfg.Limits)
	if filling || g.load.crowded(g.cfg.Limits) {
		if known, err = g.IsCustomer(ctx, buyer); err != nil {
			return 0, fmt.Errorf("look for earlier payments: %w", err)
		}
	}

	if err := g.load.enter(requestID, buyer, known, mode, hasFee, g.cfg.Limits); err != nil {
		return 0, err
	}
	if filling && !known {
		return min(g.cfg.Limits.QuoteTTL, hurriedQuote), nil
	}

	return g.cfg.Limits.QuoteTTL, nil
}

// Resume gives a job that was admitted before a restart its place.
func (g *Gate) Resume(j job.Job) { g.load.resume(j) }

// Activate notes that a job is paid for.
func (g *Gate) Activate(requestID string) { g.load.activate(requestID) }

// Leave gives a job's place back. Leaving twice is fine.
func (g *Gate) Leave(requestID string) { g.load.leave(requestID) }

// Slot waits for one of the slots to run. A job that nothing was paid for takes one of
// those that unpaid buyers share.
func (g *Gate) Slot(ctx context.Context, j job.Job, cancel <-chan struct{}) (leave func(), ok bool) {
	return g.slots.Wait(ctx, cancel, isPaidFirst(j.Mode, j.Engagement != nil) || g.HasPaid(ctx, j.Buyer))
}

// isPaidFirst reports a job that is not worked on before something is paid for it.
func isPaidFirst(mode receipts.Mode, fee bool) bool {
	return fee || mode == receipts.ModeHold || mode == receipts.ModePrepay
}
