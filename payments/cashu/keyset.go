package cashu

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// Bounds of a keyset.
const (
	maxKeys    = 64
	maxSats    = 1 << 43 // 87,960 bitcoin: in msats this is still exact in a float64
	maxFeePPK  = 100_000 // 100 sats a note; a higher fee is not plausible
	maxKeysets = 100
)

// keyset is a set of a mint's keys, one for each amount in sats (NUT-01, NUT-02).
type keyset struct {
	id     string
	active bool
	feePPK int64 // thousandths of a sat for each spent note
	expiry int64 // unix seconds after which the mint does not redeem its notes; 0: none
	keys   map[int64]*btcec.PublicKey
}

// parseKeyset checks that the id is derived from the keys, so that a mint cannot
// show each user other keys under one id. k has the fields of the mint's list.
func parseKeyset(k keyset, keys map[string]string) (*keyset, error) {
	if len(keys) == 0 || len(keys) > maxKeys || k.feePPK < 0 || k.feePPK > maxFeePPK || k.expiry < 0 {
		return nil, fmt.Errorf("%w: %d keys at a fee of %d until %d", ErrKeyset, len(keys), k.feePPK, k.expiry)
	}
	k.keys = map[int64]*btcec.PublicKey{}

	for text, key := range keys {
		sats, err := strconv.ParseUint(text, 10, 64)
		if err != nil || sats == 0 || strconv.FormatUint(sats, 10) != text {
			return nil, fmt.Errorf("%w: a key for %q sats", ErrKeyset, text)
		}
		p, err := parsePoint(key)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKeyset, err)
		}
		// Common mints have amounts up to 2^63, and the id covers all of them.
		k.keys[int64(sats)] = p
	}

	if got := k.deriveID(k.id[:2]); got != k.id {
		return nil, fmt.Errorf("%w: the keys of %q have the id %s", ErrKeyset, printable(k.id), got)
	}
	maps.DeleteFunc(k.keys, func(sats int64, _ *btcec.PublicKey) bool { return sats < 0 || sats > maxSats })
	return &k, nil
}

// Versions of keyset ids (NUT-02) and their prefix. The first covers only the keys,
// the second also the fee and the expiry, so that a mint cannot change these later.
const (
	version0 = "00"
	version1 = "01"
)

// isKeysetID reports whether an id has a known version and the form that mints use.
func isKeysetID(id string) bool {
	for version, digits := range map[string]int{version0: 16, version1: 66} {
		if strings.HasPrefix(id, version) && len(id) == digits {
			return strings.Trim(id, "0123456789abcdef") == ""
		}
	}
	return false
}

// deriveID derives the id of the keys as in NUT-02, in the given version.
func (k *keyset) deriveID(version string) string {
	amounts := slices.SortedFunc(maps.Keys(k.keys), func(a, b int64) int { return cmp.Compare(uint64(a), uint64(b)) })
	h := sha256.New()
	if version == version0 { // seven bytes of the hash of all keys
		for _, sats := range amounts {
			h.Write(k.keys[sats].SerializeCompressed())
		}
		return version0 + hex.EncodeToString(h.Sum(nil))[:14]
	}

	for i, sats := range amounts {
		if i > 0 {
			io.WriteString(h, ",") // writing to a hash never fails
		}
		fmt.Fprintf(h, "%d:%s", uint64(sats), pointText(k.keys[sats]))
	}

	fmt.Fprintf(h, "|unit:%s", unit)
	if k.feePPK != 0 {
		fmt.Fprintf(h, "|input_fee_ppk:%d", k.feePPK)
	}
	if k.expiry != 0 {
		fmt.Fprintf(h, "|final_expiry:%d", k.expiry)
	}
	return version1 + hex.EncodeToString(h.Sum(nil))
}

// lasts reports whether the mint still redeems the keyset's notes at a time.
func (k *keyset) lasts(until time.Time) bool { return k.expiry == 0 || until.Unix() < k.expiry }

// split returns amounts of the keyset that add up to sats, largest first.
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

// feeSats is the mint's fee in sats for spending notes whose fees add up to ppk.
func feeSats(ppk int64) int64 { return (ppk + 999) / 1000 }

