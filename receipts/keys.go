package receipts

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/btcsuite/btcd/btcutil/bech32"

	"github.com/lightwork-market/lightwork/internal/lowerbech32"
	"github.com/lightwork-market/lightwork/internal/sigbatch"
)

// npubLength is the only length a 32-byte key has in NIP-19 form.
const npubLength = 63

// Npub writes an x-only key of 64 hex digits in NIP-19 form.
func Npub(hexKey string) (string, error) {
	if !isHex(hexKey, 64) {
		return "", fmt.Errorf("%w: a key is 64 lower-case hex digits", ErrInvalid)
	}
	s, err := bech32.EncodeFromBase256("npub", mustHex(hexKey))
	if err != nil {
		return "", fmt.Errorf("encode npub: %w", err)
	}
	return s, nil
}

// ParseNpub reads a key in NIP-19 form. It accepts only the spelling that [Npub] writes:
// lower case, with the checksum of bech32 and not of bech32m. Errors wrap [ErrInvalid].
func ParseNpub(s string) (hexKey string, err error) {
	if len(s) != npubLength {
		return "", fmt.Errorf("%w: an npub has %d characters", ErrInvalid, npubLength)
	}
	prefix, groups, ok := lowerbech32.Decode(s)
	if !ok {
		return "", badNpub(s)
	}
	key, err := bech32.ConvertBits(groups, 5, 8, false) // refuses padding other than zeros
	if err != nil || len(key) != 32 || prefix != "npub" {
		return "", fmt.Errorf("%w: not an npub", ErrInvalid)
	}
	return hex.EncodeToString(key), nil
}

// badNpub is the error for a text that is no npub, or one in another spelling.
func badNpub(s string) error {
	prefix, groups, _, err := bech32.DecodeGeneric(s)
	if err == nil && prefix == "npub" {
		if key, err := bech32.ConvertBits(groups, 5, 8, false); err == nil && len(key) == 32 {
			return fmt.Errorf("%w: not the one spelling of an npub", ErrInvalid)
		}
	}
	return fmt.Errorf("%w: not an npub", ErrInvalid)
}

// ParseKey reads an x-only key as npub or as 64 hex digits and returns the hex.
func ParseKey(s string) (hexKey string, err error) { return keyring{}.parse(s) }

// checkKey checks that hexKey is an x-only key on the curve.
func checkKey(field, hexKey string) error { return keyring{}.key(field, hexKey) }

func isHex(s string, length int) bool {
	if len(s) != length {
		return false
	}
	for i := range length {
		if !hexDigits[s[i]] {
			return false
		}
	}
	return true
}

// hexDigits are the lower-case digits. A table is several times as fast as comparisons,
// which a processor cannot predict for random digits.
var hexDigits = func() (table [256]bool) {
	for _, c := range []byte("0123456789abcdef") {
		table[c] = true
	}
	return table
}()

// mustHex decodes hex that isHex has accepted; anything else gives nil.
func mustHex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		return nil
	}
	return b
}

// quoted makes untrusted text short and printable.
func quoted(s string) string {
	const most = 100
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.QuoteToASCII(s)
}

// keyring remembers valid keys. The documents of a bundle name the same three keys
// again and again, and checking that a key is on the curve takes longer than reading a
// document. The zero value remembers nothing.
type keyring struct {
	good  map[string]string // npub or hex: hex
	batch *sigbatch.Batch   // knows the keys of earlier bundles; may be nil
}

func newKeyring(l *signatureBatch) keyring {
	k := keyring{good: map[string]string{}}
	if l != nil {
		k.batch = &l.signatures
	}
	return k
}

func (k keyring) valid(key sigbatch.Key) bool {
	if k.batch != nil {
		return k.batch.ValidKey(key)
	}
	return key.Valid()
}

// npub is ParseNpub.
func (k keyring) npub(s string) (hexKey string, err error) {
	if known, ok := k.good[s]; ok && len(s) == npubLength {
		return known, nil
	}
	if hexKey, err = ParseNpub(s); err == nil && k.good != nil {
		k.good[s] = hexKey
	}
	return hexKey, err
}

// key checks that hexKey is an x-only key on the curve.
func (k keyring) key(field, hexKey string) error {
	if !isHex(hexKey, 64) {
		return fmt.Errorf("%w: %s is not 64 lower-case hex digits", ErrInvalid, field)
	}
	if k.has(hexKey) {
		return nil
	}
	if !k.valid(sigbatch.Key(append([]byte{2}, mustHex(hexKey)...))) {
		return fmt.Errorf("%w: %s is not a public key", ErrInvalid, field)
	}
	k.add(hexKey)
	return nil
}

// node checks that hexKey is a compressed Lightning node key.
func (k keyring) node(field, hexKey string) error {
	if !isHex(hexKey, 66) {
		return fmt.Errorf("%w: %s is not 66 lower-case hex digits", ErrInvalid, field)
	}
	if k.has(hexKey) {
		return nil
	}
	if !k.valid(sigbatch.Key(mustHex(hexKey))) {
		return fmt.Errorf("%w: %s is not a node key", ErrInvalid, field)
	}
	k.add(hexKey)
	return nil
}

func (k keyring) has(hexKey string) bool {
	_, ok := k.good[hexKey]
	return ok
}

func (k keyring) add(hexKey string) {
	if k.good != nil {
		k.good[hexKey] = hexKey
	}
}

// parse is ParseKey.
func (k keyring) parse(s string) (hexKey string, err error) {
	if isHex(s, 64) {
		return s, k.key("key", s)
	}
	return k.npub(s)
}
