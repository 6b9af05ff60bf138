package cashu

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/btcsuite/btcd/btcec/v2"
)

// Bounds of a keyset.
const (
	maxKeys    = 64
	maxSats    = 1 << 43 // above all the bitcoin there are, and 1000 times it fits into msats
	maxFeePPK  = 100_000 // 100 sats a note: more is no fee
	maxKeysets = 100
)

// keyset is a mint's keys, one an amount in sats (NUT-01, NUT-02).
type keyset struct {
	id     string
	active bool
	feePPK int64 // thousandths of a sat for each note that is spent
	keys   map[int64]*btcec.PublicKey
}

// parseKeyset checks that the id is that of the keys, so that a mint cannot
// show each user keys of their own under one id.
func parseKeyset(id string, active bool, feePPK int64, keys map[string]string) (*keyset, error) {
	if len(keys) == 0 || len(keys) > maxKeys || feePPK < 0 || feePPK > maxFeePPK {
		return nil, fmt.Errorf("%w: %d keys at a fee of %d", ErrKeyset, len(keys), feePPK)
	}
	k := &keyset{id: id, active: active, feePPK: feePPK, keys: map[int64]*btcec.PublicKey{}}
	for text, key := range keys {
		sats, err := strconv.ParseUint(text, 10, 64)
		if err != nil || sats == 0 || strconv.FormatUint(sats, 10) != text {
			return nil, fmt.Errorf("%w: a key for %q sats", ErrKeyset, text)
		}
		p, err := parsePoint(key)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKeyset, err)
		}
		// Amounts go to 2^63 at common mints; the id covers them all.
		k.keys[int64(sats)] = p
	}
	if got := k.deriveID(); got != id {
		return nil, fmt.Errorf("%w: the keys of %q have the id %s", ErrKeyset, printable(id), got)
	}
	maps.DeleteFunc(k.keys, func(sats int64, _ *btcec.PublicKey) bool { return sats < 0 || sats > maxSats })
	return k, nil
}

// deriveID is NUT-02's first version: "00" and seven bytes of the hash of all
// keys by ascending amount.
func (k *keyset) deriveID() string {
	amounts := slices.SortedFunc(maps.Keys(k.keys), func(a, b int64) int {
		if uint64(a) < uint64(b) {
			return -1
		}
		return 1
	})
	h := sha256.New()
	for _, sats := range amounts {
		h.Write(k.keys[sats].SerializeCompressed())
	}
	return "00" + hex.EncodeToString(h.Sum(nil))[:14]
}

// split writes sats as a sum of the keyset's amounts, largest first.
func (k *keyset) split(sats int64) ([]int64, error) {
	amounts := slices.Sorted(maps.Keys(k.keys))
	var out []int64
	for _, a := range slices.Backward(amounts) {
		for sats >= a && len(out) < maxNotes {
			out = append(out, a)
			sats -= a
		}
	}
	if sats != 0 {
		return nil, fmt.Errorf("%w: %s has no amounts for the sum", ErrKeyset, k.id)
	}
	return out, nil
}

// feeSats is what the mint takes for spending notes of these rates.
func feeSats(ppk int64) int64 { return (ppk + 999) / 1000 }