// keysRefresh is how long the mint's list of keys is considered current.
const keysRefresh = time.Hour

// keys returns the mint's keysets, and fetches them if the list is older than age.
func (w *Wallet) keys(ctx context.Context, age time.Duration) (map[string]*keyset, error) {
	w.mu.Lock()
	list, fetchedAt := w.keysets, w.keysetsAt
	w.mu.Unlock()
	if list != nil && time.Since(fetchedAt) < age {
		return list, nil
	}
	list, err := w.mint.keysets(ctx)
	if len(list) == 0 {
		return nil, err
	}
	if err != nil {
		w.cfg.Log.Warn("some of the mint's keys are not usable", "mint", w.cfg.Mint, "err", err)
	}
	w.mu.Lock()
	w.keysets, w.keysetsAt = list, time.Now()
	w.mu.Unlock()
	return list, nil
}

// active returns the keyset for new notes.
func (w *Wallet) active(ctx context.Context) (*keyset, error) {
	k, err := w.cheapest(ctx)
	if err == nil {
		err = w.searchFirst(ctx, k)
	}
	return k, err
}

// cheapest returns the keyset with the lowest fee among those that outlast every
// lock. If two cost the same, it prefers the id that covers more.
func (w *Wallet) cheapest(ctx context.Context) (*keyset, error) {
	list, err := w.keys(ctx, keysRefresh)
	if err != nil {
		return nil, err
	}

	var best *keyset
	end := time.Now().Add(2 * maxLock)
	for _, k := range list {
		if k.active && k.lasts(end) && (best == nil || k.feePPK < best.feePPK || k.feePPK == best.feePPK && k.id > best.id) {
			best = k
		}
	}

	if best == nil {
		return nil, fmt.Errorf("%w: the mint has none active", ErrKeyset)
	}
	return best, nil
}

// Check asks the mint for everything that a wallet needs: keys that match their
// ids, locks (NUT-14), proofs (NUT-12), states with witnesses (NUT-07) and
// restoring (NUT-09).
func (w *Wallet) Check(ctx context.Context) error {
	if _, err := w.keys(ctx, 0); err != nil {
		return fmt.Errorf("check mint: %w", err)
	}
	if _, err := w.cheapest(ctx); err != nil {
		return fmt.Errorf("check mint: %w", err)
	}

	var info struct {
		Nuts map[string]any `json:"nuts"`
	}
	if err := w.mint.ask(ctx, http.MethodGet, "/v1/info", nil, &info); err != nil {
		return fmt.Errorf("check mint: %w", err)
	}

	for _, nut := range []string{"7", "9", "12", "14"} {
		entry, _ := info.Nuts[nut].(map[string]any)
		if supported, _ := entry["supported"].(bool); !supported {
			return fmt.Errorf("check mint: %w: it does not offer NUT-%s", payments.ErrUnsupported, nut)
		}
	}

	return nil
}

// inputFee is the mint's fee in sats for spending the notes. Notes of unknown
// keysets are refused.
func inputFee(list map[string]*keyset, notes []note) (int64, error) {
	var ppk int64
	for _, n := range notes {
		k, ok := list[n.Keyset]
		if !ok {
			return 0, fmt.Errorf("%w: %q", ErrKeyset, printable(n.Keyset))
		}
		ppk += k.feePPK
	}
	return feeSats(ppk), nil
}

// outputs makes new notes of the amounts, in ascending order. With a lock, the
// notes are for its payee.
func (w *Wallet) outputs(tx *sqlite.Tx, k *keyset, amounts []int64, l *lock) ([]output, error) {
	first, err := nextCounter(tx, k.id, len(amounts))
	if err != nil {
		return nil, err
	}

	out := make([]output, 0, len(amounts))
	for i := range amounts {
		secret, r, err := w.cfg.Seed.derive(k.id, first+uint32(i))
		if err == nil && l != nil {
			secret, err = l.noteSecret(secret)
		}
		if err != nil {
			return nil, err
		}
		o, err := newOutput(amounts[len(amounts)-1-i], k.id, secret, r)
		if err != nil {
			return nil, err
		}
		o.Locked = l != nil
		out = append(out, o)
	}

	return out, nil
}
