// Package observe lets the operator of a node see what it does: metrics for
// Prometheus, health and readiness, and the state that lightwork top shows.
//
// It learns about a provider's jobs from events, so it cannot hold up a job. Labels
// and pages have only values from a bounded set; a buyer's key, for example, is
// never a label.
package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
)

// OpenJob is a job that has not ended. Amounts are msats.
type OpenJob struct {
	RequestID  string         `json:"request_id"`
	State      provider.State `json:"state"`
	Schema     string         `json:"schema_id"`
	Mode       string         `json:"mode"`
	PriceMsats int64          `json:"price_msats"`
	HeldMsats  int64          `json:"held_msats,omitempty"`
	AddedAt    time.Time      `json:"added_at"`
	StateAt    time.Time      `json:"state_at"`
}

// Totals are sums since the start of the node.
type Totals struct {
	Quoted        int64 `json:"quoted"`
	Refused       int64 `json:"refused"`
	Succeeded     int64 `json:"succeeded"`
	Failed        int64 `json:"failed"`
	Canceled      int64 `json:"canceled"`
	Expired       int64 `json:"expired"`
	SettledMsats  int64 `json:"settled_msats"`
	ReturnedMsats int64 `json:"returned_msats"` // held and given back
	OwedMsats     int64 `json:"owed_msats"`     // received for failed jobs
}

// Board tracks the state of each open job and the totals of the ended ones. Its
// size depends on the open jobs, which admission bounds.
type Board struct {
	m      *instruments
	now    func() time.Time
	offers []provider.Offer

	mu     sync.Mutex
	open   map[string]*OpenJob
	totals Totals
}

// NewBoard returns an empty board.
func NewBoard() *Board {
	return &Board{m: newInstruments(), now: time.Now, open: map[string]*OpenJob{}}
}

// Offer announces the offers and relays, so that every series exists from the start
// with the value 0: Prometheus does not see the first increase of a series that
// begins with its first event, and an alert on the first debt would be lost.
func (b *Board) Offer(offers []provider.Offer, relays []string) {
	b.offers = offers
	for _, code := range provider.Codes() {
		b.m.refused.WithLabelValues(string(code))
	}
	for _, relay := range relays {
		b.m.published.WithLabelValues(relay, publishedOK)
		b.m.published.WithLabelValues(relay, publishedNot)
	}

	for _, o := range offers {
		b.m.runs.WithLabelValues(o.SchemaID, runOK)
		for _, mode := range o.Modes {
			b.m.quoted.WithLabelValues(o.SchemaID, string(mode))
			b.m.ended.WithLabelValues(o.SchemaID, string(mode), string(provider.StateSucceeded), "")
			for _, code := range provider.Codes() {
				b.m.ended.WithLabelValues(o.SchemaID, string(mode), string(provider.StateFailed), string(code))
			}
			b.m.ended.WithLabelValues(o.SchemaID, string(mode), string(provider.StateCanceled), string(provider.CodeCanceled))
			b.m.ended.WithLabelValues(o.SchemaID, string(mode), string(provider.StateExpired), string(provider.CodePaymentExpired))
		}
	}
}

// Seed adds the jobs that are open from an earlier run.
func (b *Board) Seed(ctx context.Context, s provider.Store) error {
	ids, err := s.OpenJobs(ctx)
	if err != nil {
		return fmt.Errorf("list open jobs: %w", err)
	}

	for _, id := range ids {
		j, err := s.Job(ctx, id)
		if err != nil {
			return fmt.Errorf("read open job: %w", err)
		}
		open := openJob(j, j.StateAt)
		if j.Payment != nil && j.Payment.State == payments.InvoiceHeld {
			open.HeldMsats = j.Payment.PaidMsats
		}
		b.mu.Lock()
		b.open[id] = open
		b.mu.Unlock()
	}

	return nil
}

func openJob(j provider.Job, at time.Time) *OpenJob {
	return &OpenJob{
		RequestID: j.RequestID, State: j.State, Schema: j.SchemaID, Mode: string(j.Mode),
		PriceMsats: j.PriceMsats, AddedAt: j.AddedAt, StateAt: at,
	}
}

