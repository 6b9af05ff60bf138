package payments

import "context"

// Payee is the side of a wallet that is paid. A hint of WatchInvoices names an invoice
// that may have changed; only LookupInvoice tells what became of it.
type Payee interface {
	Node(ctx context.Context) (Node, error)
	CreateInvoice(ctx context.Context, n NewInvoice) (Invoice, error)
	LookupInvoice(ctx context.Context, hash Hash) (Invoice, error)
	SettleInvoice(ctx context.Context, preimage Preimage) error
	CancelInvoice(ctx context.Context, hash Hash) error
	WatchInvoices(ctx context.Context, hint func(Hash)) error
}

// Payer is the side of a wallet that pays. SendPayment begins a payment, LookupPayment
// tells its present state, and TrackPayment waits for its end.
type Payer interface {
	Node(ctx context.Context) (Node, error)
	SendPayment(ctx context.Context, p Pay) error
	LookupPayment(ctx context.Context, hash Hash) (Payment, error)
	TrackPayment(ctx context.Context, hash Hash) (Payment, error)
}

// MaySpend is what a wallet asks directly before money leaves it: nil lets the money go,
// and an error, which is an [ErrSpendingStopped], keeps it. A wallet with a nil MaySpend
// asks nobody. Money that comes in, or back, is not asked for.
type MaySpend func() error

// Ask asks, where there is somebody to ask.
func (m MaySpend) Ask() error {
	if m == nil {
		return nil
	}
	return m()
}

// Wallet has all methods of a backend.
type Wallet interface {
	Payee
	Payer
	Balance(ctx context.Context) (Balance, error)
}
