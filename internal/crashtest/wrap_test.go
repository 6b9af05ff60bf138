package crashtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/sales"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// jobStore is a provider's store under a killer. It tells, after each end
// of a job, how many jobs are open.
type jobStore struct {
	*sales.Store
	k *killer
}

func (s jobStore) UsePolicy(ctx context.Context, manifest []byte) error {
	return s.k.step("store:UsePolicy", func() error { return s.Store.UsePolicy(ctx, manifest) })
}

func (s jobStore) AddJob(ctx context.Context, job provider.Job) error {
	return s.k.step("store:AddJob", func() error { return s.Store.AddJob(ctx, job) })
}

func (s jobStore) SetInvoice(ctx context.Context, id string, purpose receipts.Purpose, bolt11 string, chosen payments.Hash, out ...provider.OutEvent) error {
	return s.k.step("store:SetInvoice", func() error { return s.Store.SetInvoice(ctx, id, purpose, bolt11, chosen, out...) })
}

func (s jobStore) SetAcceptance(ctx context.Context, id string, purpose receipts.Purpose, event []byte) error {
	return s.k.step("store:SetAcceptance", func() error { return s.Store.SetAcceptance(ctx, id, purpose, event) })
}

func (s jobStore) SetPaid(ctx context.Context, id string, p provider.Payment, d provider.Directive, thread string) error {
	return s.k.step("store:SetPaid", func() error { return s.Store.SetPaid(ctx, id, p, d, thread) })
}

func (s jobStore) Start(ctx context.Context, id string, d *provider.Directive, thread string, plan provider.Plan, out ...provider.OutEvent) (run int, err error) {
	err = s.k.step("store:Start", func() error {
		run, err = s.Store.Start(ctx, id, d, thread, plan, out...)
		return err
	})
	return run, err
}

func (s jobStore) Finish(ctx context.Context, id string, run int, r provider.Result, contents [][]byte, out ...provider.OutEvent) error {
	return s.k.step("store:Finish", func() error { return s.Store.Finish(ctx, id, run, r, contents, out...) })
}

func (s jobStore) Settle(ctx context.Context, id string, purpose receipts.Purpose, p provider.Payment, issue func(provider.Issue) (provider.Issued, error)) error {
	err := s.k.step("store:Settle", func() error { return s.Store.Settle(ctx, id, purpose, p, issue) })
	return errors.Join(err, s.tell(ctx))
}

func (s jobStore) Close(ctx context.Context, id string, to provider.State, reason provider.Reason, credit *provider.Credit, out ...provider.OutEvent) error {
	err := s.k.step("store:Close", func() error { return s.Store.Close(ctx, id, to, reason, credit, out...) })
	return errors.Join(err, s.tell(ctx))
}

func (s jobStore) AddAcks(ctx context.Context, acks ...provider.Ack) error {
	// A result's own are the first; what no job waits for comes along, or later.
	name := "store:AddAcks:others"
	if of := s.k.known(acks[0].EventID); of == "6050" {
		name = "store:AddAcks:" + of
	}
	return s.k.step(name, func() error { return s.Store.AddAcks(ctx, acks...) })
}

func (s jobStore) tell(ctx context.Context) error {
	all, err := s.Jobs(ctx, 0)
	if err != nil {
		return err
	}
	open, err := s.OpenJobs(ctx)
	fmt.Println(jobsLine(len(all), len(open)))
	return err
}

// payee is a provider's wallet under a killer.
type payee struct {
	provider.Wallet
	k *killer
}

func (w payee) CreateInvoice(ctx context.Context, in payments.NewInvoice) (inv payments.Invoice, err error) {
	err = w.k.step("wallet:CreateInvoice", func() error {
		inv, err = w.Wallet.CreateInvoice(ctx, in)
		return err
	})
	return inv, err
}

