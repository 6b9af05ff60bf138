package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/provider/internal/publish"
)

// Errors that end Serve of a provider that drains.
var (
	// ErrDrained: no job is open.
	ErrDrained = errors.New("drained: no job is open")
	// ErrDrainCut: Config.DrainBy has passed, and something is still open. It goes on
	// at the next Serve.
	ErrDrainCut = errors.New("drain: the time is up, and something is still open")
)

// withdrawnFor is how long a change of what is withdrawn lasts before relays are
// told: an agent that is restarted at once is not worth two announcements. New
// requests are refused from the first moment.
const withdrawnFor = 3 * time.Second

// admissionLook is how often a change of admission is looked for.
const admissionLook = time.Second

// withdrawn are the offers whose jobs cannot be done now, by job type.
func (p *Provider) withdrawn() []string {
	var ids []string
	for _, o := range p.prices.Load().Offers {
		if p.cfg.Withdrawn != nil && p.cfg.Withdrawn(o.SchemaID) != "" {
			ids = append(ids, o.SchemaID)
		}
	}
	return ids
}

// serveAdmission announces anew when admission changes, or what is withdrawn, and
// ends with the last open job of a provider that drains, or at the end of its time.
func (p *Provider) serveAdmission(ctx context.Context) error {
	tick := time.NewTicker(admissionLook)
	defer tick.Stop()

	said := p.withdrawn()
	seen, since := said, time.Now()
	for last := p.gate.State(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}

		now, withdrawn := p.gate.State(), p.withdrawn()
		if !slices.Equal(withdrawn, seen) {
			seen, since = withdrawn, time.Now()
		}
		if now != last || p.announcer.Differs(now != AdmissionOpen) || !slices.Equal(seen, said) && time.Since(since) >= withdrawnFor {
			last, said = now, seen
			p.log.Info("what is taken changed", "admission", now, "withdrawn", seen)
			// Queued before the look at what is left: one that drains with nothing
			// open ends only once relays know that it takes no jobs.
			if err := p.announcer.Announce(ctx); err != nil && ctx.Err() == nil {
				p.log.Error("announce", "err", err)
			}
		}

		if now != AdmissionDraining {
			continue
		}
		if p.idle(ctx) {
			return ErrDrained
		}
		if by := p.drainBy(); !by.IsZero() && !time.Now().Before(by) {
			return ErrDrainCut
		}
	}
}

func (p *Provider) drainBy() time.Time {
	if p.cfg.DrainBy == nil {
		return time.Time{}
	}
	return p.cfg.DrainBy()
}

// idle reports that nothing is left to wait for.
func (p *Provider) idle(ctx context.Context) bool {
	if p.flow.Open() > 0 {
		return false
	}
	left, err := LeftOpen(ctx, p.cfg.Store)
	return err == nil && left.Empty()
}

// Left is what a provider that drains waits for.
type Left struct {
	Jobs    []string // request ids, oldest first
	Refunds []Refund // on their way to a buyer that may take them late
	Events  int      // that fewer relays took than must
}

// Empty reports that nothing is left.
func (l Left) Empty() bool { return len(l.Jobs)+len(l.Refunds)+l.Events == 0 }

// LeftOpen reads what is left to wait for.
func LeftOpen(ctx context.Context, s Store) (l Left, err error) {
	if l.Jobs, err = s.OpenJobs(ctx); err != nil {
		return l, fmt.Errorf("list open jobs: %w", err)
	}
	if l.Refunds, err = s.OpenRefunds(ctx); err != nil {
		return l, fmt.Errorf("list open refunds: %w", err)
	}
	if l.Events, err = s.Unsent(ctx, publish.MaxAge); err != nil {
		return l, fmt.Errorf("count queued events: %w", err)
	}
	return l, nil
}
