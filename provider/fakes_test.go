package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/schemas"
)

// watched is a store that tells when a job changes its state.
type watched struct {
	provider.Store

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

func (s *watched) codes() (list []provider.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.refusals {
		list = append(list, r.code)
	}
	return list
}

func (s *watched) wasRefused(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.refusals, func(r refusal) bool { return r.id == id })
}

// life says how to stop the provider's latest life, and when it is over.
func (s *watched) life(stop func(), stopped chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop, s.stopped = stop, stopped
}

// stopWhen stops the provider in the step that brings a job to the state.
func (s *watched) stopWhen(state provider.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopAt = state
}

func (s *watched) to(state provider.State, err error) error {
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

func (s *watched) changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change
}

// await returns the job once it is in one of the states.
func (w *world) await(t *testing.T, id string, states ...provider.State) provider.Job {
	t.Helper()
	for {
		change := w.store.changed()
		job, err := w.store.Job(w.ctx, id)
		if err != nil && !errors.Is(err, provider.ErrNotFound) {
			t.Fatal(err)
		}
		for _, s := range states {
			if err == nil && job.State == s {
				return job
			}
		}
		if err == nil && job.State.Terminal() {
			t.Fatalf("job is %s (%s), want %v", job.State, job.Reason, states)
		}
		select {
		case <-change:
		case <-w.ctx.Done():
			t.Fatalf("job stays %s, want %v", job.State, states)
		}
	}
}

// until returns the job once it is so.
func (w *world) until(t *testing.T, id string, so func(provider.Job) bool) provider.Job {
	t.Helper()
	for {
		change := w.store.changed()
		job, err := w.store.Job(w.ctx, id)
		if err == nil && so(job) {
			return job
		}
		select {
		case <-change:
		case <-w.ctx.Done():
			t.Fatalf("job %s stays %q (%v)", id, job.State, err)
		}
	}
}

// passes waits until a job has come to a state, or further.
func (w *world) passes(t *testing.T, id string, state provider.State) provider.Job {
	t.Helper()
	order := []provider.State{provider.StateQuoted, provider.StatePaid, provider.StateRunning, provider.StateDelivering}
	return w.until(t, id, func(job provider.Job) bool {
		return job.State.Terminal() || slices.Index(order, job.State) >= slices.Index(order, state)
	})
}

// ended waits for a job's end.
func (w *world) ended(t *testing.T, id string) provider.Job {
	t.Helper()
	return w.until(t, id, func(job provider.Job) bool { return job.State.Terminal() })
}

// What changes of a job beside its state.
const (
	invoiced provider.State = "invoiced"
	engaged  provider.State = "engaged"
	acked    provider.State = "acked"
)

func (s *watched) AddAcks(ctx context.Context, acks ...provider.Ack) error {
	return s.to(acked, s.Store.AddAcks(ctx, acks...))
}

func (s *watched) SetInvoice(ctx context.Context, id, bolt11 string, chosen payments.Hash, out ...provider.OutEvent) error {
	return s.to(invoiced, s.Store.SetInvoice(ctx, id, bolt11, chosen, out...))
}

func (s *watched) SetEngagementInvoice(ctx context.Context, id, bolt11 string, out ...provider.OutEvent) error {
	return s.to(invoiced, s.Store.SetEngagementInvoice(ctx, id, bolt11, out...))
}

func (s *watched) SettleEngagement(ctx context.Context, id string, p provider.Payment, issue func(provider.Issue) (provider.Issued, error)) error {
	return s.to(engaged, s.Store.SettleEngagement(ctx, id, p, issue))
}

func (s *watched) AddJob(ctx context.Context, j provider.Job) error {
	return s.to(provider.StateQuoted, s.Store.AddJob(ctx, j))
}

func (s *watched) Refuse(ctx context.Context, id, buyer string, r provider.Reason, out ...provider.OutEvent) error {
	err := s.Store.Refuse(ctx, id, buyer, r, out...)
	if err == nil {
		s.mu.Lock()
		s.refusals = append(s.refusals, refusal{id, r.Code})
		s.answered += len(out)
		s.mu.Unlock()
	}
	return s.to(provider.StateRefused, err)
}

func (s *watched) SetPaid(ctx context.Context, id string, p provider.Payment, d provider.Directive, thread string) error {
	return s.to(provider.StatePaid, s.Store.SetPaid(ctx, id, p, d, thread))
}

func (s *watched) Start(ctx context.Context, id string, d *provider.Directive, thread string, plan provider.Plan, out ...provider.OutEvent) (int, error) {
	run, err := s.Store.Start(ctx, id, d, thread, plan, out...)
	return run, s.to(provider.StateRunning, err)
}

