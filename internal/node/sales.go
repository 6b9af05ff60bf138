package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/names"
	"github.com/lightwork-market/lightwork/internal/store/sales"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// Sales is what this node has sold, to read.
type Sales struct{ store *sales.Store }

// StoredReceipt is a receipt as a side keeps it.
type StoredReceipt struct {
	RequestID string
	ReceiptID string
	// Doc is the receipt itself of what was sold, and the signed event that brought it of
	// what was bought.
	Doc []byte
}

// UsedPolicy is a policy bundle that jobs were sold under.
type UsedPolicy struct {
	ID      hashing.Digest
	FirstAt time.Time
	LastAt  time.Time // when a run of the provider last began under it
	Jobs    int64     // admitted under it
}

// Job is the job of a request.
func (s *Sales) Job(ctx context.Context, requestID string) (provider.Job, error) {
	return s.store.Job(ctx, requestID)
}

// FindJob is the job whose request id begins with prefix.
func (s *Sales) FindJob(ctx context.Context, prefix string) (provider.Job, error) {
	return s.store.FindJob(ctx, prefix)
}

// Jobs lists jobs, newest first; at most limit if limit > 0.
func (s *Sales) Jobs(ctx context.Context, limit int) ([]provider.Job, error) {
	return s.store.Jobs(ctx, limit)
}

// Acks is what relays answered to the events of a job.
func (s *Sales) Acks(ctx context.Context, requestID string) ([]provider.Ack, error) {
	return s.store.Acks(ctx, requestID)
}

// LeftOpen is what keeps a provider that drains from its end.
func (s *Sales) LeftOpen(ctx context.Context) (provider.Left, error) {
	return provider.LeftOpen(ctx, s.store)
}

// Debts lists what failed prepaid jobs left owing.
func (s *Sales) Debts(ctx context.Context) ([]provider.Debt, error) { return s.store.Debts(ctx) }

// DebtOf is the debt of one job; nil if there is none.
func (s *Sales) DebtOf(ctx context.Context, requestID string) (*provider.Debt, error) {
	return s.store.DebtOf(ctx, requestID)
}

// Receipts lists what was signed, newest first; at most limit if limit > 0.
func (s *Sales) Receipts(ctx context.Context, limit int) ([]StoredReceipt, error) {
	return storedReceipts(s.store.Receipts(ctx, limit))
}

// FindReceipts finds by the beginning of a receipt's or a request's id, of at least
// [MinName] bytes; three at most.
func (s *Sales) FindReceipts(ctx context.Context, name string) ([]StoredReceipt, error) {
	return storedReceipts(s.store.FindReceipts(ctx, name))
}

// Policies lists the policy bundles that jobs were sold under, the last first.
func (s *Sales) Policies(ctx context.Context) (all []UsedPolicy, err error) {
	list, err := s.store.Policies(ctx)
	for _, p := range list {
		all = append(all, UsedPolicy(p))
	}
	return all, err
}

// Policy is the canonical text of a bundle that jobs were sold under.
func (s *Sales) Policy(ctx context.Context, id hashing.Digest) ([]byte, error) {
	return s.store.Content(ctx, id)
}

func storedReceipts(list []names.Receipt, err error) (all []StoredReceipt, _ error) {
	for _, r := range list {
		all = append(all, StoredReceipt(r))
	}
	return all, err
}

// ErrEncryptedSale: a sale's events are encrypted for its buyer, who can prove it.
var ErrEncryptedSale = errors.New("the job's events are encrypted for its buyer: only the buyer can export a bundle")

// Bundle is what this provider has of a sale, to prove it. What was pruned is not in it;
// see [PruningOf].
func (s *Sales) Bundle(ctx context.Context, j provider.Job, purpose receipts.Purpose) (*receipts.Bundle, error) {
	charge := &j.Charge
	if purpose == receipts.PurposeEngagement {
		charge = j.Engagement
	}
	if charge == nil || charge.Receipt == nil {
		return nil, fmt.Errorf("job %s: no receipt was issued", j.RequestID)
	}

	b := &receipts.Bundle{Receipt: charge.Receipt, Quote: charge.Quote, Artifacts: map[string][]byte{}}
	if err := s.addEvents(ctx, b, j, charge); err != nil {
		return nil, err
	}
	var err error
	if b.Previous, err = s.previousReceipt(ctx, charge); err != nil {
		return nil, err
	}
	if b.Policy, err = s.store.Content(ctx, j.PolicyID); err != nil {
		return nil, err
	}
	if purpose == receipts.PurposeEngagement || j.Result == nil {
		return b, nil
	}
	return b, s.addWork(ctx, b, j)
}

