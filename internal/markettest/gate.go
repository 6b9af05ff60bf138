package markettest

import (
	"context"
	"errors"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// GatedWallet is the buyer's wallet, held up where the test wants.
type GatedWallet struct {
	*playnet.Client
	BeforeSend, AfterSend, BeforeTrack func()
}

func (g *GatedWallet) SendPayment(ctx context.Context, p payments.Pay) error {
	call(g.BeforeSend)
	err := g.Client.SendPayment(ctx, p)
	call(g.AfterSend)
	return err
}

func (g *GatedWallet) TrackPayment(ctx context.Context, h payments.Hash) (payments.Payment, error) {
	call(g.BeforeTrack)
	return g.Client.TrackPayment(ctx, h)
}

func call(f func()) {
	if f != nil {
		f()
	}
}

// NoBlobs is a market whose blob server takes nothing.
type NoBlobs struct {
	provider.Market
	Tried chan<- struct{}
}

func (m NoBlobs) Upload(context.Context, []byte, string) error {
	m.Tried <- struct{}{}
	return errors.New("blob server is down")
}

// StepStore is a buyer's store that stops its user after one step.
type StepStore struct {
	buyer.Store
	At   string
	Stop func()
}

// Done stops the user if this was the step, and it was done.
func (i *StepStore) Done(step string, err error) error {
	if step == i.At && err == nil {
		i.Stop()
	}
	return err
}

func (i *StepStore) Reserve(ctx context.Context, id string, c buyer.Charge, l buyer.Limits) error {
	return i.Done("Reserve", i.Store.Reserve(ctx, id, c, l))
}

func (i *StepStore) Paid(ctx context.Context, id string, p payments.Payment) error {
	return i.Done("Paid", i.Store.Paid(ctx, id, p))
}

func (i *StepStore) SetResult(ctx context.Context, id string, event, output []byte, contents [][]byte, early bool) error {
	return i.Done("SetResult", i.Store.SetResult(ctx, id, event, output, contents, early))
}

func (i *StepStore) SetReceipt(ctx context.Context, id string, purpose receipts.Purpose, receiptID string, event []byte) error {
	step := "SetReceipt"
	if purpose == receipts.PurposeEngagement {
		step = "SetReceipt of the fee"
	}
	return i.Done(step, i.Store.SetReceipt(ctx, id, purpose, receiptID, event))
}
