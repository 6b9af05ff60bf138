package observe

import (
	"context"
	"errors"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/provider"
)

// Store is a provider's store whose steps the board sees, once they are durable.
type Store struct {
	provider.Store
	Board *Board
}

// AddJob implements provider.Store.
func (s Store) AddJob(ctx context.Context, j provider.Job) error {
	err := s.Store.AddJob(ctx, j)
	if err == nil {
		s.Board.quoted(j)
	}
	return err
}

// Refuse implements provider.Store.
func (s Store) Refuse(ctx context.Context, id, buyer string, r provider.Reason, out ...provider.OutEvent) error {
	err := s.Store.Refuse(ctx, id, buyer, r, out...)
	if err == nil {
		s.Board.refused(r.Code)
	}
	return err
}

// SetPaid implements provider.Store.
func (s Store) SetPaid(ctx context.Context, id string, p provider.Payment, d provider.Directive, thread string) error {
	err := s.Store.SetPaid(ctx, id, p, d, thread)
	if err == nil {
		s.Board.paid(id, p)
	}
	return err
}

// Start implements provider.Store.
func (s Store) Start(ctx context.Context, id string, d *provider.Directive, thread string, plan provider.Plan, out ...provider.OutEvent) (int, error) {
	run, err := s.Store.Start(ctx, id, d, thread, plan, out...)
	if err == nil {
		s.Board.moved(id, provider.StateRunning)
	}
	return run, err
}

// Finish implements provider.Store.
func (s Store) Finish(ctx context.Context, id string, run int, r provider.Result, contents [][]byte, out ...provider.OutEvent) error {
	err := s.Store.Finish(ctx, id, run, r, contents, out...)
	if err == nil {
		s.Board.moved(id, provider.StateDelivering)
	}
	return err
}

// Settle implements provider.Store.
func (s Store) Settle(ctx context.Context, id string, p provider.Payment, issue func(provider.Issue) (provider.Issued, error)) error {
	var excess *provider.Credit
	err := s.Store.Settle(ctx, id, p, func(i provider.Issue) (provider.Issued, error) {
		issued, err := issue(i)
		excess = issued.Excess
		return issued, err
	})
	if err == nil {
		s.Board.settled(id, p, excess)
	}
	return err
}

// SettleEngagement implements provider.Store.
func (s Store) SettleEngagement(ctx context.Context, id string, p provider.Payment, issue func(provider.Issue) (provider.Issued, error)) error {
	err := s.Store.SettleEngagement(ctx, id, p, issue)
	if err == nil {
		s.Board.earned(p.PaidMsats)
	}
	return err
}

// AddLate implements provider.Store.
func (s Store) AddLate(ctx context.Context, c provider.Credit, tell func(msats int64) (provider.OutEvent, error)) (int64, error) {
	msats, err := s.Store.AddLate(ctx, c, tell)
	if err == nil {
		s.Board.owes(msats)
	}
	return msats, err
}

// Close implements provider.Store.
func (s Store) Close(ctx context.Context, id string, to provider.State, r provider.Reason, owed *provider.Credit, out ...provider.OutEvent) error {
	err := s.Store.Close(ctx, id, to, r, owed, out...)
	if err == nil {
		s.Board.closed(id, to, r.Code, owed)
	}
	return err
}

// Runner is a provider's runner whose runs the board sees.
type Runner struct {
	provider.Runner
	Board *Board
}

// Run implements provider.Runner.
func (r Runner) Run(ctx context.Context, run provider.Run) (provider.Outcome, error) {
	begin := time.Now()
	out, err := r.Runner.Run(ctx, run)
	outcome := runOK
	var failed *provider.RunError
	switch {
	case errors.As(err, &failed):
		outcome = string(failed.Reason.Code)
	case err != nil:
		outcome = "error"
	}
	r.Board.m.runs.WithLabelValues(run.SchemaID, outcome).Observe(time.Since(begin).Seconds())
	return out, err
}

// Market is a provider's market whose relays' answers the board sees.
type Market struct {
	provider.Market
	Board *Board
}

// Publish implements provider.Market.
func (m Market) Publish(ctx context.Context, ev nostr.Event) []provider.Ack {
	begin := time.Now()
	acks := m.Market.Publish(ctx, ev)
	m.Board.m.publish.Observe(time.Since(begin).Seconds())
	for _, a := range acks {
		result := publishedNot
		if a.OK {
			result = publishedOK
		}
		m.Board.m.published.WithLabelValues(a.Relay, result).Inc()
	}
	return acks
}
