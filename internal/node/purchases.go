package node

import (
	"context"
	"path/filepath"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/lease"
	"github.com/lightwork-market/lightwork/internal/node/buying"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/purchases"
)

// Purchases is what this node has bought, to read. It is the evidence of a bundle
// ([buyer.Evidence]), and the purchases of a panel ([panel.Purchases]).
type Purchases struct {
	store *purchases.Store
	// Board shows what becomes of them, whichever process works on them.
	buying.Board
}

// purchasesIn are those in the buyer's open database.
func purchasesIn(k *store.Store, c *Node) *Purchases {
	kept := k.Purchases()
	return &Purchases{kept, buying.Board{Store: kept, Watch: k.Watch, Leases: c.leases()}}
}

// leases are of what the processes of this buyer work on.
func (c *Node) leases() lease.Dir { return lease.Dir(filepath.Join(c.DataDir("buyer"), "leases")) }

var (
	_ buyer.Evidence  = (*Purchases)(nil)
	_ panel.Purchases = (*Purchases)(nil)
)

// PurchaseTotals add up all purchases.
type PurchaseTotals struct {
	States               map[buyer.State]int
	PaidMsats, FeesMsats int64 // of payments for results, routing fees apart
	RefundedMsats        int64
	ReservedMsats        int64 // of payments under way, or held
	UnknownMsats         int64 // of those given up with their wallet
}

// Purchase is the purchase of a request.
func (p *Purchases) Purchase(ctx context.Context, requestID string) (buyer.Purchase, error) {
	return p.store.Purchase(ctx, requestID)
}

// FindPurchase is the purchase whose request id begins with prefix.
func (p *Purchases) FindPurchase(ctx context.Context, prefix string) (buyer.Purchase, error) {
	return p.store.FindPurchase(ctx, prefix)
}

// Purchases lists purchases, newest first; at most limit if limit > 0.
func (p *Purchases) Purchases(ctx context.Context, limit int) ([]buyer.Purchase, error) {
	return p.store.Purchases(ctx, limit)
}

// Unfinished are the requests to follow after a restart: the open purchases that are no
// member of a panel, and the last request of each open order.
func (p *Purchases) Unfinished(ctx context.Context) ([]string, error) {
	return p.store.Unfinished(ctx)
}

// Totals adds up the purchases.
func (p *Purchases) Totals(ctx context.Context) (PurchaseTotals, error) {
	t, err := p.store.Totals(ctx)
	return PurchaseTotals(t), err
}

// PlacedOrder is the order that a request was made for.
func (p *Purchases) PlacedOrder(ctx context.Context, requestID string) (buyer.PlacedOrder, error) {
	return p.store.PlacedOrder(ctx, requestID)
}

// Panel is the panel of an id.
func (p *Purchases) Panel(ctx context.Context, id string) (panel.Panel, error) {
	return p.store.Panel(ctx, id)
}

// Panels lists panels, newest first; at most limit if limit > 0.
func (p *Purchases) Panels(ctx context.Context, limit int) ([]panel.Panel, error) {
	return p.store.Panels(ctx, limit)
}

// OpenPanels are the ids of panels that have not ended.
func (p *Purchases) OpenPanels(ctx context.Context) ([]string, error) { return p.store.OpenPanels(ctx) }

// Receipts lists what we hold, newest first; at most limit if limit > 0.
func (p *Purchases) Receipts(ctx context.Context, limit int) ([]StoredReceipt, error) {
	return storedReceipts(p.store.Receipts(ctx, limit))
}

// FindReceipts finds by the beginning of a receipt's or a request's id, of at least
// [MinName] bytes; three at most.
func (p *Purchases) FindReceipts(ctx context.Context, name string) ([]StoredReceipt, error) {
	return storedReceipts(p.store.FindReceipts(ctx, name))
}

// Feedback is the signed feedback that came for a request.
func (p *Purchases) Feedback(ctx context.Context, requestID string) ([][]byte, error) {
	return p.store.Feedback(ctx, requestID)
}

// Content is an output, an artifact or another document, by its hash.
func (p *Purchases) Content(ctx context.Context, d hashing.Digest) ([]byte, error) {
	return p.store.Content(ctx, d)
}

// ReceivedReceipt names a receipt that came for a purchase.
type ReceivedReceipt = purchases.ReceivedReceipt

// ReceivedSince names the receipts that came at a time or later, oldest first.
func (p *Purchases) ReceivedSince(ctx context.Context, at time.Time) ([]ReceivedReceipt, error) {
	return p.store.ReceivedSince(ctx, at)
}
