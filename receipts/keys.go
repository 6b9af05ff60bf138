package receipts

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/btcsuite/btcd/btcutil/bech32"

	"github.com/lightwork-market/lightwork/internal/lowerbech32"
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

// ParseNpub reads a key in NIP-19 form. Only the one spelling that Npub writes
// is taken: lower case, and bech32, not bech32m. Errors wrap ErrInvalid.
func ParseNpub(s string) (hexKey string, err error) {
	if len(s) != npubLength {
		return "", fmt.Errorf("%w: an npub has %d characters", ErrInvalid, npubLength)
	}
	prefix, groups, ok := lowerbech32.Decode(s)
	if !ok {
		return "", badNpub(s)
	}
	key, err := bech32.ConvertBits(groups, 5, 8, false) // which wants zeros as padding
	if err != nil || len(key) != 32 || prefix != "npub" {
		return "", fmt.Errorf("%w: not an npub", ErrInvalid)
	}
	return hex.EncodeToString(key), nil
}

// badNpub tells a key in another spelling from what is none.
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

// checkKey wants an x-only key that is a point of the curve.
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

// hexDigits are the lower-case ones. Which digit comes next nobody can guess, a
// processor neither: comparing takes several times as long as looking it up.
var hexDigits = func() (table [256]bool) {
	for _, c := range []byte("0123456789abcdef") {
		table[c] = true
	}
	return table
}()

// mustHex decodes what isHex has accepted; anything else gives nil.
func mustHex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		return nil
	}
	return b
}

// quoted makes text from outside short and printable.
func quoted(s string) string {
	const most = 100
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.QuoteToASCII(s)
}
