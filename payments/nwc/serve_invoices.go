package nwc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

const defaultExpiry = time.Hour

func (s *Service) getInfo(ctx context.Context, a *app, _ jsontext.Value) (any, error) {
	n, err := s.cfg.Wallet.Node(ctx)
	if err != nil {
		return nil, err
	}
	r := infoResult{Alias: n.Alias, PubKey: n.PubKey, Network: string(n.Network), Notifications: noteTypes[:]}
	for _, m := range a.Methods {
		r.Methods = append(r.Methods, string(m))
	}
	return r, nil
}

func (s *Service) makeInvoice(ctx context.Context, a *app, params jsontext.Value) (any, error) {
	var p invoiceParams
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	n, err := newInvoice(p)
	if err != nil {
		return nil, err
	}
	if p.Preimage == "" {
		rand.Read(n.Preimage[:]) // never fails
	} else if n.Preimage, err = payments.ParsePreimage(p.Preimage); err != nil {
		return nil, err
	}

	n.PaymentHash = n.Preimage.Hash()
	return s.create(ctx, a, n, p.Description)
}

func (s *Service) makeHoldInvoice(ctx context.Context, a *app, params jsontext.Value) (any, error) {
	var p invoiceParams
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	n, err := newInvoice(p)
	if err != nil {
		return nil, err
	}
	n.Hold = true
	if n.PaymentHash, err = payments.ParseHash(p.PaymentHash); err != nil {
		return nil, err
	}
	return s.create(ctx, a, n, p.Description)
}

// newInvoice converts the fields of both kinds of invoices. The wallets here use
// description hashes only: if the app gives a description, its hash is used.
func newInvoice(p invoiceParams) (payments.NewInvoice, error) {
	n := payments.NewInvoice{AmountMsats: p.Amount, Expiry: defaultExpiry, DescriptionHash: hashing.Bytes([]byte(p.Description))}
	if p.DescriptionHash != "" {
		var err error
		if n.DescriptionHash, err = parseDigest(p.DescriptionHash); err != nil {
			return n, err
		}
	}

	if p.Expiry < 0 || p.Expiry > int64(maxExpiry/time.Second) {
		return n, fmt.Errorf("%w: expiry of %d seconds", payments.ErrBadRequest, p.Expiry)
	}
	if p.Expiry > 0 {
		n.Expiry = time.Duration(p.Expiry) * time.Second
	}
	return n, nil
}

// create records the owner and then makes the invoice, in this order so that a
// crash leaves no invoice without an owner.
func (s *Service) create(ctx context.Context, a *app, n payments.NewInvoice, description string) (any, error) {
	hash, err := n.Hash()
	if err != nil {
		return nil, err
	}
	if err := s.claim(ctx, a, hash); err != nil {
		return nil, err
	}

	inv, err := s.cfg.Wallet.CreateInvoice(ctx, n)
	if err != nil {
		return nil, err
	}
	t, err := incomingTransaction(inv)
	t.Description = description
	return t, err
}

// claim records the app as the owner of a hash. It cannot obtain an invoice of
// another app or of the node by requesting the same one.
func (s *Service) claim(ctx context.Context, a *app, hash payments.Hash) error {
	owner, err := s.cfg.Book.Owner(ctx, hash)
	if err != nil || owner == a.Client {
		return err
	}

	_, err = s.cfg.Wallet.LookupInvoice(ctx, hash)
	switch {
	case owner != "", err == nil:
		return payments.ErrInvoiceMismatch
	case !errors.Is(err, payments.ErrNotFound):
		return err
	}

	if err := s.cfg.Book.AddInvoice(ctx, a.Client, hash); err != nil {
		return fmt.Errorf("note invoice: %w", err)
	}
	if owner, err = s.cfg.Book.Owner(ctx, hash); err == nil && owner != a.Client {
		err = payments.ErrInvoiceMismatch // another app was faster
	}
	return err
}

// checkOwner refuses an invoice that is not the app's as if it did not exist.
func (s *Service) checkOwner(ctx context.Context, a *app, hash payments.Hash) error {
	owner, err := s.cfg.Book.Owner(ctx, hash)
	if err == nil && owner != a.Client {
		err = payments.ErrNotFound
	}
	return err
}

func (s *Service) settleHoldInvoice(ctx context.Context, a *app, params jsontext.Value) (any, error) {
	var p settleParams
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	preimage, err := payments.ParsePreimage(p.Preimage)
	if err == nil {
		err = s.checkOwner(ctx, a, preimage.Hash())
	}
	if err == nil {
		err = s.cfg.Wallet.SettleInvoice(ctx, preimage)
	}
	return struct{}{}, err
}

func (s *Service) cancelHoldInvoice(ctx context.Context, a *app, params jsontext.Value) (any, error) {
	var p cancelParams
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	hash, err := payments.ParseHash(p.PaymentHash)
	if err == nil {
		err = s.checkOwner(ctx, a, hash)
	}
	if err == nil {
		err = s.cfg.Wallet.CancelInvoice(ctx, hash)
	}
	return struct{}{}, err
}

func (s *Service) lookupInvoice(ctx context.Context, a *app, params jsontext.Value) (any, error) {
	var p lookupParams
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	if p.PaymentHash == "" {
		inv, err := bolt11.Decode(p.Invoice)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", payments.ErrBadRequest, err)
		}
		p.PaymentHash = inv.PaymentHash.String()
	}

	hash, err := payments.ParseHash(p.PaymentHash)
	if err != nil {
		return nil, err
	}
	err = s.checkOwner(ctx, a, hash)
	if errors.Is(err, payments.ErrNotFound) {
		return s.payment(ctx, a, hash)
	}
	if err != nil {
		return nil, err
	}

	return s.invoice(ctx, hash)
}

func (s *Service) invoice(ctx context.Context, hash payments.Hash) (transaction, error) {
	inv, err := s.cfg.Wallet.LookupInvoice(ctx, hash)
	if err != nil {
		return transaction{}, err
	}
	return incomingTransaction(inv)
}

// payment returns a payment of the app.
func (s *Service) payment(ctx context.Context, a *app, hash payments.Hash) (transaction, error) {
	spend, exists, err := s.cfg.Book.Spend(ctx, a.Client, hash)
	if err != nil {
		return transaction{}, err
	}
	if !exists {
		return transaction{}, payments.ErrNotFound
	}
	if spend.Msats == 0 { // the wallet's payment with this hash is not this app's
		return failedTransaction(spend)
	}

	if err := s.checkWallet(ctx, spend); errors.Is(err, errOtherWallet) {
		return foreignPayment(spend)
	} else if err != nil {
		return transaction{}, err
	}

	p, err := s.cfg.Wallet.LookupPayment(ctx, hash)
	if err != nil {
		return transaction{}, err
	}
	if p.State == payments.PaymentSucceeded {
		// So that the budget is right before the app gets the answer.
		s.settle(ctx, a.Client, hash, p.AmountMsats+p.FeeMsats)
	}

	return outgoingTransaction(p, spend), nil
}
