package onchain

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/destination"
)

// refundOf plans a refund to an address and makes the payment that the plan means.
func refundOf(t *testing.T, w *Wallet, address string, sats int64) (payments.ChainPlan, payments.Pay) {
	t.Helper()
	plan, err := w.PlanRefund(t.Context(), address)
	must(t, err)
	text := destination.URI{Address: plan.Address, Sats: sats}.String()
	return plan, payments.Pay{BOLT11: text, AmountMsats: sats * 1000, FeeLimitMsats: plan.FeeMsats}
}

func refunded(t *testing.T, w *Wallet, address string, state payments.InvoiceState, sats int64) {
	t.Helper()
	if got, err := w.Refunded(t.Context(), address); err != nil || got.State != state || got.PaidMsats != sats*1000 {
		t.Errorf("%+v, %v; want %s with %d sat", got, err, state, sats)
	}
}

// TestRefundFromAddressToFinal follows a refund on both sides: it is paid once,
// whatever amount is asked for then.
func TestRefundFromAddressToFinal(t *testing.T) {
	chain := newFake(t)
	seller, buyer := wallet(t, chain), wallet(t, chain.other(t))
	address, err := buyer.RefundAddress(t.Context())
	must(t, err)
	refunded(t, buyer, address, payments.InvoiceOpen, 0)
	plan, pay := refundOf(t, seller, strings.ToUpper(address), 7_000)
	if plan.FeeMsats != 10*refundVBytes*1000 || plan.Address != address {
		t.Errorf("%+v", plan)
	}
	must(t, seller.SendPayment(t.Context(), pay))
	must(t, seller.SendPayment(t.Context(), pay))
	refunded(t, buyer, address, payments.InvoicePending, 7_000)
	chain.mine(2)
	p, err := seller.TrackPayment(t.Context(), plan.Hash)
	if err != nil || !p.Shown() || p.AmountMsats != 7_000_000 || p.FeeMsats != fakeFee*1000 {
		t.Errorf("%+v, %v", p, err)
	}
	refunded(t, buyer, address, payments.InvoiceSettled, 7_000)

	other := pay
	other.BOLT11, other.AmountMsats = destination.URI{Address: address, Sats: 8_000}.String(), 8_000_000
	if err := seller.SendPayment(t.Context(), other); !errors.Is(err, payments.ErrAlreadyPaid) {
		t.Errorf("another amount to the same address: %v", err)
	}
	if _, err := seller.PlanRefund(t.Context(), address); !errors.Is(err, payments.ErrAlreadyPaid) {
		t.Errorf("planned again: %v", err)
	}
	if len(chain.txs) != 1 {
		t.Errorf("%d transactions", len(chain.txs))
	}
}

// TestRefundIsPaidOnceWhateverBreaks: as with invoices.
func TestRefundIsPaidOnceWhateverBreaks(t *testing.T) {
	for _, call := range []string{"Published", "FeeRate", "Release", "SignSend", "Publish, lost before", "Publish", "Transaction"} {
		t.Run(call, func(t *testing.T) {
			chain := newFake(t)
			buyer := wallet(t, chain.other(t))
			address, err := buyer.RefundAddress(t.Context())
			must(t, err)
			path := filepath.Join(t.TempDir(), "book.db")
			seller, closeSeller := at(t, chain, path, nil)
			plan, pay := refundOf(t, seller, address, 7_000)
			chain.down = call
			if err := seller.SendPayment(t.Context(), pay); payments.NeverSent(err) {
				t.Errorf("%v says that nothing was sent", err)
			}
			closeSeller()
			chain.down = ""
			seller, _ = at(t, chain, path, nil)
			pay.ToldAt = time.Now()
			must(t, seller.SendPayment(t.Context(), pay))
			chain.mine(2)
			p, err := seller.TrackPayment(t.Context(), plan.Hash)
			if err != nil || !p.Shown() || len(chain.txs) != 1 || len(chain.leases) != 1 {
				t.Errorf("%+v, %v; %d transactions, %d leases", p, err, len(chain.txs), len(chain.leases))
			}
			refunded(t, buyer, address, payments.InvoiceSettled, 7_000)
		})
	}
}

// TestRefundIsPaidOnceWhenTheBookIsLost: what lnd published is found by its address,
// even where a payment would be refused by now.
func TestRefundIsPaidOnceWhenTheBookIsLost(t *testing.T) {
	chain := newFake(t)
	buyer := wallet(t, chain.other(t))
	address, err := buyer.RefundAddress(t.Context())
	must(t, err)
	seller := wallet(t, chain)
	plan, pay := refundOf(t, seller, address, 7_000)
	must(t, seller.SendPayment(t.Context(), pay))

	seller = wallet(t, chain) // with an empty book
	seller.cfg.MaxSatPerVByte = 9
	pay.FeeLimitMsats, pay.ToldAt = 0, time.Now()
	must(t, seller.SendPayment(t.Context(), pay))
	chain.mine(2)
	p, err := seller.TrackPayment(t.Context(), plan.Hash)
	if err != nil || !p.Shown() || p.FeeMsats != fakeFee*1000 || len(chain.txs) != 1 || chain.signed != 1 {
		t.Errorf("%+v, %v; %d transactions, %d signed", p, err, len(chain.txs), chain.signed)
	}
	refunded(t, buyer, address, payments.InvoiceSettled, 7_000)
}

