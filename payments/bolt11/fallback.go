package bolt11

import (
	"fmt"

	"github.com/btcsuite/btcd/btcutil/bech32"

	"github.com/lightwork-market/lightwork/payments"
)

// segwitHRP are the prefixes of segwit addresses (BIP 173).
var segwitHRP = map[payments.Network]string{
	payments.Mainnet: "bc", payments.Testnet: "tb", payments.Signet: "tb", payments.Regtest: "bcrt", payments.Simnet: "sb",
}

// Address is the fallback as an address of the network. Only segwit fallbacks are
// supported; the error for others, and for networks without a chain, is [ErrField].
func (f Fallback) Address(network payments.Network) (string, error) {
	hrp, ok := segwitHRP[network]
	if err := f.check(); err != nil || !ok || f.Version > 16 {
		return "", fmt.Errorf("%w: a fallback of version %d is no segwit address of %s", ErrField, f.Version, network)
	}
	groups, err := bech32.ConvertBits(f.Program, 8, 5, true)
	if err != nil {
		return "", err
	}
	groups = append([]byte{f.Version}, groups...)
	if f.Version == 0 {
		return bech32.Encode(hrp, groups)
	}
	return bech32.EncodeM(hrp, groups)
}

// Script is the output script that pays the fallback, for segwit only.
func (f Fallback) Script() ([]byte, error) {
	if err := f.check(); err != nil || f.Version > 16 {
		return nil, fmt.Errorf("%w: a fallback of version %d is no segwit output", ErrField, f.Version)
	}
	op := byte(0)
	if f.Version > 0 {
		op = 0x50 + f.Version // OP_1 to OP_16
	}
	return append([]byte{op, byte(len(f.Program))}, f.Program...), nil
}

// ChainAddress is the one segwit address that the invoice names.
func (inv *Invoice) ChainAddress() (string, error) {
	if len(inv.Fallbacks) != 1 {
		return "", fmt.Errorf("%w: %d on-chain addresses, not one", ErrMissing, len(inv.Fallbacks))
	}
	return inv.Fallbacks[0].Address(inv.Network)
}

// maxAddress bounds a segwit address in bytes (BIP 173).
const maxAddress = 90

// ParseAddress reads a segwit address of the network. Only witness versions 0 and 1 are
// accepted: later ones are undefined, so anybody could spend money sent there. Errors
// wrap [ErrField].
func ParseAddress(text string, network payments.Network) (Fallback, error) {
	want, ok := segwitHRP[network]
	if !ok {
		return Fallback{}, fmt.Errorf("%w: %s has no addresses on a chain", ErrField, network)
	}
	if len(text) > maxAddress {
		return Fallback{}, fmt.Errorf("%w: an address of %d characters", ErrField, len(text))
	}

	hrp, groups, version, err := bech32.DecodeGeneric(text)
	switch {
	case err != nil:
		return Fallback{}, fmt.Errorf("%w: no segwit address: %w", ErrField, err)
	case hrp != want:
		return Fallback{}, fmt.Errorf("%w: the address begins with %s, those of %s with %s", ErrField, hrp, network, want)
	case len(groups) == 0 || groups[0] > 1:
		return Fallback{}, fmt.Errorf("%w: an address of another witness version than 0 and 1", ErrField)
	case (groups[0] == 0) != (version == bech32.Version0):
		return Fallback{}, fmt.Errorf("%w: the address has the checksum of another witness version", ErrField)
	}

	program, err := bech32.ConvertBits(groups[1:], 5, 8, false)
	if err != nil {
		return Fallback{}, fmt.Errorf("%w: address: %w", ErrField, err)
	}
	f := Fallback{Version: groups[0], Program: program}
	if err := f.check(); err != nil {
		return Fallback{}, fmt.Errorf("%w: address: %w", ErrField, err)
	}
	return f, nil
}
