package cashu

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// Restored is the result of Restore.
type Restored struct {
	Notes       int   // new notes in the wallet
	Sats        int64 // their sum
	PendingSats int64 // of notes that the mint is processing; a later Restore finds them if they stay unspent
}

// Numbers of NUT-13's path are queried in batches. A keyset is complete after this
// many empty batches in a row.
const (
	restoreBatch = 100
	restoreGap   = 3
)

// Restore finds the unspent notes (NUT-07) that the mint has signed for our seed
// (NUT-13, NUT-09). So the loss of the wallet's file costs only the notes that are
// locked in payments at that moment. In a new file, exported tokens that were not
// redeemed come back too. Restore may be repeated at any time. ErrRestoreLimit
// means that the mint has more notes than one call handles; those found are kept.
// With a slow mint it takes minutes: after each answer it calls tell, unless that
// is nil, with the count of queried numbers and the results so far.
func (w *Wallet) Restore(ctx context.Context, tell func(queried int64, r Restored)) (r Restored, err error) {
	list, err := w.keys(ctx, 0)
	if err != nil {
		return r, fmt.Errorf("restore: %w", err)
	}
	used, err := w.usedNumbers(ctx)
	if err != nil {
		return r, fmt.Errorf("restore: %w", err)
	}

	search := restoreProgress{tell: tell, remaining: w.cfg.RestoreMost}
	for _, id := range slices.Sorted(maps.Keys(list)) {
		if err := w.restoreKeyset(ctx, list[id], used[id], restoreGap, &search); err != nil {
			return search.result, fmt.Errorf("restore: %w", err)
		}
	}

	w.wake()
	return search.result, nil
}

// restoreProgress is the progress of one search.
type restoreProgress struct {
	tell      func(queried int64, r Restored) // may be nil
	queried   int64                           // count of queried numbers
	remaining int                             // how many further numbers may be queried beyond those that the file knows
	result    Restored
}

// restoreKeyset searches for the notes of one keyset, of whose numbers the file has
// used some, until gap batches in a row are empty.
func (w *Wallet) restoreKeyset(ctx context.Context, k *keyset, used int64, gap int, s *restoreProgress) error {
	empty := 0
	for first := uint32(0); empty < gap; first += restoreBatch {
		if int64(first) >= used {
			s.remaining -= restoreBatch
		}
		if s.remaining < 0 {
			return fmt.Errorf("%w: %d numbers", ErrRestoreLimit, w.cfg.RestoreMost)
		}
		found, err := w.restoreBatch(ctx, k, first, &s.result)
		if err != nil {
			return err
		}
		if empty++; found {
			empty, gap = 0, restoreGap
		}
		if s.queried += restoreBatch; s.tell != nil {
			s.tell(s.queried, s.result)
		}
	}

	return w.db.Update(ctx, func(tx *sqlite.Tx) error {
		_, err := tx.Exec(`INSERT INTO counters (keyset, next) VALUES (?, 0) ON CONFLICT DO UPDATE SET searched = 1`, k.id)
		return err
	})
}

// searchFirst searches for notes of a keyset before this file makes its first ones.
// The seed may have been used before, by a lost file or by another wallet with the
// same words. A number can make a note only once, so the mint's answer about the
// old note would be mistaken for the answer to our request. Every wallet starts
// with the first numbers, so if these have made no notes, the seed is new.
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
	s := restoreProgress{remaining: w.cfg.RestoreMost}
	err = w.restoreKeyset(ctx, k, used[k.id], 1, &s)
	if s.result.Notes > 0 {
		w.cfg.Log.Warn("the mint has notes of this seed that the file did not know of: they are here now", "notes", s.result.Notes, "sats", s.result.Sats)
	}
	return wrapError("search for notes of before", err)
}

// restoreBatch searches for the notes of a batch of numbers. It stores the good
// ones in the transaction that advances the keyset's next number.
func (w *Wallet) restoreBatch(ctx context.Context, k *keyset, first uint32, r *Restored) (found bool, err error) {
	outputs := make([]output, restoreBatch)
	for i := range outputs {
		secret, factor, err := w.cfg.Seed.derive(k.id, first+uint32(i))
		if err != nil {
			return false, err
		}
		if outputs[i], err = newOutput(1, k.id, secret, factor); err != nil { // the mint fills in the amount
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

// usedNumbers returns the next number of each keyset in the file.
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

// keepRestored adds the notes to the wallet, except those that the file knows,
// whose state stays. Numbers after the last one may have been used for locked
// notes, so a batch of them is skipped.
func (w *Wallet) keepRestored(ctx context.Context, k *keyset, last uint32, notes []note, r *Restored) error {
	var fresh []note
	err := w.db.Update(ctx, func(tx *sqlite.Tx) error {
		_, err := tx.Exec(`INSERT INTO counters (keyset, next, searched) VALUES (?1, ?2, 0) ON CONFLICT DO UPDATE SET next = max(next, ?2)`,
			k.id, int64(last)+1+restoreBatch)
		if err != nil {
			return fmt.Errorf("reserve numbers: %w", err)
		}
		existing, err := existingSecrets(tx, notes)
		if err != nil {
			return err
		}
		fresh = slices.DeleteFunc(notes, func(n note) bool { return existing[n.Secret] })

		// The mint names the amounts and could claim any.
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

// existingSecrets returns which of the notes the file knows, as our own or as outputs
// of our requests, for example for a payee or a token.
func existingSecrets(tx *sqlite.Tx, notes []note) (map[string]bool, error) {
	secrets := make([]string, len(notes))
	for i, n := range notes {
		secrets[i] = n.Secret
	}
	doc, err := columnText(secrets)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(`SELECT secret FROM notes WHERE secret IN (SELECT value FROM json_each(?1))
		UNION SELECT json_extract(o.value, '$.secret') FROM ops, json_each(ops.outputs) AS o
		WHERE json_extract(o.value, '$.secret') IN (SELECT value FROM json_each(?1))`, doc)
	if err != nil {
		return nil, fmt.Errorf("look for notes: %w", err)
	}

	existing := map[string]bool{}
	for rows.Next() {
		var secret string
		if err := rows.Scan(&secret); err != nil {
			return nil, err
		}
		existing[secret] = true
	}

	return existing, rows.Err()
}
