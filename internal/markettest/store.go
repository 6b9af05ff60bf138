package markettest

import (
	"context"
	"slices"
	"sync"

	"github.com/lightwork-market/lightwork/internal/store/sales"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// JobStore is a store that tells when a job changes its state.
type JobStore struct {
	*sales.Store

	mu       sync.Mutex
	change   chan struct{} // closed at every change
	refusals []refusal
	answered int // refusals that were answered
	credits  []provider.Credit

	stopAt  provider.State // the provider is stopped once a job got here
	stop    func()
	stopped chan struct{} // closed when it has stopped
}

type refusal struct {
	id   string
	code provider.Code
}

// RefusalCodes are the reasons of all refusals, in order.
func (s *JobStore) RefusalCodes() (list []provider.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.refusals {
		list = append(list, r.code)
	}
	return list
}

// WasRefused reports whether a request was refused.
func (s *JobStore) WasRefused(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.refusals, func(r refusal) bool { return r.id == id })
}

// life says how to stop the provider's latest life, and when it is over.
func (s *JobStore) life(stop func(), stopped chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop, s.stopped = stop, stopped
}

// StopWhen stops the provider in the step that brings a job to the state.
func (s *JobStore) StopWhen(state provider.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopAt = state
}

func (s *JobStore) to(state provider.State, err error) error {
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	close(s.change)
	s.change = make(chan struct{})
	if state == s.stopAt {
		s.stopAt = ""
		s.stop()
	}

	return nil
}

// Changed is closed at the next change.
func (s *JobStore) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change
}

// What changes of a job beside its state.
const (
	invoiced provider.State = "invoiced"
	engaged  provider.State = "engaged"
	acked    provider.State = "acked"
)

func (s *JobStore) AddAcks(ctx context.Context, acks ...provider.Ack) error {
	return s.to(acked, s.Store.AddAcks(ctx, acks...))
}

func (s *JobStore) SetInvoice(ctx context.Context, id string, purpose receipts.Purpose, bolt11 string, chosen payments.Hash, out ...provider.OutEvent) error {
	return s.to(invoiced, s.Store.SetInvoice(ctx, id, purpose, bolt11, chosen, out...))
}

func (s *JobStore) AddJob(ctx context.Context, j provider.Job) error {
	return s.to(provider.StateQuoted, s.Store.AddJob(ctx, j))
}

func (s *JobStore) Refuse(ctx context.Context, id, buyer string, r provider.Reason, out ...provider.OutEvent) error {
	err := s.Store.Refuse(ctx, id, buyer, r, out...)
	if err == nil {
		s.mu.Lock()
		s.refusals = append(s.refusals, refusal{id, r.Code})
		s.answered += len(out)
		s.mu.Unlock()
	}
	return s.to(provider.StateRefused, err)
}

func (s *JobStore) SetPaid(ctx context.Context, id string, p provider.Payment, d provider.Directive, thread string) error {
	return s.to(provider.StatePaid, s.Store.SetPaid(ctx, id, p, d, thread))
}

func (s *JobStore) Start(ctx context.Context, id string, d *provider.Directive, thread string, plan provider.Plan, out ...provider.OutEvent) (int, error) {
	run, err := s.Store.Start(ctx, id, d, thread, plan, out...)
	return run, s.to(provider.StateRunning, err)
}

func (s *JobStore) Finish(ctx context.Context, id string, run int, r provider.Result, contents [][]byte, out ...provider.OutEvent) error {
	return s.to(provider.StateDelivering, s.Store.Finish(ctx, id, run, r, contents, out...))
}

func (s *JobStore) Settle(ctx context.Context, id string, purpose receipts.Purpose, p provider.Payment, issue func(provider.Issue) (provider.Issued, error)) error {
	to := provider.StateSucceeded
	if purpose == receipts.PurposeEngagement {
		to = engaged
	}
	return s.to(to, s.Store.Settle(ctx, id, purpose, p, issue))
}

func (s *JobStore) Close(ctx context.Context, id string, to provider.State, r provider.Reason, c *provider.Credit, out ...provider.OutEvent) error {
	err := s.Store.Close(ctx, id, to, r, c, out...)
	if err == nil && c != nil {
		s.mu.Lock()
		s.credits = append(s.credits, *c)
		s.mu.Unlock()
	}
	return s.to(to, err)
}

func (s *JobStore) AddLate(ctx context.Context, c provider.Credit, tell func(int64) (provider.OutEvent, error)) (int64, error) {
	msats, err := s.Store.AddLate(ctx, c, tell)
	if err != nil {
		return msats, err
	}
	if msats > 0 {
		c.Msats = msats
		s.mu.Lock()
		s.credits = append(s.credits, c)
		s.mu.Unlock()
	}
	return msats, s.to("late", nil)
}

func (s *JobStore) EndRefund(ctx context.Context, id string, end provider.RefundEnd, out ...provider.OutEvent) error {
	return s.to("refunded", s.Store.EndRefund(ctx, id, end, out...))
}

// EndLife stops the provider's latest life.
func (s *JobStore) EndLife() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

// LifeOver is closed when the provider's latest life is over.
func (s *JobStore) LifeOver() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// Owed are the credits that jobs ended with.
func (s *JobStore) Owed() []provider.Credit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.credits)
}

// Answers counts the refusals that were answered.
func (s *JobStore) Answers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}
