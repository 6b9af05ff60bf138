package lnd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"

	"github.com/lightwork-market/lightwork/payments"
)

const (
	// maxWatched bounds the streams of single invoices. For further invoices there
	// are no hints; the caller finds their payments by looking them up.
	maxWatched = 1024

	// maxPending bounds the open invoices that are listed after connecting.
	maxPending = 1000

	// steady is how long a connection must last to count as stable.
	steady = 30 * time.Second
)

// WatchInvoices calls hint with the hash of each invoice that may have changed: all
// open ones at first and after a reconnection, later those that lnd reports. Hints
// may be late, repeated or missing, so open invoices must also be looked up from
// time to time.
//
// hint is called by one goroutine and should return soon. WatchInvoices returns
// ctx's error when ctx ends, or payments.ErrUnauthorized at once if the macaroon
// does not permit it. It retries after all other errors.
func (w *Wallet) WatchInvoices(ctx context.Context, hint func(payments.Hash)) error {
	watch := invoiceWatch{wallet: w, hint: hint, open: map[payments.Hash]bool{}}
	retry := w.newRetry()
	for {
		began := time.Now()

		err := watch.connect(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, payments.ErrUnauthorized), errors.Is(err, payments.ErrUnsupported):
			return err
		}

		if time.Since(began) > steady {
			retry = w.newRetry()
		}
		w.cfg.Log.Warn("invoice stream interrupted", "error", err)
		if err := retry.wait(ctx); err != nil {
			return err
		}
	}
}

// invoiceWatch is the state that outlives a connection.
type invoiceWatch struct {
	wallet *Wallet
	hint   func(payments.Hash)

	// open has the hold invoices that have not ended as far as we know. Only the
	// goroutine of WatchInvoices uses it.
	open map[payments.Hash]bool

	addIndex, settleIndex uint64 // the last ones that lnd reported
}

// signal is a message from a connection's goroutines to the watch.
type signal struct {
	invoice *lnrpc.Invoice // from the stream of all invoices
	changed payments.Hash  // from the stream of a single invoice
	ended   bool           // that invoice will not change any more
	err     error          // the connection has ended
}

// connection is one set of streams. It ends when any of them fails.
type connection struct {
	*invoiceWatch
	signals chan signal
	group   sync.WaitGroup
}

// connect runs one set of streams until one fails or ctx ends.
func (v *invoiceWatch) connect(ctx context.Context) error {
	streams, cancel := context.WithCancel(ctx)
	c := &connection{invoiceWatch: v, signals: make(chan signal)}
	defer c.group.Wait()
	defer cancel()

	// lnd reports acceptance and cancellation only in the stream of a single
	// invoice, so each hold invoice has one.
	for hash := range v.open {
		c.group.Go(func() { c.follow(streams, hash) })
	}
	if err := c.begin(streams); err != nil {
		return err
	}

	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s := <-c.signals:
			switch {
			case s.err != nil:
				return s.err
			case s.invoice != nil:
				c.onInvoice(streams, s.invoice)
			default:
				if s.ended {
					delete(v.open, s.changed)
				}
				v.hint(s.changed)
			}
		}
	}
}

// begin opens the stream of all invoices and lists the open ones. lnd replays only
// after a non-zero index, so the newest index is requested first; changes before
// the very first invoice of a node may be missed.
func (c *connection) begin(ctx context.Context) error {
	w := c.wallet
	if c.addIndex == 0 {
		newest, err := call(ctx, w, rpcListInvoices, w.ln.ListInvoices, &lnrpc.ListInvoiceRequest{NumMaxInvoices: 1, Reversed: true})
		if err != nil {
			return err
		}
		c.addIndex = newest.LastIndexOffset
	}

	stream, err := w.ln.SubscribeInvoices(ctx, &lnrpc.InvoiceSubscription{AddIndex: c.addIndex, SettleIndex: c.settleIndex})
	if err != nil {
		return w.fail(ctx, rpcSubscribe, err)
	}
	pending, err := call(ctx, w, rpcListInvoices, w.ln.ListInvoices, &lnrpc.ListInvoiceRequest{
		PendingOnly: true, Reversed: true, NumMaxInvoices: maxPending,
	})
	if err != nil {
		return err
	}
	for _, invoice := range pending.Invoices {
		c.onInvoice(ctx, invoice)
	}
	c.group.Go(func() {
		for {
			invoice, err := stream.Recv()
			if err != nil {
				c.send(ctx, signal{err: w.fail(ctx, rpcSubscribe, err)})
				return
			}
			if !c.send(ctx, signal{invoice: invoice}) {
				return
			}
		}
	})
	return nil
}

// onInvoice handles an invoice from the stream or the list. It gives a hint, or
// opens a stream for a new hold invoice, whose first message is the hint.
func (c *connection) onInvoice(ctx context.Context, invoice *lnrpc.Invoice) {
	hash, err := invoiceHash(invoice)
	if err != nil {
		c.wallet.cfg.Log.Warn("invoice without a hash", "error", err)
		return
	}
	c.addIndex = max(c.addIndex, invoice.AddIndex)
	c.settleIndex = max(c.settleIndex, invoice.SettleIndex)
	over := invoice.State == lnrpc.Invoice_SETTLED || invoice.State == lnrpc.Invoice_CANCELED
	if isHold(invoice) && !over && !c.open[hash] {
		if len(c.open) >= maxWatched {
			c.wallet.cfg.Log.Warn("too many open invoices to watch", "payment_hash", hash.String(), "watched", maxWatched)
			c.hint(hash)
			return
		}
		c.open[hash] = true
		c.group.Go(func() { c.follow(ctx, hash) })
		return
	}

	c.hint(hash)
}

// follow reads the stream of one invoice until the invoice has ended.
func (c *connection) follow(ctx context.Context, hash payments.Hash) {
	stream, err := c.wallet.invoices.SubscribeSingleInvoice(ctx, &invoicesrpc.SubscribeSingleInvoiceRequest{RHash: hash[:]})
	for err == nil {
		var invoice *lnrpc.Invoice
		if invoice, err = stream.Recv(); err != nil {
			break
		}
		over := invoice.State == lnrpc.Invoice_SETTLED || invoice.State == lnrpc.Invoice_CANCELED
		if !c.send(ctx, signal{changed: hash, ended: over}) || over {
			return
		}
	}

	err = c.wallet.fail(ctx, rpcSubscribeSingle, err)
	if errors.Is(err, payments.ErrNotFound) { // lnd is configured to delete canceled invoices
		c.send(ctx, signal{changed: hash, ended: true})
		return
	}
	c.send(ctx, signal{err: err})
}

// send passes on a signal unless the connection has ended.
func (c *connection) send(ctx context.Context, s signal) bool {
	select {
	case c.signals <- s:
		return true
	case <-ctx.Done():
		return false
	}
}

func invoiceHash(invoice *lnrpc.Invoice) (payments.Hash, error) {
	if len(invoice.RHash) != 32 {
		return payments.Hash{}, fmt.Errorf("%w: a hash of %d bytes", payments.ErrBadRequest, len(invoice.RHash))
	}
	return payments.Hash(invoice.RHash), nil
}

// retry is the pause between attempts: it doubles, with jitter, up to a limit.
type retry struct{ next, ceiling time.Duration }

func (w *Wallet) newRetry() *retry { return &retry{next: w.retryMin, ceiling: w.retryMax} }

// wait pauses, or returns ctx's error if that ends first.
func (r *retry) wait(ctx context.Context) error {
	pause := r.next/2 + rand.N(r.next/2+1)
	r.next = min(2*r.next, r.ceiling)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
