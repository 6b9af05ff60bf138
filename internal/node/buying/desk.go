// Package buying lets many processes buy with one store. One of them works on a purchase,
// an order or a panel at a time: it has the lease. What the others want of it they write
// to the store, where it is seen. A process that is killed has no lease any more, and
// another goes on.
package buying

import (
	"context"
	"errors"
	"strings"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/lease"
)

// Store is what all processes of a buyer read of their purchases.
type Store interface {
	Purchase(ctx context.Context, requestID string) (buyer.Purchase, error)
	PlacedOrder(ctx context.Context, requestID string) (buyer.PlacedOrder, error)
	Panel(ctx context.Context, id string) (panel.Panel, error)
	Unfinished(ctx context.Context) ([]string, error)
	OpenPanels(ctx context.Context) ([]string, error)
	Feedback(ctx context.Context, requestID string) ([][]byte, error)
}

// Watch calls look at once, and again after each change that any process has committed,
// until look is done or fails, or ctx ends.
type Watch func(ctx context.Context, look func(context.Context) (done bool, err error)) error

// Desk is where one process works on purchases beside others.
type Desk struct {
	Client *buyer.Client
	Panels *panel.Client
	Board
	// Remote is the buyer that runs on the data folder, and does the work; nil without
	// one.
	Remote *Remote
}

// Board shows what becomes of purchases, whoever works on them.
type Board struct {
	Store  Store
	Watch  Watch
	Leases lease.Dir
}

// panelPrefix begins the id of a panel, where that of a purchase is hex.
const panelPrefix = "panel_"

// unit names what one process at a time works on: the panel or the order that a purchase
// belongs to, or the purchase itself.
func (b Board) unit(ctx context.Context, id string) (string, error) {
	if strings.HasPrefix(id, panelPrefix) {
		return id, nil
	}
	p, err := b.Store.Purchase(ctx, id)
	if err != nil {
		return "", err
	}
	if p.Member != nil {
		return p.Member.Panel, nil
	}

	order, err := b.Store.PlacedOrder(ctx, id)
	switch {
	case errors.Is(err, buyer.ErrNotFound):
		return id, nil
	case err != nil:
		return "", err
	}
	return order.ID, nil
}

// Worker is the process that works on a purchase or a panel; false if none does.
func (b Board) Worker(ctx context.Context, id string) (pid int, works bool, err error) {
	unit, err := b.unit(ctx, id)
	if err != nil {
		return 0, false, err
	}
	return b.Leases.Holder(unit)
}

// Open are the open panels, and the requests to follow that belong to none.
func (b Board) Open(ctx context.Context) ([]string, error) {
	panels, err := b.Store.OpenPanels(ctx)
	if err != nil {
		return nil, err
	}
	single, err := b.Store.Unfinished(ctx)
	return append(panels, single...), err
}

// Latest is the purchase that counts of the order that a request was made for: of its
// last request, or of this one if it was made for none.
func (b Board) Latest(ctx context.Context, requestID string) (buyer.Purchase, error) {
	order, err := b.Store.PlacedOrder(ctx, requestID)
	switch {
	case errors.Is(err, buyer.ErrNotFound):
	case err != nil:
		return buyer.Purchase{}, err
	default:
		requestID = order.Requests[len(order.Requests)-1].RequestID
	}
	return b.Store.Purchase(ctx, requestID)
}
