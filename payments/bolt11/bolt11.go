// Package bolt11 reads and writes Lightning invoices (BOLT 11). [Decode] checks an
// [Invoice] in full: checksum, every tagged field, and the signature, from which it
// recovers the payee's key. [Encode] writes one.
//
// An invoice that [Decode] accepts is well formed and was signed by the key in
// Invoice.Payee. The caller must compare payee, amount, hash and network with the
// expected ones: anybody can sign an invoice with some key.
//
// The package contains no network code.
package bolt11

import (
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// MaxLength bounds an invoice in characters: the capacity of the largest QR code, and
// lnd's bound too.
const MaxLength = 7089

// Values that BOLT 11 gives to absent fields.
const (
	DefaultExpiry       = time.Hour
	DefaultMinFinalCLTV = 18
)

// The errors of [Decode], for errors.Is; the text says more.
var (
	ErrTooLong   = errors.New("bolt11: invoice too long")
	ErrBech32    = errors.New("bolt11: bad bech32")
	ErrPrefix    = errors.New("bolt11: unknown prefix")
	ErrAmount    = errors.New("bolt11: bad amount")
	ErrField     = errors.New("bolt11: bad field")
	ErrMissing   = errors.New("bolt11: missing field")
	ErrFeature   = errors.New("bolt11: unknown required feature")
	ErrSignature = errors.New("bolt11: bad signature")
)

// Invoice is a BOLT 11 invoice. If DescriptionHash is nil, Description describes it,
// which may be empty; otherwise Description is not used.
type Invoice struct {
	Network     payments.Network
	AmountMsats int64 // 0: the invoice leaves the amount to the payer
	CreatedAt   time.Time

	PaymentHash     payments.Hash
	PaymentSecret   [32]byte
	Description     string
	DescriptionHash *hashing.Digest
	Metadata        []byte
	Expiry          time.Duration // whole seconds
	MinFinalCLTV    uint32        // blocks
	Features        []int         // bits that are set, ascending
	Fallbacks       []Fallback
	Routes          [][]Hop

	// Payee is the key that signed, compressed and in hex. It is recovered from the
	// signature, or named by the n field and checked.
	Payee string

	// Ecash is set if the invoice is paid in Cashu notes. Network is then the mint's,
	// and Metadata contains these terms.
	Ecash *Ecash
}

// Fallback is an on-chain address: witness version 0 to 16 with its program,
// 17 for a public key hash, 18 for a script hash.
type Fallback struct {
	Version byte
	Program []byte
}

// Hop is one step of a private route to the payee.
type Hop struct {
	PubKey         string // 33-byte compressed key in hex
	ShortChannelID uint64
	FeeBaseMsats   uint32
	FeeMillionths  uint32
	CLTVDelta      uint16
}

// ExpiresAt is the time after which the invoice must not be paid.
func (inv *Invoice) ExpiresAt() time.Time { return inv.CreatedAt.Add(inv.Expiry) }

// RouteBlocks is how long a payment may be locked on its way, beyond the final
// CLTV: seven hops with lnd's own delta of 80 blocks.
const RouteBlocks = 576

// CheckLock refuses an invoice with which the payee could lock the payer's money for
// too long: with a final CLTV of more than final blocks, or with hops of a private
// route, whose deltas the payee chooses too, of more than RouteBlocks together. It is
// needed because not every wallet accepts a limit for the whole route.
func (inv *Invoice) CheckLock(final uint32) error {
	if inv.MinFinalCLTV > final {
		return fmt.Errorf("a payment could be held for %d blocks, at most %d here", inv.MinFinalCLTV, final)
	}

	for _, route := range inv.Routes {
		var blocks uint32
		for _, hop := range route {
			blocks += uint32(hop.CLTVDelta)
		}
		if blocks > RouteBlocks {
			return fmt.Errorf("its private route could hold a payment for %d blocks, at most %d here", blocks, RouteBlocks)
		}
	}
	return nil
}

// Types of tagged fields, by their value in the data part.
const (
	fieldPaymentHash     = 1  // p
	fieldRoute           = 3  // r
	fieldFeatures        = 5  // 9
	fieldExpiry          = 6  // x
	fieldFallback        = 9  // f
	fieldDescription     = 13 // d
	fieldPaymentSecret   = 16 // s
	fieldPayee           = 19 // n
	fieldDescriptionHash = 23 // h
	fieldMinFinalCLTV    = 24 // c
	fieldMetadata        = 27 // m
)

// Sizes in groups of five bits, or in bytes where said.
const (
	timestampGroups = 7
	signatureGroups = 104
	hashGroups      = 52
	pubKeyGroups    = 53
	maxFieldGroups  = 1023
	hopBytes        = 33 + 8 + 4 + 4 + 2
)

// required features that a payer of these invoices may meet: the wallet that
// pays understands them. Any other even bit refuses the invoice.
func knownFeature(bit int) bool {
	switch bit {
	case 8, 14, 16, 48: // var_onion_optin, payment_secret, basic_mpp, option_payment_metadata
		return true
	}
	return false
}
