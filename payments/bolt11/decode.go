package bolt11

import (
	"fmt"
	"strings"
	"time"

	"github.com/btcsuite/btcd/btcutil/bech32"

	"github.com/lightwork-market/lightwork/internal/lowerbech32"
)

// Decode reads an invoice in lower or upper case and makes all checks that BOLT 11
// demands of a reader. Fields p, h, s and n of a wrong length are skipped; p, s and one
// of d and h must remain. Fields x, c and 9 must be minimal, padding must be zero, and
// the first of a repeated field counts. A signature with an n field must be low-S.
func Decode(s string) (*Invoice, error) {
	inv, sig, err := DecodeUnsigned(s)
	if err != nil {
		return nil, err
	}
	if inv.Payee, err = sig.Check(); err != nil {
		return nil, err
	}
	return inv, nil
}

// DecodeUnsigned is [Decode] without the check of the signature, which it returns for
// the caller to check. Until then the invoice must not be trusted, so Payee is empty.
func DecodeUnsigned(s string) (*Invoice, Signature, error) {
	hrp, data, err := decodeBech32(s)
	if err != nil {
		return nil, Signature{}, err
	}
	if len(data) < timestampGroups+signatureGroups {
		return nil, Signature{}, fmt.Errorf("%w: %d groups of data are too few", ErrMissing, len(data))
	}

	inv := &Invoice{Expiry: DefaultExpiry, MinFinalCLTV: DefaultMinFinalCLTV}
	if inv.Network, inv.AmountMsats, err = parseHRP(hrp); err != nil {
		return nil, Signature{}, err
	}
	signed, signature := data[:len(data)-signatureGroups], data[len(data)-signatureGroups:]
	inv.CreatedAt = time.Unix(int64(bigEndian(signed[:timestampGroups])), 0).UTC()
	fields := fieldReader{inv: inv}
	if err := fields.readAll(signed[timestampGroups:]); err != nil {
		return nil, Signature{}, err
	}
	if err := inv.readEcash(); err != nil {
		return nil, Signature{}, err
	}

	hash, err := signatureHash(hrp, signed)
	if err != nil {
		return nil, Signature{}, err
	}
	raw, err := bech32.ConvertBits(signature, 5, 8, false)
	if err != nil {
		return nil, Signature{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	return inv, Signature{Hash: hash, RS: [64]byte(raw[:64]), Recovery: raw[64], payee: fields.payee}, nil
}

// decodeBech32 returns the lower-case prefix and the data in groups of five
// bits, without the checksum.
func decodeBech32(s string) (string, []byte, error) {
	if len(s) > MaxLength {
		return "", nil, fmt.Errorf("%w: %d characters", ErrTooLong, len(s))
	}
	if hrp, data, ok := lowerbech32.Decode(s); ok {
		return hrp, data, nil
	}

	hrp, data, err := bech32.DecodeNoLimit(s)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrBech32, err)
	}

	// The library also accepts the checksum of bech32m without saying so; BOLT 11
	// allows only that of bech32.
	again, err := bech32.Encode(hrp, data)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrBech32, err)
	}
	if again != strings.ToLower(s) {
		return "", nil, fmt.Errorf("%w: the checksum is that of bech32m", ErrBech32)
	}

	return hrp, data, nil
}

// bigEndian reads at most 12 groups.
func bigEndian(groups []byte) uint64 {
	var v uint64
	for _, g := range groups {
		v = v<<5 | uint64(g)
	}
	return v
}

// signatureHash is SHA-256 over the prefix and the data before the signature,
// padded with zero bits to whole bytes.
func signatureHash(hrp string, groups []byte) ([32]byte, error) {
	data, err := bech32.ConvertBits(groups, 5, 8, true)
	if err != nil {
		return [32]byte{}, fmt.Errorf("%w: %w", ErrBech32, err)
	}
	return sha256Sum(append([]byte(hrp), data...)), nil
}
