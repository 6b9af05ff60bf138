package cashu

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// keysRefresh is how long the mint's list is taken for current.
const keysRefresh = time.Hour

// keys lists the mint's keysets, asking for them when they are older than age.
func (w *Wallet) keys(ctx context.Context, age time.Duration) (map[string]*keyset, error) {
	w.mu.Lock()
	list, asked := w.keysets, w.asked
	w.mu.Unlock()
	if list != nil && time.Since(asked) < age {
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
	w.keysets, w.asked = list, time.Now()
	w.mu.Unlock()
	return list, nil
}

// active is the keyset that new notes are made of.
func (w *Wallet) active(ctx context.Context) (*keyset, error) {
	k, err := w.cheapest(ctx)
	if err == nil {
		err = w.searchFirst(ctx, k)
	}
	return k, err
}

// cheapest is the keyset that costs least to spend of those that outlast every
// lock. Where two cost the same, the id that covers more.
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

// Check asks the mint what a wallet needs of it: keys that are what their ids
// say, locks (NUT-14), proofs (NUT-12), states with witnesses (NUT-07) and
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

// inputFee is what the mint takes for spending the notes, in sats. Notes of unknown keys are refused.
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

// outputs makes new notes of the amounts, in ascending order. With a lock they
// are for its payee.
func (w *Wallet) outputs(tx *sqlite.Tx, k *keyset, amounts []int64, l *lock) ([]output, error) {
	first, err := nextCounter(tx, k.id, len(amounts))
	if err != nil {
		return nil, err
	}

	out := make([]output, 0, len(amounts))
	for i := range amounts {
		secret, r, err := w.cfg.Seed.derive(k.id, first+uint32(i))
		if err == nil && l != nil {
			secret, err = l.secret(secret)
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