func (w payee) SettleInvoice(ctx context.Context, p payments.Preimage) error {
	return w.k.step("wallet:SettleInvoice", func() error { return w.Wallet.SettleInvoice(ctx, p) })
}

func (w payee) CancelInvoice(ctx context.Context, h payments.Hash) error {
	return w.k.step("wallet:CancelInvoice", func() error { return w.Wallet.CancelInvoice(ctx, h) })
}

// stall is a provider's market under a killer.
type stall struct {
	provider.Market
	k *killer
}

func (m stall) Publish(ctx context.Context, ev nostr.Event) (acks []provider.Ack) {
	_ = m.k.step("market:Publish:"+m.k.name(ev), func() error {
		acks = m.Market.Publish(ctx, ev)
		return nil
	})
	return acks
}

func (m stall) Upload(ctx context.Context, data []byte, mime string) error {
	return m.k.step("market:Upload", func() error { return m.Market.Upload(ctx, data, mime) })
}

// purchaseStore is a buyer's store under a killer.
type purchaseStore struct {
	buyer.Store
	k *killer
}

func (s purchaseStore) AddPurchase(ctx context.Context, p buyer.Purchase) error {
	return s.k.step("store:AddPurchase", func() error { return s.Store.AddPurchase(ctx, p) })
}

func (s purchaseStore) Reserve(ctx context.Context, id string, c buyer.Charge, l buyer.Limits) error {
	return s.k.step("store:Reserve", func() error { return s.Store.Reserve(ctx, id, c, l) })
}

func (s purchaseStore) SetSent(ctx context.Context, id string, hash payments.Hash) error {
	return s.k.step("store:SetSent", func() error { return s.Store.SetSent(ctx, id, hash) })
}

func (s purchaseStore) Paid(ctx context.Context, id string, p payments.Payment) error {
	return s.k.step("store:Paid", func() error { return s.Store.Paid(ctx, id, p) })
}

func (s purchaseStore) Unpaid(ctx context.Context, id string, p payments.Payment, to buyer.State, reason string) error {
	return s.k.step("store:Unpaid", func() error { return s.Store.Unpaid(ctx, id, p, to, reason) })
}

func (s purchaseStore) AddFeedback(ctx context.Context, id, eventID string, event []byte, at time.Time) error {
	return s.k.step("store:AddFeedback", func() error { return s.Store.AddFeedback(ctx, id, eventID, event, at) })
}

func (s purchaseStore) SetResult(ctx context.Context, id string, event, output []byte, contents [][]byte, early bool) error {
	return s.k.step("store:SetResult", func() error { return s.Store.SetResult(ctx, id, event, output, contents, early) })
}

func (s purchaseStore) SetReceipt(ctx context.Context, id string, purpose receipts.Purpose, receiptID string, event []byte) error {
	return s.k.step("store:SetReceipt", func() error { return s.Store.SetReceipt(ctx, id, purpose, receiptID, event) })
}

func (s purchaseStore) Close(ctx context.Context, id string, to buyer.State, reason string) error {
	return s.k.step("store:Close", func() error { return s.Store.Close(ctx, id, to, reason) })
}

// payer is a buyer's wallet under a killer.
type payer struct {
	buyer.Wallet
	k *killer
}

func (w payer) SendPayment(ctx context.Context, pay payments.Pay) error {
	return w.k.step("wallet:SendPayment", func() error { return w.Wallet.SendPayment(ctx, pay) })
}

func (w payer) TrackPayment(ctx context.Context, h payments.Hash) (p payments.Payment, err error) {
	err = w.k.step("wallet:TrackPayment", func() error {
		p, err = w.Wallet.TrackPayment(ctx, h)
		return err
	})
	return p, err
}

// customer is a buyer's market under a killer.
type customer struct {
	buyer.Market
	k *killer
}

func (m customer) Send(ctx context.Context, ev nostr.Event) error {
	return m.k.step("market:Send:"+m.k.name(ev), func() error { return m.Market.Send(ctx, ev) })
}
