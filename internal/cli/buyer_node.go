package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/internal/nip05"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments/onchain"
	"github.com/lightwork-market/lightwork/relay/exchange"
)

// buyerNode is an open buyer: its client, its market and what to close.
type buyerNode struct {
	client *buyer.Client
	panels *panel.Client
	store  *kernel.BuyerStore
	market *exchange.Market
	wallet wallet
	signer signer
	// judgeReady says what a judge of results lacks; nil if it can be asked.
	judgeReady func(context.Context) error
	// mayPay is nil if the wallet permits what a payment takes. What costs nothing needs no wallet.
	mayPay func(ctx context.Context, most int64) error
	names  *nip05.Verifier
	close  func() error
}

// openBuyer opens the buyer's database for writing and connects it. serve
// keeps the relays connected; it must run while the client is used. ask is
// asked where a rule wants a person; nil refuses there.
func openBuyer(ctx context.Context, c *node, ask func(context.Context, buyer.Approval) (bool, error), log *slog.Logger) (_ *buyerNode, err error) {
	key, err := openSigner(c.Config, "buyer", log)
	if err != nil {
		return nil, err
	}
	k, err := kernel.Open(ctx, c.DataDir("buyer"), kernel.Options{Logger: log})
	if errors.Is(err, sqlite.ErrLocked) {
		return nil, advice.Hint(err, "a buyer command is at work there: wait for it, or end it by Ctrl-C, which leaves its purchase open, and try again")
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			k.Close()
		}
	}()
	w, closeWallet, err := openWallet(ctx, c.Config, c.Buyer.Wallet, "buyer", log)
	if err != nil {
		return nil, err
	}
	m, err := newMarket(c.Config, key, 1, log)
	if err != nil {
		closeWallet()
		return nil, err
	}
	n := &buyerNode{store: k.BuyerStore(), market: m, wallet: w, signer: key, judgeReady: c.judgeReady, names: c.names()}
	n.mayPay = func(ctx context.Context, most int64) error {
		if most == 0 {
			return nil
		}
		return checkRights(ctx, w, "buyer", c.Buyer.Wallet)
	}
	cfg := buyer.Config{
		Signer: key, Cipher: key.cipher, Store: n.store, Market: m, Log: log, Modes: c.Buyer.Modes,
		MaxEngagementMsats: c.Buyer.EngagementMsats,
		Limits:             buyer.Limits{DayMsats: c.Buyer.DayMsats, ProviderMsats: c.Buyer.ProviderMsats, FeeMsats: c.Buyer.FeeMsats},
		Approvals:          c.Rules(), Ask: ask,
	}
	if w != nil {
		cfg.Wallet, cfg.Receiver = w, w
	}
	if w, ok := w.(*onchain.Wallet); ok { // refunds come to addresses
		cfg.Receiver, cfg.Chain, cfg.ReceiptTimeout = nil, w, onchainReceiptTimeout
	}
	if n.client, err = buyer.New(cfg); err != nil {
		closeWallet()
		return nil, advice.Usage("", "%w", err)
	}
	if n.panels, err = panel.New(panel.Config{
		Buyer: n.client, Store: n.store, Market: m, Judge: c.judge(), Limits: cfg.Limits, AnswerTimeout: cfg.AnswerTimeout, Log: log,
	}); err != nil {
		closeWallet()
		return nil, err
	}
	n.close = func() error {
		closeWallet()
		return k.Close()
	}
	return n, nil
}

// use runs do while the relays are connected, and closes the node after.
func (n *buyerNode) use(ctx context.Context, do func(context.Context) error) error {
	serve, stop := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error { return n.market.Serve(serve) })
	g.Go(func() error { return n.signer.serve(serve) })
	err := do(ctx)
	stop()
	return cmp.Or(err, g.Wait(), n.close())
}
