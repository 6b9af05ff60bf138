package node

import (
	"context"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/names"
	"github.com/lightwork-market/lightwork/internal/store/sales"
	"github.com/lightwork-market/lightwork/provider"
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
