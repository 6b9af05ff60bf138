package wallet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/payments"
)

type walletCashuMeltCmd struct {
	Invoice   string      `arg:"" optional:"" help:"BOLT 11 invoice that the mint is to pay; without one and without --to-address, what was paid before is listed."`
	ToAddress string      `name:"to-address" help:"A Lightning address to ask for the invoice; needs --sats." placeholder:"NAME@HOST"`
	Sats      int64       `help:"How much to send to the address, in sats."`
	MaxFee    int64       `name:"max-fee" help:"At most so much of fees in sats, the mint's and what it reserves for the Lightning route; left out: a fiftieth, but 10 at least." default:"-1"`
	Role      config.Side `help:"Whose wallet: provider or buyer. Left out: the only one there is; of two the buyer's." placeholder:"ROLE"`
	Yes       bool        `help:"Pay without asking."`
	JSON      bool        `help:"Print what was paid, or the list, as JSON."`
}

// leastFeeSats is a fee that even a small payment may take.
const leastFeeSats = 10

// Run shows what the mint asks for, asks, and waits until it has paid.
// Interrupted, the payment goes on when the wallet runs again.
func (w walletCashuMeltCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	if bad := w.check(); bad != nil {
		return bad
	}
	wal, role, closeWallet, err := openRoleCashu(ctx, s, g, w.Role)
	if err != nil {
		return err
	}
	defer closeWallet()

	if w.Invoice == "" && w.ToAddress == "" {
		return listMelts(ctx, s, wal, w.JSON)
	}
	if w.ToAddress != "" {
		if w.Invoice, err = wallets.AddressInvoice(ctx, w.ToAddress, w.Sats*1000); err != nil {
			return advice.Hint(err, "nothing was paid; give an invoice in place of the address")
		}
	}

	m, err := wal.Quote(ctx, w.Invoice)
	if errors.Is(err, payments.ErrBadRequest) {
		return advice.Usage("nothing was paid; an invoice begins with lnbc, and --to-address NAME@HOST asks for one", "%w", err)
	}
	if err != nil {
		return advice.Hint(err, wallets.MeltHint(err))
	}

	if m.IsUnpaid() {
		if err := w.begin(ctx, s, wal, role, m); err != nil {
			return err
		}
	}

	if m, err = wal.Await(ctx, m); err != nil {
		return advice.Hint(err, "the payment is not undone: its end is found out whenever the wallet runs; lightwork wallet cashu-melt lists it")
	}
	return tellMelt(s, m, w.JSON)
}

func (w walletCashuMeltCmd) check() error {
	switch {
	case w.Invoice != "" && w.ToAddress != "":
		return advice.Usage("name one of them", "an invoice and --to-address")
	case w.ToAddress != "" && (w.Sats < 1 || w.Sats > payments.MaxMsats/1000):
		return advice.Usage("for example --sats 1000", "--to-address needs --sats")
	case w.ToAddress != "" && !isLightningAddress(w.ToAddress):
		return advice.Usage("an address looks like name@example.com, in lower case; an invoice is given without --to-address", "--to-address %q is no Lightning address", w.ToAddress)
	case w.ToAddress == "" && w.Sats != 0:
		return advice.Usage("an invoice says its amount itself", "--sats is for --to-address")
	case w.MaxFee < -1:
		return advice.Usage("for example --max-fee 20", "--max-fee cannot be negative")
	}

	return nil
}

func isLightningAddress(text string) bool {
	_, _, err := payments.ParseAddress(text)
	return err == nil
}

// begin has the invoice paid if its cost is within bounds and somebody says yes.
func (w walletCashuMeltCmd) begin(ctx context.Context, s *app.Streams, wal *wallets.Notes, role string, m wallets.MintPayment) error {
	cost, err := wal.Cost(ctx, m)
	if err != nil {
		return advice.Hint(err, wallets.MeltHint(err))
	}
	limit := w.MaxFee
	if limit < 0 {
		limit = max(leastFeeSats, m.Sats/50)
	}
	if fee := cost - m.Sats; fee > limit {
		return advice.Usage(fmt.Sprintf("--max-fee %d allows it; nothing was paid", fee),
			"the mint would take or reserve %d sat of fees for %d sat, more than %d", fee, m.Sats, limit)
	}
	fmt.Fprintf(s.Err, "lightwork: pays %s over Lightning for at most %s of the %s's notes; %d sat of it are reserved for the route's fee\n",
		display.Msats(m.AmountMsats), display.Msats(cost*1000), role, m.ReserveSats)
	if !w.Yes {
		in, ok := s.In.(*os.File)
		if !ok || !app.IsTerminal(in) {
			return advice.Usage("--yes pays without asking", "nobody is there to ask")
		}
		fmt.Fprint(s.Err, "Pay? [y/N] ")
		if answer, err := app.ReadLine(ctx, in); err != nil || answer != "y" && answer != "yes" {
			return cmp.Or(err, errors.New("nothing was paid"))
		}
	}

	if err := wal.Pay(ctx, m, cost); err != nil {
		return advice.Hint(err, wallets.MeltHint(err))
	}
	return nil
}

// tellMelt prints the preimage, which is the payment's proof.
func tellMelt(s *app.Streams, m wallets.MintPayment, asJSON bool) error {
	if m.IsUnpaid() {
		return advice.Hint(fmt.Errorf("the mint did not pay: %s", m.Failure), "the notes are yours again; the same command tries once more")
	}
	if asJSON {
		if err := app.PrintJSON(s.Out, meltViewOf(m)); err != nil {
			return err
		}
	}

	if m.Preimage.IsZero() {
		fmt.Fprintln(s.Err, "lightwork: the mint says that it has paid, but shows no preimage: ask the payee")
	} else if !asJSON {
		fmt.Fprintln(s.Out, m.Preimage)
	}

	fmt.Fprintf(s.Err, "lightwork: paid; it cost %s, fees included\n", display.Msats(m.CostSats*1000))
	return nil
}
