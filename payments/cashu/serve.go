package cashu

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// engine is the state of Serve's goroutine between rounds. Losing it costs at most
// one more request or message.
type engine struct {
	*Wallet
	next           map[payments.Hash]*pace // by payment
	retry          map[int64]*pace         // by op
	waitingForRoom map[int64]bool          // arrivals that wait for room under MaxMsats
}

// pace says when to act next.
type pace struct {
	look, send time.Time
	wait       time.Duration
}

const (
	resend  = time.Minute      // between two messages of one payment
	slowest = 15 * time.Second // between two checks of one payment
)

// Serve receives payments and carries out what the methods started. It returns nil
// when ctx ends. It must be called only once.
func (w *Wallet) Serve(ctx context.Context) error {
	defer close(w.ended)

	var receiving sync.WaitGroup
	defer receiving.Wait()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var receiveErr error
	receiving.Go(func() {
		defer cancel()
		receiveErr = w.cfg.Messages.Receive(ctx, func(doc []byte) { w.onMessage(ctx, doc) })
	})
	e := engine{Wallet: w, next: map[payments.Hash]*pace{}, retry: map[int64]*pace{}, waitingForRoom: map[int64]bool{}}
	tick := time.NewTicker(w.cfg.Poll)
	defer tick.Stop()

	for {
		e.round(ctx)
		select {
		case <-tick.C:
		case <-w.kick:
		case <-ctx.Done():
			receiving.Wait()
			if receiveErr != nil && !errors.Is(receiveErr, context.Canceled) {
				return fmt.Errorf("receive payments: %w", receiveErr)
			}
			return nil
		}
	}
}

// round does all the work that is due. An error is logged, and the work is tried
// again in a later round.
func (e *engine) round(ctx context.Context) {
	var ops []op
	var arrivals []arrival
	var invoices []invoiceRow
	var sent []paymentRow
	err := e.db.View(ctx, func(tx *sqlite.Tx) (err error) {
		if ops, err = openOps(tx); err == nil {
			arrivals, err = newArrivals(tx)
		}
		if err == nil {
			invoices, err = unfinishedInvoices(tx)
		}
		if err == nil {
			sent, err = sentPayments(tx)
		}
		return err
	})
	if err != nil {
		e.complain(ctx, "read wallet", err)
		return
	}

	for _, o := range ops {
		if e.isDue(o.id) {
			e.setPace(ctx, o, e.advance(ctx, o))
		}
	}

	for _, a := range arrivals {
		e.complain(ctx, "look at a payment that arrived", e.accept(ctx, a))
	}
	for _, i := range invoices {
		e.complain(ctx, "end invoice", e.endExpired(ctx, i))
	}
	for _, p := range sent {
		e.complain(ctx, "follow payment", e.follow(ctx, p))
	}
}

// complain logs errors, except at our own end.
func (e *engine) complain(ctx context.Context, doing string, err error) {
	if err != nil && ctx.Err() == nil {
		e.cfg.Log.Warn(doing, "mint", e.cfg.Mint, "err", err)
	}
}

// isDue reports whether an op may be tried again after its last failure.
func (e *engine) isDue(id int64) bool {
	p := e.retry[id]
	return p == nil || !time.Now().Before(p.look)
}

func (e *engine) setPace(ctx context.Context, o op, err error) {
	if err == nil {
		delete(e.retry, o.id)
		return
	}
	e.complain(ctx, "ask mint: "+o.kind, err)
	p := e.retry[o.id]
	if p == nil {
		p = &pace{wait: e.cfg.Poll / 2}
		e.retry[o.id] = p
	}

	p.wait = min(2*p.wait, slowest)
	p.look = time.Now().Add(p.wait)
}

// endExpired ends an expired invoice, so that its watchers are notified.
func (e *engine) endExpired(ctx context.Context, row invoiceRow) error {
	if !e.hasExpired(row, time.Now()) {
		return nil
	}
	after, err := e.invoice(ctx, row.hash)
	if err == nil && after.state != row.state {
		e.notify(row.hash)
	}
	return err
}

// keysetsOf returns the mint's keysets, and refreshes them if a note has another
// one.
func (e *engine) keysetsOf(ctx context.Context, notes []note) (map[string]*keyset, error) {
	list, err := e.keys(ctx, keysRefresh)
	if err != nil {
		return nil, err
	}

	for _, n := range notes {
		if list[n.Keyset] == nil {
			list, err = e.keys(ctx, slowest)
			break
		}
	}

	if err != nil {
		return nil, err
	}

	for _, n := range notes {
		if list[n.Keyset] == nil {
			return nil, fmt.Errorf("%w: %q", ErrKeyset, printable(n.Keyset))
		}
	}

	return list, nil
}
