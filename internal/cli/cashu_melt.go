package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/cashu"
	"github.com/lightwork-market/lightwork/payments/lud16"
	"github.com/lightwork-market/lightwork/relay"
)

type walletCashuMeltCmd struct {
	Invoice   string `arg:"" optional:"" help:"BOLT 11 invoice that the mint is to pay; without one and without --to-address, what was paid before is listed."`
	ToAddress string `name:"to-address" help:"A Lightning address to ask for the invoice; needs --sats." placeholder:"NAME@HOST"`
	Sats      int64  `help:"How much to send to the address, in sats."`
	MaxFee    int64  `name:"max-fee" help:"At most so much of fees in sats, the mint's and what it reserves for the Lightning route; left out: a fiftieth, but 10 at least." default:"-1"`
	Role      side   `help:"Whose wallet: provider or buyer. Left out: the only one there is; of two the buyer's." placeholder:"ROLE"`
	Yes       bool   `help:"Pay without asking."`
	JSON      bool   `help:"Print what was paid, or the list, as JSON."`
}

// leastFeeSats is a fee that even a small payment may take.
const leastFeeSats = 10

// Run shows what the mint asks for, asks, and waits until it has paid.
// Interrupted, the payment goes on when the wallet runs again.
func (w walletCashuMeltCmd) Run(ctx context.Context, s *streams, g *globals) error {
	if bad := w.check(); bad != nil {
		return bad
	}
	wal, role, closeWallet, err := openRoleCashu(ctx, g, w.Role, s.log)
	if err != nil {
		return err
	}
	defer closeWallet()
	if w.Invoice == "" && w.ToAddress == "" {
		return listMelts(ctx, s, wal, w.JSON)
	}
	if w.ToAddress != "" {
		client := relay.NewPublicClient(addressDial)
		if w.Invoice, err = lud16.New(lud16.Config{Client: client}).Invoice(ctx, w.ToAddress, w.Sats*1000); err != nil {
			return hinted(err, "nothing was paid; give an invoice in place of the address")
		}
	}
	m, err := wal.MeltQuote(ctx, w.Invoice)
	if errors.Is(err, payments.ErrBadRequest) {
		return usage("nothing was paid; an invoice begins with lnbc, and --to-address NAME@HOST asks for one", "%w", err)
	}
	if err != nil {
		return hinted(err, meltHint(err))
	}
	if m.State == cashu.MeltQuoted || m.State == cashu.MeltFailed {
		if err := w.begin(ctx, s, wal, role, m); err != nil {
			return err
		}
	}
	if m, err = wal.AwaitMelt(ctx, m.Hash); err != nil {
		return hinted(err, "the payment is not undone: its end is found out whenever the wallet runs; lightwork wallet cashu-melt lists it")
	}
	return tellMelt(s, m, w.JSON)
}

func (w walletCashuMeltCmd) check() error {
	switch {
	case w.Invoice != "" && w.ToAddress != "":
		return usage("name one of them", "an invoice and --to-address")
	case w.ToAddress != "" && (w.Sats < 1 || w.Sats > payments.MaxMsats/1000):
		return usage("for example --sats 1000", "--to-address needs --sats")
	case w.ToAddress != "" && !isLightningAddress(w.ToAddress):
		return usage("an address looks like name@example.com, in lower case; an invoice is given without --to-address", "--to-address %q is no Lightning address", w.ToAddress)
	case w.ToAddress == "" && w.Sats != 0:
		return usage("an invoice says its amount itself", "--sats is for --to-address")
	case w.MaxFee < -1:
		return usage("for example --max-fee 20", "--max-fee cannot be negative")
	}
	return nil
}

func isLightningAddress(text string) bool {
	_, _, err := payments.ParseAddress(text)
	return err == nil
}

// begin has the invoice paid if its cost is within bounds and somebody says yes.
func (w walletCashuMeltCmd) begin(ctx context.Context, s *streams, wal *cashu.Wallet, role string, m cashu.Melt) error {
	cost, err := wal.MeltCost(ctx, m)
	if err != nil {
		return hinted(err, meltHint(err))
	}
	limit := w.MaxFee
	if limit < 0 {
		limit = max(leastFeeSats, m.Sats/50)
	}
	if fee := cost - m.Sats; fee > limit {
		return usage(fmt.Sprintf("--max-fee %d allows it; nothing was paid", fee),
			"the mint would take or reserve %d sat of fees for %d sat, more than %d", fee, m.Sats, limit)
	}
	fmt.Fprintf(s.err, "lightwork: pays %s over Lightning for at most %s of the %s's notes; %d sat of it are reserved for the route's fee\n",
		msats(m.AmountMsats), msats(cost*1000), role, m.ReserveSats)
	if !w.Yes {
		in, ok := s.in.(*os.File)
		if !ok || !isTerminal(in) {
			return usage("--yes pays without asking", "nobody is there to ask")
		}
		fmt.Fprint(s.err, "Pay? [y/N] ")
		if answer, err := readLine(ctx, in); err != nil || answer != "y" && answer != "yes" {
			return firstError(err, errors.New("nothing was paid"))
		}
	}
	if err := wal.Melt(ctx, m.Hash, cost); err != nil {
		return hinted(err, meltHint(err))
	}
	return nil
}

// tellMelt prints the preimage, which is the payment's proof.
func tellMelt(s *streams, m cashu.Melt, asJSON bool) error {
	if m.State == cashu.MeltFailed {
		return hinted(fmt.Errorf("the mint did not pay: %s", m.Failure), "the notes are yours again; the same command tries once more")
	}
	if asJSON {
		if err := printJSON(s.out, meltViewOf(m)); err != nil {
			return err
		}
	}
	if m.Preimage.IsZero() {
		fmt.Fprintln(s.err, "lightwork: the mint says that it has paid, but shows no preimage: ask the payee")
	} else if !asJSON {
		fmt.Fprintln(s.out, m.Preimage)
	}
	fmt.Fprintf(s.err, "lightwork: paid; it cost %s, fees included\n", msats(m.CostSats*1000))
	return nil
}

// meltHint is the next step where nothing was paid.
func meltHint(err error) string {
	switch {
	case errors.Is(err, sqlite.ErrReadOnly):
		return cashuHint(err)
	case errors.Is(err, payments.ErrInsufficientFunds):
		return "lightwork wallet status shows what there is; fees come on top of the amount"
	case errors.Is(err, payments.ErrExpired), errors.As(err, new(*cashu.MintError)):
		return "nothing was paid; ask the payee for another invoice"
	case errors.Is(err, payments.ErrWrongNetwork), errors.Is(err, payments.ErrAmount):
		return "nothing was paid; a mint pays Lightning invoices that name an amount"
	}
	return cashuHint(err)
}
