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

// Wallet has all methods of a backend.
type Wallet interface {
	Payee
	Payer
	Balance(ctx context.Context) (Balance, error)
}
