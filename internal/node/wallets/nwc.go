package wallets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/nwc"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// ReadConnection reads the address of a wallet service.
func ReadConnection(file string) (nwc.Connection, error) {
	text, err := keys.ReadSecret(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nwc.Connection{}, advice.Usage("the wallet's app makes a connection for this node: put its nostr+walletconnect:// address into the file, mode 0600", "%w", err)
	}
	if err != nil {
		return nwc.Connection{}, err
	}

	connection, err := nwc.ParseURI(text)
	if err != nil {
		return connection, advice.Usage("the wallet's app gives an address that begins with nostr+walletconnect://", "%s: %w", file, err)
	}
	return connection, nil
}

// openNWC connects to a wallet service; close ends the connection.
func openNWC(ctx context.Context, file string, may payments.MaySpend, log *slog.Logger) (*nwc.Client, func(), error) {
	connection, err := ReadConnection(file)
	if err != nil {
		return nil, nil, err
	}
	client, err := nwc.Open(nwc.Config{Connection: connection, MaySpend: may, Log: log})
	if err != nil {
		return nil, nil, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := client.Serve(serving); err != nil {
			log.Error("wallet connection", "err", err)
		}
	})
	return client, func() { stop(); wg.Wait() }, nil
}

// Why a wallet service cannot be paid.
const (
	lacksHold     = "the wallet makes no hold invoices (make_hold_invoice, settle_hold_invoice, cancel_hold_invoice, lookup_invoice)"
	lacksInvoices = "the wallet makes no invoices (make_invoice, lookup_invoice)"
	lacksPreimage = "the wallet makes no invoices with a preimage of ours (make_invoice, make_invoice_preimage, lookup_invoice)"
	// choosesHash is what else there is to say of a wallet that can be paid.
	choosesHash = "the wallet chooses the payment hash itself: quotes name none, nothing is delivered sealed, and receipts are weaker by that (docs/use/nwc.md)"
)

// lacksFor is why a wallet service cannot be paid in a mode, "" if it can.
func lacksFor(info nwc.Info, mode receipts.Mode) string {
	switch {
	case mode == receipts.ModeHold && !info.CanHold():
		return lacksHold
	case (mode == receipts.ModePrepay || mode == receipts.ModePostpay) && !info.CanChoose():
		return lacksInvoices
	}
	return ""
}

// choosesIn reports whether a wallet service chooses the payment hash of what is sold
// in one of the modes.
func choosesIn(info nwc.Info, modes []receipts.Mode) bool {
	return !info.CanPrepay() && (slices.Contains(modes, receipts.ModePrepay) || slices.Contains(modes, receipts.ModePostpay))
}

// MakerOf makes the invoices of a wallet that chooses their payment hashes, nil of
// another.
func MakerOf(ctx context.Context, w Wallet) (func(context.Context, payments.NewInvoice, time.Time) (payments.Invoice, error), error) {
	client, ok := w.(*nwc.Client)
	if !ok {
		return nil, nil
	}
	info, err := client.Info(ctx)
	if err != nil || info.CanPrepay() || !info.CanChoose() {
		return nil, err
	}
	return client.MakeInvoice, nil
}

// Payable leaves of each offer the modes that the wallet can be paid in, so that no
// other is announced or quoted. unpaid says, by job type, why nothing of an offer can
// be sold, and less what else is not sold as it is configured. Wallets that are no
// service of somebody else's can be paid in every mode.
func Payable(ctx context.Context, w Wallet, offers []provider.Offer) (left []provider.Offer, unpaid map[string]string, less []string, err error) {
	client, ok := w.(*nwc.Client)
	if !ok {
		return offers, nil, nil, nil
	}
	info, err := client.Info(ctx)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("ask the wallet what it can: %w", err)
	}

	unpaid = map[string]string{}
	for _, o := range offers {
		var modes []receipts.Mode
		var lacks []string
		for _, m := range o.Modes {
			if why := lacksFor(info, m); why != "" {
				lacks = append(lacks, fmt.Sprintf("not in %s: %s", m, why))
			} else {
				modes = append(modes, m)
			}
		}

		switch {
		case o.EngagementMsats > 0 && !info.CanPrepay():
			unpaid[o.SchemaID] = "its engagement fee is prepaid, and " + lacksPreimage
		case len(modes) == 0:
			unpaid[o.SchemaID] = strings.Join(lacks, "; ")
		default:
			o.Modes = modes
			for _, why := range lacks {
				less = append(less, o.SchemaID+" is sold in "+display.Modes(modes)+", "+why)
			}
			if choosesIn(info, modes) {
				less = append(less, o.SchemaID+" is sold in "+display.Modes(modes)+", and "+choosesHash)
			}
		}

		left = append(left, o)
	}

	return left, unpaid, less, nil
}

// UnpaidHint is what helps where the wallet cannot be paid as an offer says.
const UnpaidHint = "name modes that the wallet has under provider.offers, or use a wallet that has those: docs/use/nwc.md says what each needs"
