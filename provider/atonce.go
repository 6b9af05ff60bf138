package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// Beginning is the first run of a job that needs no payment, recorded together
// with the job.
type Beginning struct {
	Directive Directive
	Thread    string
	Plan      Plan
	Out       []OutEvent
}

// beginning is the first run of a new job that can begin at once, and holds one
// of p.slots; nil for any other, which is stored as quoted and waits. A free job
// has no invoice between its quote and its run, so both may be one commit.
func (p *Provider) beginning(ctx context.Context, job Job, req *schemas.Request) (*Beginning, error) {
	if job.Mode != receipts.ModeFree || p.canceled.has(job.Buyer+job.RequestID) {
		return nil, nil
	}
	deadline := p.startBy(job).Add(receipts.RunLimit(req) + runMargin)
	select {
	case <-p.remembered:
	default:
		return nil, nil
	}
	if _, delivered := p.delivered[job.RequestID]; delivered || !time.Now().Before(deadline) {
		return nil, nil
	}
	planned, err := planHash(job, p.cfg.Runner.Tool(job.SchemaID))
	if err != nil {
		return nil, fmt.Errorf("hash plan: %w", err)
	}
	if !p.isCustomer(ctx, job.Buyer)() {
		return nil, nil // strangers' jobs have not all the slots: see place
	}
	select {
	case p.slots <- struct{}{}:
	default:
		return nil, nil
	}
	processing, err := p.processing(ctx, job)
	if err != nil {
		<-p.slots
		return nil, err
	}
	return &Beginning{directive(job, "policy:"+string(job.Mode)), thread(job), Plan{deadline, planned}, []OutEvent{processing}}, nil
}

// add stores an admitted job and, if it can begin at once, its first run, which
// it returns with the job as it then stands.
func (p *Provider) add(ctx context.Context, job Job, req *schemas.Request) (Job, *Beginning, error) {
	first, err := p.beginning(ctx, job, req)
	if err != nil {
		return job, nil, err
	}
	if first == nil {
		return job, nil, p.cfg.Store.AddJob(ctx, job)
	}
	if err := p.cfg.Store.AddRunning(ctx, job, *first); err != nil {
		<-p.slots
		return job, nil, err
	}
	p.outbox.send(first.Out...)
	job.Run, job.State, job.StateAt = 1, StateRunning, time.Now().UTC()
	job.DirectiveID, job.Thread = first.Directive.ID, first.Thread
	job.Deadline, job.PlanHash = first.Plan.Deadline, first.Plan.Hash
	return job, first, nil
}

// performFirst does the run that a job was stored with, and gives its slot back.
func (p *Provider) performFirst(ctx context.Context, job Job, sig *jobSignal) error {
	first := sig.first
	sig.first = nil
	defer func() { <-p.slots }()
	ctx, stop := context.WithDeadline(ctx, first.Plan.Deadline)
	defer stop()
	return p.perform(ctx, job, sig, p.cfg.Runner.Tool(job.SchemaID), first.Plan.Deadline)
}
