package cli

import (
	"context"
	"slices"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/payments/lnd"
	"github.com/lightwork-market/lightwork/receipts"
)

// lndWallet is a wallet whose money is moved by an lnd, which asks for a right to each
// call.
type lndWallet interface {
	CheckPermissions(ctx context.Context, role lnd.Role) error
}

// lndRoles are what a side of a sale does with its lnd, and what it does when a
// prepayment goes back.
func lndRoles(role, backend string) (does, refunds lnd.Role) {
	payer, payee := lnd.Payer, lnd.Payee
	if backend == config.BackendOnchain {
		payer, payee = lnd.ChainPayer, lnd.ChainPayee
	}

	if role == "provider" {
		return payee, payer
	}
	return payer, payee
}

// checkRights is nil if the wallet permits what the role does with it. It is asked
// before anything is offered or ordered: a call that is refused later leaves others
// waiting.
func checkRights(ctx context.Context, w wallet, role string, conf config.Wallet) error {
	node, ok := w.(lndWallet)
	if !ok {
		return nil
	}

	if _, err := w.Node(ctx); err != nil {
		return advice.Hint(err, walletHint(err, role, conf))
	}
	does, _ := lndRoles(role, conf.Backend)
	if err := node.CheckPermissions(ctx, does); err != nil {
		return advice.Hint(err, walletHint(err, role, conf))
	}
	return nil
}

// checkMacaroon says what the macaroon of a wallet lacks: for the role, or for the way
// back of a prepayment.
func checkMacaroon(ctx context.Context, c *config.Config, w wallet, name, role string, conf config.Wallet) finding {
	node, ok := w.(lndWallet)
	if !ok {
		return finding{}
	}

	does, refunds := lndRoles(role, conf.Backend)
	if err := node.CheckPermissions(ctx, does); err != nil {
		return finding{name, "fail", err.Error(), walletHint(err, role, conf)}
	}
	if !seesRefunds(c, role) {
		return finding{}
	}
	if err := node.CheckPermissions(ctx, refunds); err != nil {
		return finding{name, "warn", "this lnd cannot see a refund through, so that what a provider owes is credit: " + err.Error(), bakeCommand(conf.Backend, "refunds")}
	}
	return finding{}
}

// seesRefunds reports whether prepayments of the role may come back over its wallet.
func seesRefunds(c *config.Config, role string) bool {
	if role == "buyer" {
		return slices.Contains(c.Buyer.Modes, receipts.ModePrepay)
	}
	return !c.Provider.Refunds.CreditOnly && slices.ContainsFunc(c.Provider.Offers, func(o config.Offer) bool {
		return slices.Contains(o.Modes, receipts.ModePrepay)
	})
}
