package wallet

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
)

// meltView is a payment that the mint made, as --json has it.
type meltView struct {
	At          time.Time `json:"at"` // when the mint was asked what it takes
	State       string    `json:"state"`
	AmountMsats int64     `json:"amount_msats"`
	CostSats    int64     `json:"cost_sats"` // fees included
	PaymentHash string    `json:"payment_hash"`
	Preimage    string    `json:"preimage,omitempty"`
	Failure     string    `json:"failure,omitempty"`
}

func meltViewOf(m wallets.MintPayment) meltView {
	v := meltView{
		At: m.At.UTC(), State: m.State, AmountMsats: m.AmountMsats, CostSats: m.CostSats,
		PaymentHash: m.Hash.String(), Failure: m.Failure,
	}
	if !m.Preimage.IsZero() {
		v.Preimage = m.Preimage.String()
	}
	return v
}

func listMelts(ctx context.Context, s *app.Streams, wal *wallets.Notes, asJSON bool) error {
	list, err := wal.Payments(ctx)
	if err != nil {
		return err
	}
	views := []meltView{}
	for _, m := range list {
		views = append(views, meltViewOf(m))
	}
	if asJSON {
		return app.PrintJSON(s.Out, views)
	}
	if len(list) == 0 {
		fmt.Fprintln(s.Err, "lightwork: nothing was paid by this wallet's mint yet; name an invoice, or --to-address NAME@HOST --sats N")
	}
	for _, v := range views {
		fmt.Fprintf(s.Out, "%s  %-9s  %s  cost %s  %s  %s\n",
			v.At.Local().Format(time.RFC3339), v.State, display.Msats(v.AmountMsats), display.Msats(v.CostSats*1000), v.PaymentHash, display.Printable(cmp.Or(v.Preimage, v.Failure)))
	}

	return nil
}

// tokenView is a token that was taken out, as --json has it.
type tokenView struct {
	At    time.Time `json:"at"`
	Sats  int64     `json:"sats"`
	Token string    `json:"token"` // whoever has it has the money
}

func listTokens(ctx context.Context, s *app.Streams, wal *wallets.Notes, asJSON bool) error {
	list, err := wal.TakenOut(ctx)
	if err != nil {
		return err
	}
	views := []tokenView{}
	for _, t := range list {
		views = append(views, tokenView{At: t.At.UTC(), Sats: t.Sats, Token: t.Text})
	}
	if asJSON {
		return app.PrintJSON(s.Out, views)
	}
	if len(list) == 0 {
		fmt.Fprintln(s.Err, "lightwork: no token was taken out of this wallet yet; name how many sats")
	}
	for _, v := range views {
		fmt.Fprintf(s.Out, "%s  %s  %s\n", v.At.Local().Format(time.RFC3339), display.Msats(v.Sats*1000), v.Token)
	}
	return nil
}