// previousReceipt is the receipt before one, nil if the bundle has none. One of a key that
// the provider had before is left out: a reader who knows of no key change would take it
// for another provider's.
func (s *Sales) previousReceipt(ctx context.Context, charge *provider.Charge) ([]byte, error) {
	doc, err := s.store.PreviousReceipt(ctx, charge.ReceiptID)
	if err != nil || doc == nil {
		return nil, err
	}
	now, err := receipts.ParseReceipt(charge.Receipt)
	if err != nil {
		return nil, err
	}
	before, err := receipts.ParseReceipt(doc)
	if err != nil || before.ProviderID != now.ProviderID {
		return nil, err
	}
	return doc, nil
}

// addEvents adds what both sides signed, in the form that a bundle has.
func (s *Sales) addEvents(ctx context.Context, b *receipts.Bundle, j provider.Job, charge *provider.Charge) error {
	parse := func(doc []byte) (receipts.Event, error) { return receipts.ParseEvent(doc, receipts.MaxEventBytes) }
	request, err := parse(j.Request)
	if err != nil {
		return fmt.Errorf("request of job %s: %w", j.RequestID, err)
	}
	b.Request = request.JSON()
	if charge.Acceptance != nil {
		accepted, err := parse(charge.Acceptance)
		if err != nil {
			return fmt.Errorf("acceptance of job %s: %w", j.RequestID, err)
		}
		b.Acceptance = accepted.JSON()
	}

	list, err := s.store.Events(ctx, j.RequestID)
	if err != nil {
		return err
	}
	for _, out := range list {
		ev, err := parse(out.Event)
		if err != nil {
			return fmt.Errorf("event %s of job %s: %w", out.EventID, j.RequestID, err)
		}
		if ev.Sig == "" {
			ev.Sig = out.Sig
		}
		switch of, _ := domain.Of(ev.Tags); {
		case of == domain.Receipt && ev.Content == string(charge.Receipt):
			b.ReceiptEvent = ev.JSON()
		case of == domain.Quote && ev.Content == string(charge.Quote) && slices.Contains(ev.Values("status"), "payment-required"):
			b.QuoteEvent = ev.JSON()
		}
	}
	if b.ReceiptEvent == nil {
		return ErrEncryptedSale
	}
	return nil
}

// addWork adds the result, its record and the artifacts that are here. A result that was
// pruned may be in its event still.
func (s *Sales) addWork(ctx context.Context, b *receipts.Bundle, j provider.Job) error {
	result, err := receipts.ParseEvent(j.Result.Event, receipts.MaxEventBytes)
	if err != nil {
		return fmt.Errorf("result of job %s: %w", j.RequestID, err)
	}
	b.ResultEvent, b.Result = result.JSON(), j.Result.Output
	if content := []byte(result.Content); b.Result == nil && hashing.Bytes(content) == j.Result.OutputHash {
		b.Result = content
	}

	here := func(part string, d hashing.Digest) ([]byte, error) {
		if slices.ContainsFunc(j.Pruned, func(p job.PrunedPart) bool { return p.Part == part }) {
			return nil, nil
		}
		return s.store.Content(ctx, d)
	}
	if b.Replay, err = here(receipts.PartTrajectories, j.Result.Replay); err != nil {
		return err
	}
	for _, d := range j.Result.Artifacts {
		data, err := here(receipts.PartArtifacts, d)
		if err != nil {
			return err
		}
		if data != nil {
			b.Artifacts[d.Hex()] = data
		}
	}
	return nil
}

// PruningOf is the provider's word on what it has pruned of a job; nil if that is nothing.
func PruningOf(j provider.Job, receiptID string) *receipts.Pruning {
	said := &receipts.Pruning{Version: receipts.Version, ReceiptID: receiptID, RequestID: j.RequestID}
	for _, part := range receipts.Parts() {
		if i := slices.IndexFunc(j.Pruned, func(p job.PrunedPart) bool { return p.Part == part }); i >= 0 {
			said.Parts = append(said.Parts, receipts.PrunedPart{Part: part, At: receipts.Timestamp(j.Pruned[i].At)})
		}
	}
	if said.Parts == nil {
		return nil
	}
	return said
}
