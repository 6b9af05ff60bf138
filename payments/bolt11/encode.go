package bolt11

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/btcutil/bech32"
)

// Encode writes an invoice; [Decode] reads it back unchanged. sign gets the hash and
// returns a compact signature, as ecdsa.SignCompact makes it for a compressed key:
// 27+4+recovery id, R, S. If inv.Payee is set, the signature must be by that key; the
// key is not written, because readers recover it. Expiry and MinFinalCLTV of 0 stand for
// their defaults.
func Encode(inv *Invoice, sign func(hash [32]byte) (sig65 [65]byte, err error)) (string, error) {
	letters, metadata := inv.Network, inv.Metadata
	var err error
	if inv.Ecash != nil {
		if letters, metadata, err = writeEcash(inv); err != nil {
			return "", err
		}
	}

	if letters == cashuLetters && inv.Ecash == nil {
		return "", fmt.Errorf("%w: the terms of the mint", ErrMissing)
	}
	hrp, err := formatHRP(letters, inv.AmountMsats)
	if err != nil {
		return "", err
	}
	created := inv.CreatedAt.Unix()
	if created < 0 || created >= 1<<(5*timestampGroups) {
		return "", fmt.Errorf("%w: time %v does not fit", ErrField, inv.CreatedAt)
	}
	w := fieldWriter{groups: paddedGroups(uint64(created), timestampGroups)}
	if err := w.writeAll(inv, metadata); err != nil {
		return "", err
	}
	hash, err := signatureHash(hrp, w.groups)
	if err != nil {
		return "", err
	}
	sig, err := sign(hash)
	if err != nil {
		return "", fmt.Errorf("sign invoice: %w", err)
	}
	key, compressed, err := ecdsa.RecoverCompact(sig[:], hash[:])
	if err != nil || !compressed {
		return "", fmt.Errorf("%w: not a compact signature of a compressed key", ErrSignature)
	}
	if signer := hex.EncodeToString(key.SerializeCompressed()); inv.Payee != "" && inv.Payee != signer {
		return "", fmt.Errorf("%w: by %s in place of the payee %s", ErrSignature, signer, inv.Payee)
	}

	// On the wire the recovery id comes last.
	raw := append(slices.Clone(sig[1:]), sig[0]-27-4)
	groups, err := bech32.ConvertBits(raw, 8, 5, true)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrSignature, err)
	}
	out, err := bech32.Encode(hrp, append(w.groups, groups...))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrBech32, err)
	}
	if len(out) > MaxLength {
		return "", fmt.Errorf("%w: %d characters", ErrTooLong, len(out))
	}

	return out, nil
}

func sha256Sum(b []byte) [32]byte { return sha256.Sum256(b) }

// fieldWriter appends tagged fields; the first error stays.
type fieldWriter struct {
	groups []byte
	err    error
}

func (w *fieldWriter) writeAll(inv *Invoice, metadata []byte) error {
	w.bytes(fieldPaymentHash, inv.PaymentHash[:])
	w.bytes(fieldPaymentSecret, inv.PaymentSecret[:])
	if inv.DescriptionHash != nil {
		if inv.Description != "" {
			return fmt.Errorf("%w: both d and h describe the payment", ErrField)
		}
		w.bytes(fieldDescriptionHash, inv.DescriptionHash[:])
	} else {
		if !utf8.ValidString(inv.Description) {
			return fmt.Errorf("%w: the description is not UTF-8", ErrField)
		}
		w.bytes(fieldDescription, []byte(inv.Description))
	}

	if len(metadata) > 0 {
		w.bytes(fieldMetadata, metadata)
	}
	if inv.Expiry < 0 || inv.Expiry%time.Second != 0 {
		return fmt.Errorf("%w: expiry %v is not a whole number of seconds", ErrField, inv.Expiry)
	}
	if inv.Expiry != 0 && inv.Expiry != DefaultExpiry {
		w.field(fieldExpiry, minimalGroups(uint64(inv.Expiry/time.Second)))
	}
	if inv.MinFinalCLTV != 0 && inv.MinFinalCLTV != DefaultMinFinalCLTV {
		w.field(fieldMinFinalCLTV, minimalGroups(uint64(inv.MinFinalCLTV)))
	}
	for _, f := range inv.Fallbacks {
		w.fallback(f)
	}
	for _, hops := range inv.Routes {
		w.route(hops)
	}
	w.features(inv.Features)
	return w.err
}

func (w *fieldWriter) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("%w: "+format, append([]any{ErrField}, args...)...)
	}
}

func (w *fieldWriter) field(kind byte, groups []byte) {
	if len(groups) > maxFieldGroups {
		w.fail("type %d is too long", kind)
		return
	}
	w.groups = append(w.groups, kind, byte(len(groups)>>5), byte(len(groups)&31))
	w.groups = append(w.groups, groups...)
}

func (w *fieldWriter) bytes(kind byte, b []byte) {
	groups, err := bech32.ConvertBits(b, 8, 5, true)
	if err != nil {
		w.fail("type %d: %w", kind, err)
		return
	}
	w.field(kind, groups)
}

func (w *fieldWriter) fallback(f Fallback) {
	if err := f.check(); err != nil {
		w.fail("%w", err)
		return
	}
	groups, err := bech32.ConvertBits(f.Program, 8, 5, true)
	if err != nil {
		w.fail("fallback: %w", err)
		return
	}
	w.field(fieldFallback, append([]byte{f.Version}, groups...))
}

func (w *fieldWriter) route(hops []Hop) {
	var b []byte
	for _, hop := range hops {
		key, err := hex.DecodeString(hop.PubKey)
		if err == nil && len(key) == 33 {
			_, err = btcec.ParsePubKey(key)
		}
		if err != nil || len(key) != 33 {
			w.fail("a hop's key is no 33-byte public key")
			return
		}
		b = append(b, key...)
		b = binary.BigEndian.AppendUint64(b, hop.ShortChannelID)
		b = binary.BigEndian.AppendUint32(b, hop.FeeBaseMsats)
		b = binary.BigEndian.AppendUint32(b, hop.FeeMillionths)
		b = binary.BigEndian.AppendUint16(b, hop.CLTVDelta)
	}

	if len(b) == 0 {
		w.fail("a route without hops")
		return
	}
	w.bytes(fieldRoute, b)
}

// features writes nothing when no bit is set.
func (w *fieldWriter) features(bits []int) {
	if len(bits) == 0 {
		return
	}
	top := slices.Max(bits)
	if slices.Min(bits) < 0 || top >= maxFieldGroups*5 {
		w.fail("feature bit out of range")
		return
	}

	groups := make([]byte, top/5+1)
	for _, bit := range bits {
		if bit%2 == 0 && !knownFeature(bit) {
			w.fail("%w: bit %d", ErrFeature, bit)
			return
		}
		groups[len(groups)-1-bit/5] |= 1 << (bit % 5)
	}

	w.field(fieldFeatures, groups)
}

func paddedGroups(v uint64, n int) []byte {
	groups := make([]byte, n)
	for i := range groups {
		groups[n-1-i] = byte(v & 31)
		v >>= 5
	}
	return groups
}

func minimalGroups(v uint64) []byte {
	n := 1
	for v>>(5*n) != 0 {
		n++
	}
	return paddedGroups(v, n)
}
