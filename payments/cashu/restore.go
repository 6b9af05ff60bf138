package cashu

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// Restored is what Restore found.
type Restored struct {
	Notes       int   // that are ours now and were not known here
	Sats        int64 // their sum
	PendingSats int64 // of notes that the mint is doing something with; later they are found, or spent
}

// Numbers of NUT-13's path are asked for in batches, and those of a keyset are
// all found when so many batches in a row are empty.
const (
	restoreBatch = 100
	restoreGap   = 3
)

// Restore finds the notes that the mint has signed for our seed (NUT-13, NUT-09)
// and that nobody has spent (NUT-07), so that a lost file costs what is locked to
// payments at that moment and no more. In a new file tokens that were taken out
// and that nobody has redeemed come back too. It may be called again at any time.
// ErrRestoreLimit: the mint has more than one call takes; what was found is kept.
// A slow mint takes minutes: tell, which may be nil, hears after each answer how
// many numbers were asked for, and what has been found.
func (w *Wallet) Restore(ctx context.Context, tell func(asked int64, r Restored)) (r Restored, err error) {
	list, err := w.keys(ctx, 0)
	if err != nil {
		return r, fmt.Errorf("restore: %w", err)
	}
	used, err := w.usedNumbers(ctx)
	if err != nil {
		return r, fmt.Errorf("restore: %w", err)
	}

	search := restoring{tell: tell, left: w.cfg.RestoreMost}
	for _, id := range slices.Sorted(maps.Keys(list)) {
		if err := w.restoreKeyset(ctx, list[id], used[id], restoreGap, &search); err != nil {
			return search.found, fmt.Errorf("restore: %w", err)
		}
	}

	w.wake()
	return search.found, nil
}

// restoring is how far one search has come.
type restoring struct {
	tell  func(asked int64, r Restored) // nil if nobody listens
	asked int64                         // for how many numbers
	left  int                           // how many more the file need not know of
	found Restored
}

// restoreKeyset looks for the notes of one keyset, of whose numbers the file has
// used some, until gap batches in a row are empty.
func (w *Wallet) restoreKeyset(ctx context.Context, k *keyset, used int64, gap int, s *restoring) error {
	empty := 0
	for first := uint32(0); empty < gap; first += restoreBatch {
		if int64(first) >= used {
			s.left -= restoreBatch
		}
		if s.left < 0 {
			return fmt.Errorf("%w: %d numbers", ErrRestoreLimit, w.cfg.RestoreMost)
		}
		found, err := w.restoreBatch(ctx, k, first, &s.found)
		if err != nil {
			return err
		}
		if empty++; found {
			empty, gap = 0, restoreGap
		}
		if s.asked += restoreBatch; s.tell != nil {
			s.tell(s.asked, s.found)
		}
	}

	return w.db.Update(ctx, func(tx *sqlite.Tx) error {
		_, err := tx.Exec(`INSERT INTO counters (keyset, next) VALUES (?, 0) ON CONFLICT DO UPDATE SET searched = 1`, k.id)
		return err
	})
}

