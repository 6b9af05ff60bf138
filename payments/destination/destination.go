// Package destination parses the text that names the receiver of a payment: a BOLT 11
// invoice, a Lightning address or, for on-chain payments, a segwit address or a bitcoin:
// URI. The text is untrusted, and one that cannot be represented exactly is refused.
package destination

import (
	"fmt"
	"strings"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// Destination is the receiver of a payment. Exactly one field is set.
type Destination struct {
	Invoice          *bolt11.Invoice // with an amount
	LightningAddress string          // name@host; it may not exist
	Chain            URI
}

// Parse reads a destination for a wallet of the network; "" stands for any wallet that
// pays invoices. The errors wrap [ErrText], [payments.ErrAddress],
// [payments.ErrWrongNetwork], [payments.ErrAmount], [payments.ErrTaprootAssets] or those
// of [bolt11.Decode].
func Parse(text string, network payments.Network) (Destination, error) {
	switch {
	case network.Rail() == payments.RailOnChain:
		u, err := ParseURI(text, network)
		return Destination{Chain: u}, err
	case strings.Contains(text, "@"):
		_, _, err := payments.ParseAddress(text)
		return Destination{LightningAddress: text}, err
	case isTaprootAssets(text):
		return Destination{}, payments.ErrTaprootAssets
	}

	inv, err := bolt11.Decode(text)
	switch {
	case err != nil:
		return Destination{}, fmt.Errorf("not a BOLT11 invoice: %w", err)
	case network != "" && inv.Network != network:
		return Destination{}, fmt.Errorf("%w: the invoice is for %s, the wallet for %s", payments.ErrWrongNetwork, inv.Network, network)
	case inv.AmountMsats < 1:
		return Destination{}, fmt.Errorf("%w: the invoice names none", payments.ErrAmount)
	}
	return Destination{Invoice: inv}, nil
}

// isTaprootAssets reports whether the text begins like an address of Taproot Assets.
func isTaprootAssets(text string) bool {
	prefix, _, _ := strings.Cut(strings.ToLower(text), "1")
	return prefix == "tapbc" || prefix == "taptb" || prefix == "taprt" || prefix == "tapsb"
}

// RailOf returns the rail on which an invoice or a bitcoin: URI is paid.
func RailOf(text string) payments.Rail {
	if isURI(text) {
		return payments.RailOnChain
	}
	return payments.RailLightning
}

// Key returns the same text for all spellings of an invoice or an on-chain address.
func Key(text string) string {
	if inv, err := bolt11.Decode(text); err == nil {
		return inv.PaymentHash.String()
	}
	address, _, _ := strings.Cut(strings.TrimPrefix(strings.ToLower(text), scheme), "?")
	return address
}
