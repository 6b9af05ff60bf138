package lnd

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightwork-market/lightwork/payments"
)

// watching runs WatchInvoices until the test ends and gives its hints.
func watching(t *testing.T, w *Wallet) <-chan payments.Hash {
	t.Helper()
	hints := make(chan payments.Hash, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.WatchInvoices(ctx, func(h payments.Hash) { hints <- h }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("WatchInvoices ended in %v", err)
		}
	})
	return hints
}

// expect waits until each hash was hinted at as often as it is named, in any
// order.
func expect(t *testing.T, hints <-chan payments.Hash, want ...payments.Hash) {
	t.Helper()
	missing := map[payments.Hash]int{}
	for _, hash := range want {
		missing[hash]++
	}
	for len(missing) > 0 {
		select {
		case hash := <-hints:
			if missing[hash]--; missing[hash] <= 0 {
				delete(missing, hash)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no hint at %v", missing)
		}
	}
}

func rawInvoice(hash payments.Hash, hold bool, index uint64, state lnrpc.Invoice_InvoiceState) *lnrpc.Invoice {
	inv := &lnrpc.Invoice{RHash: hash[:], AddIndex: index, State: state}
	if !hold {
		inv.RPreimage = testPreimage[:]
	}
	return inv
}

// Open invoices are named at the start, new ones when they are made, and hold
// invoices through all their states.
func TestWatchInvoices(t *testing.T) {
	oldPrepay, oldHold, newHold, done := payments.Hash{1}, payments.Hash{2}, payments.Hash{3}, payments.Hash{4}
	fake := &fakeLND{invoices: map[payments.Hash]*lnrpc.Invoice{
		oldPrepay: rawInvoice(oldPrepay, false, 1, lnrpc.Invoice_OPEN),
		oldHold:   rawInvoice(oldHold, true, 2, lnrpc.Invoice_OPEN),
		done:      rawInvoice(done, true, 3, lnrpc.Invoice_CANCELED),
	}}
	added, accepted := make(chan struct{}), make(chan struct{})
	fake.all = func(req *lnrpc.InvoiceSubscription, stream lnrpc.Lightning_SubscribeInvoicesServer) error {
		if req.AddIndex != 3 {
			t.Errorf("subscribed after index %d, want the newest, 3", req.AddIndex)
		}
		<-added
		if err := stream.Send(rawInvoice(newHold, true, 4, lnrpc.Invoice_OPEN)); err != nil {
			return err
		}
		<-stream.Context().Done()
		return nil
	}
	fake.single = func(hash payments.Hash, stream invoicesrpc.Invoices_SubscribeSingleInvoiceServer) error {
		states := []lnrpc.Invoice_InvoiceState{lnrpc.Invoice_OPEN, lnrpc.Invoice_ACCEPTED, lnrpc.Invoice_SETTLED}
		for i, state := range states {
			if i == 1 {
				select {
				case <-accepted:
				case <-stream.Context().Done():
					return nil
				}
			}
			if err := stream.Send(rawInvoice(hash, true, 0, state)); err != nil {
				return err
			}
		}
		return nil
	}
	hints := watching(t, fake.start(t, Config{}))
	expect(t, hints, oldPrepay, oldHold)
	close(added)
	expect(t, hints, newHold)
	close(accepted)
	expect(t, hints, oldHold, oldHold, newHold, newHold) // accepted and settled
	if len(hints) > 0 {
		if hash := <-hints; hash == done {
			t.Error("a hint at an invoice that was over")
		}
	}
}

// After a lost connection the hold invoices are looked at again, also those
// that ended meanwhile and are in no list of open ones.
func TestWatchInvoicesReconnects(t *testing.T) {
	hold := payments.Hash{1}
	fake := &fakeLND{invoices: map[payments.Hash]*lnrpc.Invoice{hold: rawInvoice(hold, true, 7, lnrpc.Invoice_OPEN)}}
	broke, connections := make(chan struct{}), atomic.Int32{}
	fake.all = func(req *lnrpc.InvoiceSubscription, stream lnrpc.Lightning_SubscribeInvoicesServer) error {
		if req.AddIndex != 7 {
			t.Errorf("subscribed after index %d, want 7", req.AddIndex)
		}
		if connections.Add(1) == 1 {
			<-broke
			return errLost
		}
		<-stream.Context().Done()
		return nil
	}
	fake.single = func(hash payments.Hash, stream invoicesrpc.Invoices_SubscribeSingleInvoiceServer) error {
		fake.mu.Lock()
		inv := rawInvoice(hash, true, 7, fake.invoices[hash].State)
		fake.mu.Unlock()
		if err := stream.Send(inv); err != nil || inv.State == lnrpc.Invoice_CANCELED {
			return err
		}
		<-stream.Context().Done()
		return nil
	}
	hints := watching(t, fake.start(t, Config{}))
	expect(t, hints, hold)
	fake.mu.Lock()
	fake.invoices[hold] = rawInvoice(hold, true, 7, lnrpc.Invoice_CANCELED)
	fake.mu.Unlock()
	close(broke)
	expect(t, hints, hold)
}

// An invoice that lnd forgot does not keep the others from being watched.
func TestWatchInvoicesForgotten(t *testing.T) {
	hold, fresh := payments.Hash{1}, payments.Hash{2}
	fake := &fakeLND{invoices: map[payments.Hash]*lnrpc.Invoice{hold: rawInvoice(hold, true, 1, lnrpc.Invoice_OPEN)}}
	told := make(chan struct{})
	fake.all = func(_ *lnrpc.InvoiceSubscription, stream lnrpc.Lightning_SubscribeInvoicesServer) error {
		<-told
		if err := stream.Send(rawInvoice(fresh, false, 2, lnrpc.Invoice_OPEN)); err != nil {
			return err
		}
		<-stream.Context().Done()
		return nil
	}
	fake.single = func(payments.Hash, invoicesrpc.Invoices_SubscribeSingleInvoiceServer) error {
		return status.Error(codes.Unknown, "unable to locate invoice")
	}
	hints := watching(t, fake.start(t, Config{}))
	expect(t, hints, hold)
	close(told)
	expect(t, hints, fresh)
	if n := fake.count(rpcSubscribe); n != 1 {
		t.Errorf("connected %d times, want once", n)
	}
}

func TestWatchInvoicesUnauthorized(t *testing.T) {
	fake := &fakeLND{refuse: func(rpc string) error {
		if rpc == rpcSubscribe {
			return status.Error(codes.Unknown, "permission denied")
		}
		return nil
	}}
	err := fake.start(t, Config{}).WatchInvoices(t.Context(), func(payments.Hash) {})
	if !errors.Is(err, payments.ErrUnauthorized) {
		t.Errorf("got %v, want ErrUnauthorized", err)
	}
}
