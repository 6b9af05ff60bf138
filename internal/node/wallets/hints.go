package wallets

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/lnd"
)

// Hint is the next step for whoever runs a wallet that does not answer as
// it should.
func Hint(err error, role string, w config.Wallet) string {
	section := role + ".wallet.lnd"
	switch {
	case w.Backend == "play" && errors.Is(err, payments.ErrWalletUnavailable):
		return advice.ServePlayMoney + " runs the ledger; " + role + ".wallet.play.url says where it is"
	case w.Backend == "nwc" && errors.Is(err, payments.ErrWalletUnavailable):
		return "the wallet must run, and the relay that " + role + ".wallet.nwc.uri_file names be reachable; a connection that its app has ended needs a new address in the file"
	case w.Backend == "cashu" && errors.Is(err, payments.ErrWalletUnavailable):
		return role + ".wallet.cashu.mint does not answer: nothing is lost, and what is under way goes on when it does"
	case w.Backend != "lnd" && w.Backend != config.BackendOnchain:
		return advice.Check + " checks the wallet"
	case errors.Is(err, lnd.ErrWalletLocked):
		return "lncli unlock"
	case errors.Is(err, payments.ErrUnauthorized):
		return BakeCommand(w.Backend, role) + "; then put the file at " + section + ".macaroon_file"
	case errors.Is(err, payments.ErrWrongNetwork):
		return section + ".network names the network that is meant, " + section + ".address the node on it"
	case errors.Is(err, payments.ErrWalletUnavailable):
		return "start lnd, or correct " + section + ".address and tls_cert_file; lncli state says whether it is ready"
	}

	return advice.Check + " checks the wallet"
}

// Plain says in one line what a provider's wallet lacks, and the next step.
func Plain(err error, w config.Wallet) error {
	if err == nil {
		return nil
	}

	what := err.Error()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		what = "no answer in time"
	case errors.Is(err, lnd.ErrWalletLocked):
		what = "the wallet is locked"
	case errors.Is(err, payments.ErrUnauthorized):
		what = "the wallet refuses our credentials"
	case errors.Is(err, payments.ErrWalletUnavailable):
		what = "the wallet does not answer"
	}

	return errors.New(what + "; " + Hint(err, "provider", w))
}

// Trouble adds the next step to an error of a wallet's and leaves others alone.
func Trouble(err error, role string, w config.Wallet) error {
	if (errors.As(err, new(*lnd.Error)) || w.Backend == "play" && errors.Is(err, payments.ErrWalletUnavailable)) && !errors.As(err, new(*advice.Error)) {
		return advice.Hint(err, Hint(err, role, w))
	}
	return err
}

// BothSides are the calls of one who pays and is paid.
func BothSides(a, b lnd.Role) []string {
	uris := slices.Concat(lnd.PermissionURIs(a), lnd.PermissionURIs(b))
	slices.Sort(uris)
	return slices.Compact(uris)
}

// BakeCommand makes the macaroon that permits just what the role needs.
func BakeCommand(backend, role string) string {
	does, refunds := LndRoles(role, backend)
	uris := lnd.PermissionURIs(does)
	if role == "refunds" {
		uris = BothSides(does, refunds)
	}
	var b strings.Builder
	b.WriteString("lncli bakemacaroon --save_to " + role + ".macaroon")
	for _, uri := range uris {
		b.WriteString(" uri:" + uri)
	}
	return b.String()
}