// TestTwoPaymentsToOneAddress: the transaction of one is not taken for the other's, begun
// before or not.
func TestTwoPaymentsToOneAddress(t *testing.T) {
	chain := newFake(t)
	payee, payer := wallet(t, chain), wallet(t, chain.other(t))
	first := create(t, payee, ask())
	r, err := payee.cfg.Book.request(t.Context(), first.PaymentHash)
	must(t, err)
	payee.cfg.Chain.(*fakeChain).reuse = r.address
	for i := range 3 {
		inv := first
		if i > 0 {
			text, err := chain.SignRequest(t.Context(), payments.NewInvoice{
				AmountMsats: first.AmountMsats, PaymentHash: payments.Hash{byte(i)}, DescriptionHash: ask().DescriptionHash,
			}, r.address)
			must(t, err)
			inv.BOLT11, inv.PaymentHash = text, payments.Hash{byte(i)}
		}
		pay := payments.Pay{BOLT11: inv.BOLT11, AmountMsats: inv.AmountMsats, FeeLimitMsats: 10_000_000}
		if i == 2 {
			pay.ToldAt = time.Now()
		}
		must(t, payer.SendPayment(t.Context(), pay))
		if len(chain.txs) != i+1 {
			t.Errorf("%d transactions for %d payments", len(chain.txs), i+1)
		}
	}
}

// TestUnknownPaymentWhileLNDIsNotReady: nothing is called unknown by a wallet that could
// not send it either.
func TestUnknownPaymentWhileLNDIsNotReady(t *testing.T) {
	chain := newFake(t)
	w := wallet(t, chain)
	chain.down = "Ready"
	if _, err := w.LookupPayment(t.Context(), payments.Hash{1}); !errors.Is(err, payments.ErrWalletUnavailable) {
		t.Errorf("while lnd is down: %v", err)
	}
	if _, err := w.LookupPayment(t.Context(), payments.Hash{1}); !errors.Is(err, payments.ErrNotFound) {
		t.Errorf("while lnd is up: %v", err)
	}
}

func TestRefundsThatAreRefused(t *testing.T) {
	chain := newFake(t)
	seller, buyer := wallet(t, chain), wallet(t, chain.other(t))
	own := create(t, seller, ask())
	r, err := seller.cfg.Book.request(t.Context(), own.PaymentHash)
	must(t, err)
	for name, tt := range map[string]struct {
		address string
		want    error
	}{
		"an address of our own":  {r.address, payments.ErrSelfPayment},
		"of another network":     {"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", payments.ErrBadRequest},
		"legacy":                 {"SQ9cZ6sVNdPWbcrvZqJjV3KDGyHUTZ1nQs", payments.ErrBadRequest},
		"an invoice":             {own.BOLT11, payments.ErrBadRequest},
		"script of a later form": {"sb1zw508d6qejxtdg4y5r3zarvaryvxxzc9z", payments.ErrBadRequest},
	} {
		if _, err := seller.PlanRefund(t.Context(), tt.address); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	address, err := buyer.RefundAddress(t.Context())
	must(t, err)
	_, pay := refundOf(t, seller, address, 7_000)
	for name, tt := range map[string]struct {
		change func(*payments.Pay)
		want   error
	}{
		"another amount": {func(p *payments.Pay) { p.AmountMsats++ }, payments.ErrAmount},
		"dust": {func(p *payments.Pay) {
			p.BOLT11, p.AmountMsats = destination.URI{Address: address, Sats: 545}.String(), 545_000
		}, ErrDust},
		"no amount":    {func(p *payments.Pay) { p.BOLT11, p.AmountMsats = "bitcoin:"+address, 0 }, payments.ErrAmount},
		"over the fee": {func(p *payments.Pay) { p.FeeLimitMsats = fakeFee*1000 - 1 }, payments.ErrNoRoute},
	} {
		p := pay
		tt.change(&p)
		if err := seller.SendPayment(t.Context(), p); !errors.Is(err, tt.want) || !payments.NeverSent(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	seller.cfg.MaxSatPerVByte = 9
	if _, err := seller.PlanRefund(t.Context(), address); !errors.Is(err, payments.ErrNoRoute) {
		t.Errorf("over the rate: %v", err)
	}
	if len(chain.txs) != 0 || len(chain.leases) != 0 {
		t.Errorf("%d transactions, %d leases", len(chain.txs), len(chain.leases))
	}
	if _, err := buyer.Refunded(t.Context(), r.address); !errors.Is(err, payments.ErrNotFound) {
		t.Errorf("somebody else's address: %v", err)
	}
}
