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

// engine is what Serve's one goroutine remembers between rounds. Losing it
// costs a question or a message more.
type engine struct {
	*Wallet
	next  map[payments.Hash]*pace // by payment
	retry map[int64]*pace         // by op
}

// pace is when something is done next.
type pace struct {
	look, send time.Time
	wait       time.Duration
}

const (
	resend  = time.Minute      // between two messages of one payment
	slowest = 15 * time.Second // between two looks at one payment
)

// Serve receives payments and does what the methods began, until ctx ends; it
// returns nil then. It is called once.
func (w *Wallet) Serve(ctx context.Context) error {
	defer close(w.ended)
	var receiving sync.WaitGroup
	defer receiving.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var receiveErr error
	receiving.Go(func() {
		defer cancel()
		receiveErr = w.cfg.Courier.Receive(ctx, func(doc []byte) { w.arrived(ctx, doc) })
	})
	e := engine{Wallet: w, next: map[payments.Hash]*pace{}, retry: map[int64]*pace{}}
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

// arrived keeps a message that may pay an invoice which is open. What it is
// worth is found out when the mint can be asked.
func (w *Wallet) arrived(ctx context.Context, doc []byte) {
	hash, notes, err := parseMessage(doc, w.cfg.Mint)
	var kept bool
	if err == nil {
		err = w.db.Update(ctx, func(tx *sqlite.Tx) error {
			row, err := selectInvoice(tx, hash)
			if err != nil || row.state != "open" || w.over(row, time.Now()) {
				return err
			}
			kept, err = insertArrival(tx, hash, notes)
			return err
		})
	}
	if err != nil {
		w.cfg.Log.Info("a message is no payment", "err", err)
		return
	}
	if kept {
		w.wake()
	}
}

// round does what there is to do. An error is logged and the thing tried again
// in another round.
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
		if e.due(o.id) {
			e.paced(ctx, o, e.advance(ctx, o))
		}
	}
	for _, a := range arrivals {
		e.complain(ctx, "look at a payment that arrived", e.accept(ctx, a))
	}
	for _, i := range invoices {
		e.complain(ctx, "end invoice", e.lapsed(ctx, i))
	}
	for _, p := range sent {
		e.complain(ctx, "follow payment", e.follow(ctx, p))
	}
}

// complain logs what goes wrong, except our own end.
func (e *engine) complain(ctx context.Context, doing string, err error) {
	if err != nil && ctx.Err() == nil {
		e.cfg.Log.Warn(doing, "mint", e.cfg.Mint, "err", err)
	}
}

// due holds an op back that went wrong a moment ago.
func (e *engine) due(id int64) bool {
	p := e.retry[id]
	return p == nil || !time.Now().Before(p.look)
}

func (e *engine) paced(ctx context.Context, o op, err error) {
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

// lapsed ends an invoice whose time is over, so that watchers hear of it.
func (e *engine) lapsed(ctx context.Context, row invoiceRow) error {
	if !e.over(row, time.Now()) {
		return nil
	}
	after, err := e.invoice(ctx, row.hash)
	if err == nil && after.state != row.state {
		e.tell(row.hash)
	}
	return err
}

// accept looks at notes that came for an invoice: are they the mint's, locked
// as it says, enough, and not spent?
func (e *engine) accept(ctx context.Context, a arrival) error {
	wrong := e.examine(ctx, a)
	if wrong != nil && !isBad(wrong) {
		return wrong // the mint cannot be asked now
	}
	var k *keyset
	if wrong == nil {
		var err error
		if k, err = e.active(ctx); err != nil {
			return err
		}
	}
	var why error
	err := e.db.Update(ctx, func(tx *sqlite.Tx) error {
		row, err := selectInvoice(tx, a.hash)
		if err != nil {
			return err
		}
		if why = wrong; why == nil && row.state != "open" {
			why = fmt.Errorf("%w: the invoice is %s", payments.ErrAlreadyPaid, row.state)
		}
		if why != nil {
			return endArrival(tx, a.id, "refused")
		}
		l, err := parseLock(a.notes[0].Secret)
		if err != nil {
			return err
		}
		if err := firstError(holdInvoice(tx, a.hash, a.notes, time.Unix(l.until, 0)), endArrival(tx, a.id, "taken")); err != nil || row.hold {
			return err
		}
		if row, err = selectInvoice(tx, a.hash); err != nil {
			return err
		}
		return e.claim(tx, k, row, row.preimage)
	})
	if why != nil {
		e.cfg.Log.Warn("notes that were sent to us are not taken", "payment_hash", a.hash, "err", why)
	}
	if err == nil {
		e.tell(a.hash)
		e.wake() // a claim may have been written
	}
	return err
}

// isBad reports that the notes are at fault and not the moment.
func isBad(err error) bool {
	for _, e := range []error{ErrKeyset, ErrNote, ErrLock, ErrSpent, payments.ErrAmount, payments.ErrNotFound} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (e *engine) examine(ctx context.Context, a arrival) error {
	row, err := e.invoice(ctx, a.hash)
	if err != nil {
		return err
	}
	list, err := e.keysetsOf(ctx, a.notes)
	if err != nil {
		return err
	}
	lockedFor := time.Now().Add(e.cfg.Lock / 2)
	for i, n := range a.notes {
		if err := n.check(list[n.Keyset]); err != nil {
			return err
		}
		l, err := parseLock(n.Secret)
		if err != nil {
			return err
		}
		if first, _ := parseLock(a.notes[0].Secret); i > 0 && first != l {
			return fmt.Errorf("%w: two notes are locked differently", ErrLock)
		}
		if l.hash != a.hash || l.payee != e.node || time.Unix(l.until, 0).Before(lockedFor) || l.refund == e.node {
			return fmt.Errorf("%w: to %s and %s until %d", ErrLock, l.hash, l.payee, l.until)
		}
	}
	fee, err := inputFee(list, a.notes)
	if err != nil {
		return err
	}
	if got := total(a.notes) - fee; got < satsFor(row.amountMsats) {
		return fmt.Errorf("%w: %d sats after the mint's fee, the invoice is over %d msats", payments.ErrAmount, got, row.amountMsats)
	}
	states, err := e.mint.states(ctx, a.notes)
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.State != stateUnspent {
			return fmt.Errorf("%w: the mint says %s", ErrSpent, s.State)
		}
	}
	return nil
}

// keysetsOf lists the mint's keys, and asks it again if the notes are of others.
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
