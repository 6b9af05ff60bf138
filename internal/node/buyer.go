package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/nip05"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/payments/onchain"
	"github.com/lightwork-market/lightwork/relay/exchange"
)

// Buyer is an open buyer: its client, its market and what to close.
type Buyer struct {
	Client *buyer.Client
	Panels *panel.Client
	// Purchases are what this buyer bought.
	Purchases *Purchases
	market    *exchange.Market
	Wallet    wallets.Wallet
	signer    keys.Signer
	// JudgeReady says what a judge of results lacks; nil if it can be asked.
	JudgeReady func(context.Context) error
	// MayPay is nil if the wallet permits what a payment takes. What costs nothing needs no wallet.
	MayPay func(ctx context.Context, most int64) error
	Names  *nip05.Verifier
	close  func() error
}

// OpenBuyer opens the buyer's database for writing and connects it. serve
// keeps the relays connected; it must run while the client is used. ask is
// asked where a rule wants a person; nil refuses there.
func OpenBuyer(ctx context.Context, c *Node, ask func(context.Context, buyer.Approval) (bool, error), log *slog.Logger) (_ *Buyer, err error) {
	key, err := keys.Open(c.Config, "buyer", log)
	if err != nil {
		return nil, err
	}
	k, err := store.Open(ctx, c.DataDir("buyer"), store.Options{Logger: log})
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

	w, closeWallet, err := wallets.Open(ctx, c.Config, c.Buyer.Wallet, "buyer", log)
	if err != nil {
		return nil, err
	}
	m, err := newMarket(c.Config, key, 1, log)
	if err != nil {
		closeWallet()
		return nil, err
	}
	kept := k.Purchases()
	n := &Buyer{Purchases: &Purchases{kept}, market: m, Wallet: w, signer: key, Names: c.Market().Names()}
	n.JudgeReady = func(ctx context.Context) error { return judgeReady(ctx, c) }
	n.MayPay = func(ctx context.Context, most int64) error {
		if most == 0 {
			return nil
		}
		return wallets.CheckRights(ctx, w, "buyer", c.Buyer.Wallet)
	}
	cfg := buyer.Config{
		Signer: key, Cipher: key.Cipher, Store: kept, Market: m, Log: log, Modes: c.Buyer.Modes,
		MaxEngagementMsats: c.Buyer.EngagementMsats,
		Limits:             buyer.Limits{DayMsats: c.Buyer.DayMsats, ProviderMsats: c.Buyer.ProviderMsats, FeeMsats: c.Buyer.FeeMsats},
		Approvals:          c.Rules(), Ask: ask,
	}
	if w != nil {
		cfg.Wallet, cfg.Receiver = w, w
	}
	if w, ok := w.(*onchain.Wallet); ok { // refunds come to addresses
		cfg.Receiver, cfg.Chain, cfg.ReceiptTimeout = nil, w, wallets.ChainReceiptTimeout
	}
	if n.Client, err = buyer.New(cfg); err != nil {
		closeWallet()
		return nil, advice.Usage("", "%w", err)
	}
	if n.Panels, err = panel.New(panel.Config{
		Buyer: n.Client, Store: kept, Market: m, Judge: judgeOf(c), AnswerTimeout: cfg.AnswerTimeout, Log: log,
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

// Use runs do while the relays are connected, and closes the node after.
func (n *Buyer) Use(ctx context.Context, do func(context.Context) error) error {
	serve, stop := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error { return n.market.Serve(serve) })
	g.Go(func() error { return n.signer.Serve(serve) })
	err := do(ctx)
	stop()
	return cmp.Or(err, g.Wait(), n.close())
}

// Confirmations are how many make a payment of the buyer's on the chain final.
func (c *Node) Confirmations() int64 { return wallets.Confirmations(c.Buyer.Wallet) }

// judgeOf asks the running node's organism; nil where none is configured.
func judgeOf(c *Node) func(ctx context.Context, question string) (string, error) {
	j := c.Buyer.Judge
	if j.Listener == "" {
		return nil
	}

	return func(ctx context.Context, question string) (string, error) {
		node, err := AgentsOf(c).Dial(ctx)
		if err != nil {
			return "", err
		}
		out, err := node.Ask(ctx, host.AskRequest{Profile: j.Profile, Listener: j.Listener, Text: question}, func(host.CallEvent) {})
		if err != nil {
			return "", err
		}
		var answer struct{ Text *string }
		if err := json.Unmarshal(out, &answer); err != nil || answer.Text == nil {
			return "", errors.New("it is no agent that thinks: its answer has no text")
		}
		return *answer.Text, nil
	}
}

// judgeReady says, before anybody is asked for anything, what the judge lacks.
func judgeReady(ctx context.Context, c *Node) error {
	if judgeOf(c) == nil {
		return advice.Usage("name an agent that thinks under buyer.judge: docs/build-agents/thinking-agents.md; "+advice.MergeResults+" needs none", "%w", panel.ErrNoJudge)
	}
	_, err := AgentsOf(c).Dial(ctx)
	return err
}
