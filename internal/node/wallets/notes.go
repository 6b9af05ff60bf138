package wallets

import (
	"context"
	"log/slog"
	"time"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/cashu"
)

// Notes is a wallet of a mint's notes, as far as it is more than other wallets are.
type Notes struct{ wallet *cashu.Wallet }

// OpenNotes opens the role's notes as [Open] does, and serves them until they are closed.
func OpenNotes(ctx context.Context, c *config.Config, w config.Cashu, role string, log *slog.Logger) (*Notes, func(), error) {
	wallet, closeWallet, err := OpenCashu(ctx, c, w, role, log)
	if err != nil {
		return nil, nil, err
	}
	return &Notes{wallet}, closeWallet, nil
}

// Topup is the mint's invoice for so many sats; arrive waits until it is paid and the
// notes are here.
func (n *Notes) Topup(ctx context.Context, sats int64) (invoice string, arrive func(context.Context) error, err error) {
	t, err := n.wallet.Topup(ctx, sats)
	return t.Invoice, func(ctx context.Context) error { return n.wallet.AwaitTopup(ctx, t) }, err
}

// Token is money that was taken out of the wallet.
type Token struct {
	At   time.Time
	Sats int64
	Text string // whoever has it has the money
}

// TakeOut takes so many sats out of the wallet.
func (n *Notes) TakeOut(ctx context.Context, sats int64) (Token, error) {
	t, err := n.wallet.Export(ctx, sats)
	return Token{t.At, t.Sats, t.Text}, err
}

// TakenOut lists what was taken out before.
func (n *Notes) TakenOut(ctx context.Context) (all []Token, err error) {
	list, err := n.wallet.Tokens(ctx)
	for _, t := range list {
		all = append(all, Token{t.At, t.Sats, t.Text})
	}
	return all, err
}

// MintPayment is a Lightning payment that the mint makes for notes.
type MintPayment struct {
	At          time.Time // when the mint was asked what it takes
	State       string
	Hash        payments.Hash
	AmountMsats int64             // the invoice's
	Sats        int64             // the mint's price for it, without fees
	ReserveSats int64             // at most so much for the route
	CostSats    int64             // what has left the wallet, all fees included; 0 while it is quoted
	Preimage    payments.Preimage // of a paid one; zero if the mint did not show it
	Failure     string

	melt cashu.Melt
}

func mintPayment(m cashu.Melt) MintPayment {
	return MintPayment{
		At: m.At, State: string(m.State), Hash: m.Hash, AmountMsats: m.AmountMsats, Sats: m.Sats, ReserveSats: m.ReserveSats,
		CostSats: m.CostSats, Preimage: m.Preimage, Failure: m.Failure, melt: m,
	}
}

// IsUnpaid reports a payment that the mint was not yet asked for, or has failed to make.
func (p MintPayment) IsUnpaid() bool {
	return p.melt.State == cashu.MeltQuoted || p.melt.State == cashu.MeltFailed
}

// Quote asks the mint what it takes to pay an invoice, and begins nothing. A payment of
// it that is under way, or made, is given as it stands.
func (n *Notes) Quote(ctx context.Context, invoice string) (MintPayment, error) {
	m, err := n.wallet.MeltQuote(ctx, invoice)
	return mintPayment(m), err
}

// Cost is what a payment takes of the notes at most, in sats.
func (n *Notes) Cost(ctx context.Context, p MintPayment) (int64, error) {
	return n.wallet.MeltCost(ctx, p.melt)
}

// Pay has the mint make a payment for at most so many sats of notes. It goes on without
// its caller; [Notes.Await] says how it ended.
func (n *Notes) Pay(ctx context.Context, p MintPayment, mostSats int64) error {
	return n.wallet.Melt(ctx, p.Hash, mostSats)
}

// Await waits until a payment is made or has failed.
func (n *Notes) Await(ctx context.Context, p MintPayment) (MintPayment, error) {
	m, err := n.wallet.AwaitMelt(ctx, p.Hash)
	return mintPayment(m), err
}

// Payments lists the payments that were begun, the oldest first.
func (n *Notes) Payments(ctx context.Context) (all []MintPayment, err error) {
	list, err := n.wallet.Melts(ctx)
	for _, m := range list {
		all = append(all, mintPayment(m))
	}
	return all, err
}

// RestoredNotes is what came back of a seed.
type RestoredNotes struct {
	Notes       int // that were not known here
	Sats        int64
	PendingSats int64 // of notes that the mint is doing something with
}

// Restore asks the mint for the notes of the seed that are not here. tell hears, if it is
// not nil, about how many notes it was asked, and what was found.
func (n *Notes) Restore(ctx context.Context, tell func(asked int64, found RestoredNotes)) (RestoredNotes, error) {
	hear := func(int64, cashu.Restored) {}
	if tell != nil {
		hear = func(asked int64, r cashu.Restored) { tell(asked, RestoredNotes(r)) }
	}
	r, err := n.wallet.Restore(ctx, hear)
	return RestoredNotes(r), err
}
