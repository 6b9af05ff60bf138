// Package tapassets reads the addresses and asset ids of Taproot Assets, a rail
// that nothing is paid on yet: [Refuse] says so of whatever it is given.
//
// An address is a bech32m text with a stream of records (type, length, value),
// in ascending order of type. As everywhere in such streams, an unknown record
// of an even type must be understood, and one of an odd type may be passed over.
package tapassets

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcutil/bech32"

	"github.com/lightwork-market/lightwork/payments"
)

var (
	// ErrAddress: the text is no Taproot Assets address.
	ErrAddress = errors.New("not a Taproot Assets address")
	// ErrAssetID: the text is no asset id.
	ErrAssetID = errors.New("not a Taproot Assets asset id")
	// ErrNoBackend: nothing can be paid on this rail. It is a payments.ErrUnsupported.
	ErrNoBackend = fmt.Errorf("%w: payments in Taproot Assets have no backend here; nothing is sent or accepted", payments.ErrUnsupported)
)

// maxLength bounds an address, in characters: a few records and a URL.
const maxLength = 2048

// AssetID names one asset: the hash of its genesis. Its text form is 64
// lower-case hex digits.
type AssetID [32]byte

// ParseAssetID reads 64 lower-case hex digits that are not all zero.
func ParseAssetID(s string) (id AssetID, err error) {
	if len(s) != 2*len(id) || strings.ToLower(s) != s {
		return id, fmt.Errorf("%w: want 64 lower-case hex digits", ErrAssetID)
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil || id == (AssetID{}) {
		return AssetID{}, fmt.Errorf("%w: not hex, or all zero", ErrAssetID)
	}
	return id, nil
}

func (id AssetID) String() string { return hex.EncodeToString(id[:]) }

// Address asks for Amount units of one asset.
type Address struct {
	Network      payments.Network // testnet stands for signet too: they share a prefix
	Version      byte
	AssetVersion byte
	AssetID      AssetID
	GroupKey     string // compressed key in hex; "" if the asset has no group
	ScriptKey    string // likewise
	InternalKey  string
	Amount       uint64
	ProofCourier string // URL; "" if none is named
}

// prefixes are the human-readable parts.
var prefixes = map[string]payments.Network{
	"tapbc": payments.Mainnet, "taptb": payments.Testnet, "taprt": payments.Regtest, "tapsb": payments.Simnet,
}

// Types of records.
const (
	recordVersion      = 0
	recordAssetVersion = 2
	recordAssetID      = 4
	recordGroupKey     = 5
	recordScriptKey    = 6
	recordInternalKey  = 8
	recordSibling      = 9
	recordAmount       = 10
	recordCourier      = 12
)

// IsAddress reports whether the text claims to be such an address, by its prefix.
func IsAddress(s string) bool {
	hrp, _, ok := strings.Cut(strings.ToLower(s), "1")
	return ok && prefixes[hrp] != ""
}

// Parse reads an address. Errors wrap ErrAddress.
func Parse(s string) (Address, error) {
	a, err := parse(s)
	if err != nil {
		return Address{}, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	return a, nil
}

// Refuse is the answer to whoever wants to be paid at the address: the address's
// own fault if it has one, else ErrNoBackend with what was asked for.
func Refuse(s string) error {
	a, err := Parse(s)
	if err != nil {
		return err
	}
	return fmt.Errorf("%d units of asset %s on %s: %w", a.Amount, a.AssetID, a.Network, ErrNoBackend)
}

func parse(s string) (a Address, err error) {
	if len(s) > maxLength {
		return a, fmt.Errorf("longer than %d characters", maxLength)
	}

	hrp, groups, err := bech32.DecodeNoLimit(s)
	switch {
	case err != nil:
		return a, err
	case prefixes[hrp] == "":
		return a, fmt.Errorf("unknown prefix %q", hrp)
	}

	// The decoder takes both checksums and does not say which it found.
	if again, err := bech32.EncodeM(hrp, groups); err != nil || again != strings.ToLower(s) {
		return a, errors.New("bech32, not bech32m")
	}
	a.Network = prefixes[hrp]
	stream, err := bech32.ConvertBits(groups, 5, 8, false)
	if err != nil {
		return a, err
	}
	return a, a.readAll(stream)
}

// readAll reads the records and checks that those an address needs are there.
func (a *Address) readAll(stream []byte) error {
	seen := map[uint64]bool{}
	for last, first := uint64(0), true; len(stream) > 0; first = false {
		kind, rest, err := bigSize(stream)
		if err != nil {
			return err
		}

		length, rest, err := bigSize(rest)
		switch {
		case err != nil:
			return err
		case length > uint64(len(rest)):
			return fmt.Errorf("record %d is longer than the address", kind)
		case !first && kind <= last:
			return fmt.Errorf("record %d comes after record %d", kind, last)
		}

		if err := a.read(kind, rest[:length]); err != nil {
			return fmt.Errorf("record %d: %w", kind, err)
		}
		seen[kind], last, stream = true, kind, rest[length:]
	}

	for _, kind := range []uint64{recordVersion, recordAssetVersion, recordAssetID, recordScriptKey, recordInternalKey, recordAmount} {
		if !seen[kind] {
			return fmt.Errorf("record %d is missing", kind)
		}
	}
	return nil
}

func (a *Address) read(kind uint64, value []byte) (err error) {
	switch kind {
	case recordVersion:
		a.Version, err = oneByte(value)
		if err == nil && a.Version > 1 { // version 2 is another format
			err = fmt.Errorf("version %d is not known", a.Version)
		}
	case recordAssetVersion:
		a.AssetVersion, err = oneByte(value)
	case recordAssetID:
		a.AssetID, err = ParseAssetID(hex.EncodeToString(value))
	case recordGroupKey:
		a.GroupKey, err = key(value)
	case recordScriptKey:
		a.ScriptKey, err = key(value)
	case recordInternalKey:
		a.InternalKey, err = key(value)
	case recordAmount:
		var rest []byte
		a.Amount, rest, err = bigSize(value)
		if err == nil && (a.Amount == 0 || len(rest) > 0) {
			err = errors.New("no amount, or more than one")
		}
	case recordCourier:
		a.ProofCourier = string(value)
		if !strings.Contains(a.ProofCourier, "://") || strings.ContainsFunc(a.ProofCourier, func(r rune) bool { return r <= ' ' || r > '~' }) {
			err = errors.New("not a URL")
		}
	case recordSibling:
	default:
		if kind%2 == 0 {
			err = errors.New("not known, and must be")
		}
	}

	return err
}

func oneByte(value []byte) (byte, error) {
	if len(value) != 1 {
		return 0, fmt.Errorf("%d bytes, not 1", len(value))
	}
	return value[0], nil
}

func key(value []byte) (string, error) {
	if len(value) != btcec.PubKeyBytesLenCompressed {
		return "", fmt.Errorf("%d bytes, not a compressed key", len(value))
	}
	if _, err := btcec.ParsePubKey(value); err != nil {
		return "", err
	}
	return hex.EncodeToString(value), nil
}

// bigSize reads a number in its shortest form, and returns what follows it.
func bigSize(b []byte) (n uint64, rest []byte, err error) {
	cut := errors.New("cut off")
	if len(b) == 0 {
		return 0, nil, cut
	}

	size, least := 0, uint64(0)
	switch b[0] {
	case 0xfd:
		size, least = 2, 0xfd
	case 0xfe:
		size, least = 4, 1<<16
	case 0xff:
		size, least = 8, 1<<32
	default:
		return uint64(b[0]), b[1:], nil
	}

	if len(b) < 1+size {
		return 0, nil, cut
	}
	var wide [8]byte
	copy(wide[8-size:], b[1:1+size])
	if n = binary.BigEndian.Uint64(wide[:]); n < least {
		return 0, nil, errors.New("a number not in its shortest form")
	}
	return n, b[1+size:], nil
}
