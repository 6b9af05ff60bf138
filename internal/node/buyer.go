package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/lease"
	"github.com/lightwork-market/lightwork/internal/nip05"
	"github.com/lightwork-market/lightwork/internal/node/buying"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/internal/packs"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/payments/onchain"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/exchange"
)

// Buyer is an open buyer: its client, its market and what to close.
type Buyer struct {
	Client *buyer.Client
	Panels *panel.Client
	// Packs are the packed files of orders that are too large for a request.
	Packs *packs.Store
	// Purchases are what this buyer bought.
	Purchases *Purchases
	// Dir is the folder of its database.
	Dir string
	// Orders is where purchases are worked on, beside other processes.
	Orders *buying.Desk
	market *exchange.Market
	Wallet wallets.Wallet
	signer keys.Signer
	// JudgeReady says what a judge of results lacks; nil if it can be asked.
	JudgeReady func(context.Context) error
	// MayPay is nil if the wallet permits what a payment takes. What costs nothing needs no wallet.
	MayPay func(ctx context.Context, most int64) error
	Names  *nip05.Verifier
	close  func() error
}

// OpenBuyer opens the buyer's database for writing, together with other processes, and
// connects it. Use keeps the relays connected. ask is asked where a rule wants a person;
// nil refuses there.
func OpenBuyer(ctx context.Context, c *Node, ask func(context.Context, buyer.Approval) (bool, error), log *slog.Logger) (_ *Buyer, err error) {
	key, err := keys.Open(c.Config, "buyer", log)
	if err != nil {
		return nil, err
	}
	if err := keys.CheckAlive(c.Config, "buyer", key.PublicKey()); err != nil {
		return nil, err
	}
	k, err := store.Open(ctx, c.DataDir("buyer"), store.Options{Logger: log, Shared: true})
	if errors.Is(err, sqlite.ErrLocked) {
		return nil, advice.Hint(err, "a backup is being restored there, or a program that shares it with nobody has it open: try again once that has ended")
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
	bought := purchasesIn(k, c)
	n := &Buyer{Purchases: bought, Dir: c.DataDir("buyer"), market: m, Wallet: w, signer: key, Names: c.Market().Names()}
	n.Packs = packs.New(filepath.Join(c.DataDir("buyer"), "packs"))
	n.JudgeReady = func(ctx context.Context) error { return judgeReady(ctx, c) }
	n.MayPay = func(ctx context.Context, most int64) error {
		if most == 0 {
			return nil
		}
		if err := c.SpendingStopped(); err != nil {
			return err
		}
		return wallets.CheckRights(ctx, w, "buyer", c.Buyer.Wallet)
	}
	cfg := buyer.Config{
		Signer: key, Cipher: key.Cipher, Store: kept, Market: m, Log: log, Modes: c.Buyer.Modes,
		MaxEngagementMsats: c.Buyer.EngagementMsats, MaySpend: c.Spending().Check,
		Limits:    buyer.Limits{DayMsats: c.Buyer.DayMsats, ProviderMsats: c.Buyer.ProviderMsats, FeeMsats: c.Buyer.FeeMsats},
		Approvals: c.Rules(), Ask: ask,
	}
	if secret, err := keys.RootSecret(c.Path(c.Identity.RootSecretFile)); err == nil {
		cfg.Trees = &buyer.Trees{Secret: secret, Parts: n.Packs, Upload: m.UploadInto}
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
	n.Orders = &buying.Desk{Client: n.Client, Panels: n.Panels, Board: bought.Board}
	if ask == nil || !slices.ContainsFunc(cfg.Approvals, func(r buyer.ApprovalRule) bool { return r.Do == buyer.Ask }) {
		// Else a person at this terminal may be asked, whom a running buyer cannot reach.
		if n.Orders.Remote, err = buying.Dial(ctx, c.buyerSocket()); err != nil {
			closeWallet()
			return nil, err
		}
	}

	n.close = func() error {
		closeWallet()
		return k.Close()
	}
	return n, nil
}

// RunBuyer is the life of a buyer that runs: it goes on with every open purchase that no
// command works on, and with those that commands hand to it, until ctx ends. ready is
// called once it does.
func RunBuyer(ctx context.Context, c *Node, log *slog.Logger, ready func(key string)) error {
	n, err := OpenBuyer(ctx, c, nil, log)
	if err != nil {
		return err
	}
	n.Orders.Remote = nil // that would be ourselves
	return n.serve(ctx, c, log, ready)
}

// serve goes on with purchases until ctx ends, and closes the buyer.
func (n *Buyer) serve(ctx context.Context, c *Node, log *slog.Logger, ready func(key string)) error {
	return n.Use(ctx, func(ctx context.Context) error {
		err := buying.NewServer(n.Orders, log, func() { ready(n.Client.PublicKey()) }).Serve(ctx, c.buyerSocket())
		if errors.Is(err, lease.ErrHeld) {
			return advice.Hint(err, "a buyer runs on this data folder already: its commands reach that one")
		}
		return err
	})
}

// buyerRole goes on with what was ordered, and takes the work of the buyer's commands.
type buyerRole struct {
	*core
	buyer *Buyer
}

// Start implements roles.Role.
func (r *buyerRole) Start(ctx context.Context) (err error) {
	if r.buyer, err = OpenBuyer(ctx, r.Node, nil, r.log); err != nil {
		return err
	}
	r.buyer.Orders.Remote = nil // that would be ourselves, or a buyer that runs already
	return nil
}

// Serve implements roles.Role; it closes the buyer.
func (r *buyerRole) Serve(ctx context.Context) error {
	return r.buyer.serve(ctx, r.Node, r.log, func(key string) { r.tell.say("buying as %s", display.NPub(key)) })
}

// Stop implements roles.Role.
func (*buyerRole) Stop(context.Context) error { return nil }

// Lacks says that no relay is there: what was ordered is stored, and waits.
func (r *buyerRole) Lacks() string {
	for _, st := range r.buyer.market.Pool.Status() {
		if st.State == relay.StateConnected {
			return ""
		}
	}
	return "no relay can be reached: what was ordered is stored, and goes on once one can"
}

// buyerSocket is where a running buyer answers commands.
func (c *Node) buyerSocket() string { return filepath.Join(socketDir(c.DataDir("buyer")), "control") }

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
