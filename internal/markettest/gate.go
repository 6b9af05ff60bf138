package markettest

import (
	"context"
	"errors"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
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