func (s *watched) Finish(ctx context.Context, id string, run int, r provider.Result, contents [][]byte, out ...provider.OutEvent) error {
	return s.to(provider.StateDelivering, s.Store.Finish(ctx, id, run, r, contents, out...))
}

func (s *watched) Settle(ctx context.Context, id string, p provider.Payment, issue func(provider.Issue) (provider.Issued, error)) error {
	return s.to(provider.StateSucceeded, s.Store.Settle(ctx, id, p, issue))
}

func (s *watched) Close(ctx context.Context, id string, to provider.State, r provider.Reason, c *provider.Credit, out ...provider.OutEvent) error {
	err := s.Store.Close(ctx, id, to, r, c, out...)
	if err == nil && c != nil {
		s.mu.Lock()
		s.credits = append(s.credits, *c)
		s.mu.Unlock()
	}
	return s.to(to, err)
}

func (s *watched) AddLate(ctx context.Context, c provider.Credit, tell func(int64) (provider.OutEvent, error)) (int64, error) {
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

// runner is an agent that does what the test says; left alone it succeeds.
type runner struct {
	key string // of the provider

	mu   sync.Mutex
	runs []provider.Run
	do   func(ctx context.Context, r provider.Run) (provider.Outcome, error)
}

func (r *runner) Run(ctx context.Context, run provider.Run) (provider.Outcome, error) {
	r.mu.Lock()
	r.runs = append(r.runs, run)
	do := r.do
	r.mu.Unlock()
	if do != nil {
		return do(ctx, run)
	}
	return r.good(nil)
}

func (r *runner) Tool(string) string { return "worker/count" }

func (r *runner) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.runs)
}

// good is a valid outcome of order, changed by the test.
func (r *runner) good(change func(*schemas.SandboxRunResult)) (provider.Outcome, error) {
	file := []byte("one two three\n")
	res := schemas.SandboxRunResult{
		EnvInfo:    schemas.SandboxEnv{ImageDigest: toolchain()},
		Runs:       []schemas.SandboxRunInfo{{Cmd: "count", StdoutSHA256: hashing.Bytes(file), StderrSHA256: hashing.Bytes(nil), StdoutPreview: string(file)}},
		Artifacts:  []schemas.SandboxArtifact{{Path: "out.txt", SHA256: hashing.Bytes(file), SizeBytes: int64(len(file))}},
		Status:     schemas.StatusSuccess,
		Provenance: schemas.Provenance{ModelID: "worker", ProviderPubkey: r.key},
	}
	if change != nil {
		change(&res)
	}
	doc, err := json.Marshal(res)
	return provider.Outcome{Output: doc, Artifacts: [][]byte{file}}, err
}

// hang runs until it is told to stop.
func hang(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
	<-ctx.Done()
	return provider.Outcome{}, ctx.Err()
}

// streaming prints, and writes its text once the buyer saw something.
func (w *world) streaming(seen <-chan string) func(context.Context, provider.Run) (provider.Outcome, error) {
	return func(ctx context.Context, run provider.Run) (provider.Outcome, error) {
		run.OnStream("stdout", "the secret output")
		select {
		case <-seen:
		case <-ctx.Done():
		}
		return w.words()
	}
}

// gated is the buyer's wallet, held up where the test wants.
type gated struct {
	*playnet.Client
	beforeSend, afterSend, beforeTrack func()
}

func (g *gated) SendPayment(ctx context.Context, p payments.Pay) error {
	call(g.beforeSend)
	err := g.Client.SendPayment(ctx, p)
	call(g.afterSend)
	return err
}

func (g *gated) TrackPayment(ctx context.Context, h payments.Hash) (payments.Payment, error) {
	call(g.beforeTrack)
	return g.Client.TrackPayment(ctx, h)
}

func call(f func()) {
	if f != nil {
		f()
	}
}

// noBlobs is a market whose blob server takes nothing.
type noBlobs struct {
	provider.Market
	tried chan<- struct{}
}

func (m noBlobs) Upload(context.Context, []byte, string) error {
	m.tried <- struct{}{}
	return errors.New("blob server is down")
}

// request is a 5050 made by hand.
func (w *world) request(t *testing.T, key *relay.Key, input []byte, more ...nostr.Tag) nostr.Event {
	t.Helper()
	return raw(t, key, 5050, "", append(nostr.Tags{
		{"param", "schema", string(schemas.SandboxRun)}, {"i", string(input), "text"}, {"p", w.seller.key.PublicKey()},
	}, more...)...)
}

func (s *watched) EndRefund(ctx context.Context, id string, end provider.RefundEnd, out ...provider.OutEvent) error {
	return s.to("refunded", s.Store.EndRefund(ctx, id, end, out...))
}

// end stops the provider's latest life.
func (s *watched) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

// lifeOver is closed when the provider's latest life is over.
func (s *watched) lifeOver() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}
