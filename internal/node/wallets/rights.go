package wallets

import (
	"context"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/payments/lnd"
)

// LndWallet is a wallet whose money is moved by an lnd, which asks for a right to each
// call.
type LndWallet interface {
	CheckPermissions(ctx context.Context, role lnd.Role) error
}

// LndRoles are what a side of a sale does with its lnd, and what it does when a
// prepayment goes back.
func LndRoles(role, backend string) (does, refunds lnd.Role) {
	payer, payee := lnd.Payer, lnd.Payee
	if backend == config.BackendOnchain {
		payer, payee = lnd.ChainPayer, lnd.ChainPayee
	}

	if role == "provider" {
		return payee, payer
	}
	return payer, payee
}

// CheckRights is nil if the wallet permits what the role does with it. It is asked
// before anything is offered or ordered: a call that is refused later leaves others
// waiting.
func CheckRights(ctx context.Context, w Wallet, role string, conf config.Wallet) error {
	node, ok := w.(LndWallet)
	if !ok {
		return nil
	}

	if _, err := w.Node(ctx); err != nil {
		return advice.Hint(err, Hint(err, role, conf))
	}

	does, _ := LndRoles(role, conf.Backend)
	if err := node.CheckPermissions(ctx, does); err != nil {
		return advice.Hint(err, Hint(err, role, conf))
	}
	return nil
}