// Open lists the open jobs, the oldest first.
func (b *Board) Open() []OpenJob {
	b.mu.Lock()
	list := make([]OpenJob, 0, len(b.open))
	for _, j := range b.open {
		list = append(list, *j)
	}
	b.mu.Unlock()
	slices.SortFunc(list, func(x, y OpenJob) int {
		return cmp.Or(x.AddedAt.Compare(y.AddedAt), cmp.Compare(x.RequestID, y.RequestID))
	})
	return list
}

// Totals returns the sums since the start of the node.
func (b *Board) Totals() Totals {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.totals
}

func (b *Board) addQuote(j provider.Job) {
	b.m.quoted.WithLabelValues(j.SchemaID, string(j.Mode)).Inc()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.Quoted++
	b.open[j.RequestID] = openJob(j, b.now())
}

func (b *Board) addRefusal(code provider.Code) {
	b.m.refused.WithLabelValues(string(code)).Inc()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.Refused++
}

// addPayment counts received money.
func (b *Board) addPayment(id string, p provider.Payment) {
	b.m.money.WithLabelValues(string(p.State)).Add(float64(p.PaidMsats))
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.move(id, provider.StatePaid)
	switch {
	case p.State == payments.InvoiceSettled:
		b.totals.SettledMsats += p.PaidMsats
	case j != nil:
		j.HeldMsats = p.PaidMsats
	}
}

func (b *Board) setState(id string, to provider.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.move(id, to)
}

// addSettlement ends a job whose money is finally ours. Prepaid money was counted when it
// arrived.
func (b *Board) addSettlement(e provider.SettlementEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if j := b.open[e.RequestID]; j == nil || j.Mode != "prepay" {
		b.earn(e.PaidMsats)
	}
	b.owe(e.ExcessMsats)
	b.end(e.RequestID, provider.StateSucceeded, "")
}

// addEarning counts money that is ours and does not end a job.
func (b *Board) addEarning(msats int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.earn(msats)
}

// addDebt counts a debt that does not end a job.
func (b *Board) addDebt(msats int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owe(msats)
}

// earn and owe count money; b.mu must be held.
func (b *Board) earn(msats int64) {
	b.m.money.WithLabelValues(string(payments.InvoiceSettled)).Add(float64(msats))
	b.totals.SettledMsats += msats
}

func (b *Board) owe(msats int64) {
	b.m.money.WithLabelValues(stateOwed).Add(float64(msats))
	b.totals.OwedMsats += msats
}

// endUnpaid ends a job without a receipt.
func (b *Board) endUnpaid(e provider.EndEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if j := b.open[e.RequestID]; j != nil && j.HeldMsats > 0 { // an engagement fee may be owed in addition
		b.m.money.WithLabelValues(stateReturned).Add(float64(j.HeldMsats))
		b.totals.ReturnedMsats += j.HeldMsats
	}
	if e.Owed != nil {
		b.owe(e.Owed.Msats)
	}
	b.end(e.RequestID, e.State, e.Reason.Code)
}

// phases names the phase that ends when a job leaves a state.
var phases = map[provider.State]string{
	provider.StateQuoted: "payment", provider.StatePaid: "queue", provider.StateRunning: "run", provider.StateDelivering: "delivery",
}

// move records a new state; b.mu must be held.
func (b *Board) move(id string, to provider.State) *OpenJob {
	j := b.open[id]
	if j == nil {
		return nil
	}
	b.m.phase.WithLabelValues(phases[j.State]).Observe(b.now().Sub(j.StateAt).Seconds())
	j.State, j.StateAt = to, b.now()
	return j
}

// end removes a job; b.mu must be held.
func (b *Board) end(id string, to provider.State, code provider.Code) {
	switch to {
	case provider.StateSucceeded:
		b.totals.Succeeded++
	case provider.StateFailed:
		b.totals.Failed++
	case provider.StateCanceled:
		b.totals.Canceled++
	case provider.StateExpired:
		b.totals.Expired++
	}

	j := b.move(id, to)
	if j == nil {
		return
	}
	delete(b.open, id)
	b.m.ended.WithLabelValues(j.Schema, j.Mode, string(to), string(code)).Inc()
	if to == provider.StateSucceeded {
		b.m.phase.WithLabelValues(phaseAll).Observe(b.now().Sub(j.AddedAt).Seconds())
	}
}