// searchFirst looks for the notes of a keyset before this file first makes some.
// The seed may have been used elsewhere, by a file that is lost or by another
// wallet with the same words: a number that made a note makes no second one, and
// what the mint says of the first would be taken for the answer to our request.
// Every wallet's first numbers make notes of its own, so where they have made none
// the seed is new.
func (w *Wallet) searchFirst(ctx context.Context, k *keyset) error {
	var searched bool
	err := w.db.View(ctx, func(tx *sqlite.Tx) error {
		return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM counters WHERE keyset = ? AND searched = 1)`, k.id).Scan(&searched)
	})
	if err != nil || searched {
		return err
	}
	used, err := w.usedNumbers(ctx)
	if err != nil {
		return err
	}
	s := restoring{left: w.cfg.RestoreMost}
	err = w.restoreKeyset(ctx, k, used[k.id], 1, &s)
	if s.found.Notes > 0 {
		w.cfg.Log.Warn("the mint has notes of this seed that the file did not know of: they are here now", "notes", s.found.Notes, "sats", s.found.Sats)
	}
	return wrap("search for notes of before", err)
}

// restoreBatch looks for the notes of some numbers, and keeps those that are good
// in the transaction that moves the keyset's next number behind them.
func (w *Wallet) restoreBatch(ctx context.Context, k *keyset, first uint32, r *Restored) (found bool, err error) {
	outputs := make([]output, restoreBatch)
	for i := range outputs {
		secret, factor, err := w.cfg.Seed.derive(k.id, first+uint32(i))
		if err != nil {
			return false, err
		}
		if outputs[i], err = newOutput(1, k.id, secret, factor); err != nil { // the mint says the amount
			return false, err
		}
	}

	byB, err := w.mint.restoreSome(ctx, outputs)
	if err != nil {
		return false, err
	}

	var notes []note
	var last uint32
	for i, out := range outputs {
		sig, ok := byB[out.B]
		if !ok {
			continue
		}
		out.Amount = sig.Amount
		n, err := out.note(sig, k)
		if err != nil {
			return false, fmt.Errorf("note %d of %s: %w", first+uint32(i), k.id, err)
		}
		notes, last = append(notes, n), first+uint32(i)
	}

	if len(notes) == 0 {
		return false, nil
	}
	states, err := w.mint.states(ctx, notes)
	if err != nil {
		return false, err
	}

	var unspent []note
	for i, s := range states {
		switch s.State {
		case stateUnspent:
			unspent = append(unspent, notes[i])
		case statePending:
			r.PendingSats += notes[i].Amount
		}
	}

	if r.PendingSats > maxSats {
		return false, fmt.Errorf("%w: more than %d sats of notes are in use", ErrMint, int64(maxSats))
	}
	return true, w.keepRestored(ctx, k, last, unspent, r)
}

// usedNumbers are the next numbers of the keysets that the file knows of.
func (w *Wallet) usedNumbers(ctx context.Context) (next map[string]int64, err error) {
	err = w.db.View(ctx, func(tx *sqlite.Tx) error {
		next = map[string]int64{}
		rows, err := tx.Query(`SELECT keyset, next FROM counters`)
		if err != nil {
			return fmt.Errorf("read numbers: %w", err)
		}

		for rows.Next() {
			var id string
			var n int64
			if err := rows.Scan(&id, &n); err != nil {
				return err
			}
			next[id] = n
		}

		return rows.Err()
	})
	return next, err
}

// keepRestored makes the notes ours, but for those that the file knows of: they
// are where it says. The numbers behind the last one may have been used for notes
// that were locked, so a batch of them is left out.
func (w *Wallet) keepRestored(ctx context.Context, k *keyset, last uint32, notes []note, r *Restored) error {
	var fresh []note
	err := w.db.Update(ctx, func(tx *sqlite.Tx) error {
		_, err := tx.Exec(`INSERT INTO counters (keyset, next, searched) VALUES (?1, ?2, 0) ON CONFLICT DO UPDATE SET next = max(next, ?2)`,
			k.id, int64(last)+1+restoreBatch)
		if err != nil {
			return fmt.Errorf("reserve numbers: %w", err)
		}
		known, err := knownSecrets(tx, notes)
		if err != nil {
			return err
		}
		fresh = slices.DeleteFunc(notes, func(n note) bool { return known[n.Secret] })

		// The mint names the amounts, and signs any that costs it nothing.
		free, err := sumNotes(tx, "free")
		if err == nil && free+total(fresh) > maxSats {
			err = fmt.Errorf("%w: it says that it owes us more than %d sats", ErrMint, int64(maxSats))
		}
		if err != nil {
			return err
		}
		return insertNotes(tx, fresh)
	})
	if err == nil {
		r.Notes += len(fresh)
		r.Sats += total(fresh)
	}
	return err
}

// knownSecrets tells which of the notes are in the file, as ours or as what a
// request of ours made: for a payee, say, or for a token.
func knownSecrets(tx *sqlite.Tx, notes []note) (map[string]bool, error) {
	secrets := make([]string, len(notes))
	for i, n := range notes {
		secrets[i] = n.Secret
	}
	doc, err := text(secrets)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(`SELECT secret FROM notes WHERE secret IN (SELECT value FROM json_each(?1))
		UNION SELECT json_extract(o.value, '$.secret') FROM ops, json_each(ops.outputs) AS o
		WHERE json_extract(o.value, '$.secret') IN (SELECT value FROM json_each(?1))`, doc)
	if err != nil {
		return nil, fmt.Errorf("look for notes: %w", err)
	}

	known := map[string]bool{}
	for rows.Next() {
		var secret string
		if err := rows.Scan(&secret); err != nil {
			return nil, err
		}
		known[secret] = true
	}

	return known, rows.Err()
}
