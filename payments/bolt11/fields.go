package bolt11

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcutil/bech32"

	"github.com/lightwork-market/lightwork/hashing"
)

// maxExpirySeconds is what time.Duration holds: 292 years.
const maxExpirySeconds = math.MaxInt64 / uint64(time.Second)

// fieldReader reads tagged fields into inv.
type fieldReader struct {
	inv   *Invoice
	payee *btcec.PublicKey // of the n field
	seen  [32]bool         // by type: a usable field of that type was read
}

// readAll reads the fields and checks that those an invoice needs are there.
func (f *fieldReader) readAll(groups []byte) error {
	for len(groups) > 0 {
		if len(groups) < 3 {
			return fmt.Errorf("%w: the last one is cut off", ErrField)
		}
		kind, length := groups[0], int(bigEndian(groups[1:3]))
		groups = groups[3:]
		if length > len(groups) {
			return fmt.Errorf("%w: type %d is longer than the data", ErrField, kind)
		}
		if err := f.read(kind, groups[:length]); err != nil {
			return err
		}

		groups = groups[length:]
	}

	switch {
	case !f.seen[fieldPaymentHash]:
		return fmt.Errorf("%w: p (payment hash)", ErrMissing)
	case !f.seen[fieldPaymentSecret]:
		return fmt.Errorf("%w: s (payment secret)", ErrMissing)
	case !f.seen[fieldDescription] && !f.seen[fieldDescriptionHash]:
		return fmt.Errorf("%w: d or h (description)", ErrMissing)
	case f.seen[fieldDescription] && f.seen[fieldDescriptionHash]:
		return fmt.Errorf("%w: both d and h describe the payment", ErrField)
	}

	return nil
}

// read reads one field. An unknown type is skipped, and so is the repetition
// of a field that counts once: the writer puts the preferred one first.
func (f *fieldReader) read(kind byte, groups []byte) error {
	repeats := kind == fieldRoute || kind == fieldFallback
	if f.seen[kind] && !repeats {
		return nil
	}
	used, err := f.readInto(kind, groups)
	if err != nil {
		return fmt.Errorf("%w: type %d: %w", ErrField, kind, err)
	}
	f.seen[kind] = used
	return nil
}

// readInto reports false for a field that is to be skipped.
func (f *fieldReader) readInto(kind byte, groups []byte) (used bool, err error) {
	inv := f.inv
	switch kind {
	case fieldPaymentHash:
		return read32(groups, (*[32]byte)(&inv.PaymentHash))
	case fieldPaymentSecret:
		return read32(groups, &inv.PaymentSecret)
	case fieldDescriptionHash:
		var digest hashing.Digest
		if used, err = read32(groups, (*[32]byte)(&digest)); used {
			inv.DescriptionHash = &digest
		}
		return used, err
	case fieldDescription:
		text, err := toBytes(groups)
		if err == nil && !utf8.Valid(text) {
			err = fmt.Errorf("not UTF-8")
		}
		inv.Description = string(text)
		return true, err
	case fieldMetadata:
		inv.Metadata, err = toBytes(groups)
		return true, err
	case fieldPayee:
		if len(groups) != pubKeyGroups {
			return false, nil
		}
		f.payee, err = readPubKey(groups)
		return true, err
	case fieldExpiry:
		seconds, err := readUint(groups, maxExpirySeconds)
		inv.Expiry = time.Duration(seconds) * time.Second
		return true, err
	case fieldMinFinalCLTV:
		blocks, err := readUint(groups, math.MaxUint32)
		inv.MinFinalCLTV = uint32(blocks)
		return true, err
	case fieldFeatures:
		inv.Features, err = readFeatures(groups)
		return true, err
	case fieldFallback:
		return f.readFallback(groups)
	case fieldRoute:
		hops, err := readRoute(groups)
		inv.Routes = append(inv.Routes, hops)
		return true, err
	}

	return false, nil
}

// toBytes refuses padding that is not zero or is a whole group.
func toBytes(groups []byte) ([]byte, error) { return bech32.ConvertBits(groups, 5, 8, false) }

// read32 skips a field of another length.
func read32(groups []byte, to *[32]byte) (bool, error) {
	if len(groups) != hashGroups {
		return false, nil
	}
	b, err := toBytes(groups)
	if err != nil {
		return false, err
	}
	copy(to[:], b)
	return true, nil
}

func readPubKey(groups []byte) (*btcec.PublicKey, error) {
	b, err := toBytes(groups)
	if err != nil {
		return nil, err
	}
	return btcec.ParsePubKey(b)
}

// readUint refuses zero, leading zeros and more than limit.
func readUint(groups []byte, limit uint64) (uint64, error) {
	if len(groups) == 0 || groups[0] == 0 {
		return 0, fmt.Errorf("zero or leading zeros")
	}
	if len(groups) > 12 || bigEndian(groups) > limit {
		return 0, fmt.Errorf("out of range")
	}
	return bigEndian(groups), nil
}

// readFeatures lists the bits that are set. Odd ones are optional.
func readFeatures(groups []byte) ([]int, error) {
	if len(groups) > 0 && groups[0] == 0 {
		return nil, fmt.Errorf("leading zeros")
	}

	var bits []int
	for bit := range len(groups) * 5 {
		if groups[len(groups)-1-bit/5]>>(bit%5)&1 == 0 {
			continue
		}
		if bit%2 == 0 && !knownFeature(bit) {
			return nil, fmt.Errorf("%w: bit %d", ErrFeature, bit)
		}
		bits = append(bits, bit)
	}
	return bits, nil
}

// readFallback skips versions that BOLT 11 does not define.
func (f *fieldReader) readFallback(groups []byte) (bool, error) {
	if len(groups) == 0 {
		return false, fmt.Errorf("no version")
	}
	version := groups[0]
	if version > 18 {
		return false, nil
	}
	program, err := toBytes(groups[1:])
	if err != nil {
		return false, err
	}
	fallback := Fallback{Version: version, Program: program}
	if err := fallback.check(); err != nil {
		return false, err
	}
	f.inv.Fallbacks = append(f.inv.Fallbacks, fallback)
	return true, nil
}

// check holds the program's length against its version.
func (f Fallback) check() error {
	n, ok := len(f.Program), false
	switch {
	case f.Version == 0:
		ok = n == 20 || n == 32
	case f.Version == 1:
		ok = n == 32
	case f.Version <= 16:
		ok = n >= 2 && n <= 40
	case f.Version <= 18:
		ok = n == 20
	}

	if !ok {
		return fmt.Errorf("version %d with a program of %d bytes", f.Version, n)
	}
	return nil
}

func readRoute(groups []byte) ([]Hop, error) {
	b, err := toBytes(groups)
	if err != nil {
		return nil, err
	}
	if len(b) == 0 || len(b)%hopBytes != 0 {
		return nil, fmt.Errorf("%d bytes are no whole number of hops", len(b))
	}

	var hops []Hop
	for ; len(b) > 0; b = b[hopBytes:] {
		if _, err := btcec.ParsePubKey(b[:33]); err != nil {
			return nil, err
		}
		hops = append(hops, Hop{
			PubKey:         hex.EncodeToString(b[:33]),
			ShortChannelID: binary.BigEndian.Uint64(b[33:]),
			FeeBaseMsats:   binary.BigEndian.Uint32(b[41:]),
			FeeMillionths:  binary.BigEndian.Uint32(b[45:]),
			CLTVDelta:      binary.BigEndian.Uint16(b[49:]),
		})
	}

	return hops, nil
}
