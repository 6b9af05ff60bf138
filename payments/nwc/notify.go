package nwc

import (
	"context"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/backoff"
	"github.com/lightwork-market/lightwork/payments"
)

// watch forwards the wallet's hints until ctx ends.
func (s *Service) watch(ctx context.Context) {
	for pause := time.Second; ; {
		err := s.cfg.Wallet.WatchInvoices(ctx, func(h payments.Hash) {
			pause = time.Second
			select {
			case s.hints <- h:
			default: // a notification may be lost: apps also look up what they wait for
			}
		})
		if ctx.Err() != nil {
			return
		}
		s.cfg.Log.Warn("watching invoices ended, beginning again", "in", pause, "err", err)

		if backoff.Wait(ctx, &pause, time.Minute) != nil {
			return
		}
	}
}

// sentNote is a payment of which an app is notified.
type sentNote struct {
	app     *app
	payment payments.Payment
}

// tellSent queues the notification of a payment, to be sent after the answer.
func (s *Service) tellSent(a *app, p payments.Payment) {
	select {
	case s.sent <- sentNote{a, p}:
	default: // may be lost, like hints
	}
}

// notifyAll notifies apps of their invoices and payments until ctx ends.
func (s *Service) notifyAll(ctx context.Context) {
	for {
		select {
		case h := <-s.hints:
			s.notifyInvoice(ctx, h)
		case n := <-s.sent:
			s.notifySent(ctx, n.app, n.payment)
		case <-ctx.Done():
			return
		}
	}
}

func (s *Service) notifyInvoice(ctx context.Context, hash payments.Hash) {
	owner, err := s.cfg.Book.Owner(ctx, hash)
	if err != nil || owner == "" {
		return
	}

	for _, a := range s.apps {
		if a.Client != owner {
			continue
		}
		t, err := s.invoice(ctx, hash)
		switch {
		case err != nil:
		case t.State == stateSettled:
			s.notify(ctx, a, notePaymentReceived, t)
		case t.State == stateAccepted:
			s.notify(ctx, a, noteHoldAccepted, t)
		}
	}
}

func (s *Service) notifySent(ctx context.Context, a *app, p payments.Payment) {
	if spend, exists, err := s.cfg.Book.Spend(ctx, a.Client, p.Hash); err == nil && exists {
		s.notify(ctx, a, notePaymentSent, outgoingTransaction(p, spend))
	}
}

// notify publishes the notification once for each scheme, because the app's scheme
// is unknown until its first request.
func (s *Service) notify(ctx context.Context, a *app, kind string, t transaction) {
	for eventKind, scheme := range map[int]Scheme{kindNotifyNIP44: NIP44, kindNotifyNIP04: NIP04} {
		err := s.send(ctx, a, eventKind, scheme, nostr.Tags{{"p", a.Client}}, notification{Type: kind, About: t})
		if err != nil {
			s.cfg.Log.Debug("a notification is not sent", "app", a.Name, "err", err)
		}
	}
}
