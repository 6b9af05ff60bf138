package destination

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// ErrText: the text is no address, or says more than an address and an amount.
var ErrText = errors.New("not an address or bitcoin: URI of this network")

const (
	scheme     = "bitcoin:"
	amountIs   = "?amount="
	maxText    = 256
	satsPerBTC = 100_000_000
	maxBTC     = 21_000_000
)

// URI is an on-chain address with an amount: BIP 21 without other parameters.
type URI struct {
	To      bolt11.Fallback
	Address string // in lower case
	Sats    int64  // 0: not said
}

// isURI reports whether a text starts like such a URI.
func isURI(text string) bool {
	return len(text) >= len(scheme) && strings.EqualFold(text[:len(scheme)], scheme)
}

// ParseURI parses a URI, or an address alone, of a network with on-chain
// transactions (payments.Network.OnChain or the network below it).
func ParseURI(text string, network payments.Network) (URI, error) {
	if of, ok := network.Chain(); ok {
		network = of
	}
	if len(text) > maxText {
		return URI{}, fmt.Errorf("%w: %d bytes", ErrText, len(text))
	}
	address, amount, has := text, "", false
	if isURI(text) {
		address, amount, has = strings.Cut(text[len(scheme):], amountIs)
	}
	to, err := bolt11.ParseAddress(address, network)
	if err != nil {
		return URI{}, fmt.Errorf("%w: %w", ErrText, err)
	}
	u := URI{To: to}
	if u.Address, err = to.Address(network); err != nil {
		return URI{}, fmt.Errorf("%w: %w", ErrText, err)
	}
	if has {
		u.Sats, err = parseBTC(amount)
	}
	return u, err
}

// Sats returns the amount of a URI for any network; 0 if it has none.
func Sats(text string) int64 {
	_, amount, has := strings.Cut(text, amountIs)
	if sats, err := parseBTC(amount); has && err == nil && isURI(text) {
		return sats
	}
	return 0
}

// parseBTC parses decimal bitcoin with up to eight places.
func parseBTC(text string) (sats int64, err error) {
	whole, fraction, _ := strings.Cut(text, ".")
	digits := whole + fraction + strings.Repeat("0", max(0, 8-len(fraction)))
	if whole == "" || len(whole) > 8 || len(fraction) > 8 {
		return 0, fmt.Errorf("%w: amount %q", ErrText, text)
	}

	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, fmt.Errorf("%w: amount %q", ErrText, text)
		}
		sats = 10*sats + int64(d-'0')
	}

	if sats < 1 || sats > maxBTC*satsPerBTC {
		return 0, fmt.Errorf("%w: amount %q", ErrText, text)
	}
	return sats, nil
}

// String is the URI of an amount, and without one the address.
func (u URI) String() string {
	if u.Sats == 0 {
		return u.Address
	}
	return fmt.Sprintf("%s%s%s%d.%08d", scheme, u.Address, amountIs, u.Sats/satsPerBTC, u.Sats%satsPerBTC)
}
