package cashu

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// Token is a set of notes that were taken out of the wallet, as text (NUT-00,
// version 3) for any Cashu wallet. Whoever has the text has the money.
type Token struct {
	ID   int64
	At   time.Time
	Sats int64
	Text string
}

// Export takes sats out of the wallet and returns the token once the mint has made
// its notes. The mint's fee is added to the cost. If ctx ends before,
// [Wallet.Tokens] lists the token later.
func (w *Wallet) Export(ctx context.Context, sats int64) (t Token, err error) {
	if sats < 1 || sats > maxSats {
		return t, fmt.Errorf("export: %w: %d sats", payments.ErrAmount, sats)
	}
	if err := w.cfg.MaySpend.Ask(); err != nil {
		return t, fmt.Errorf("export: %w", err)
	}
	k, err := w.active(ctx)
	if err != nil {
		return t, fmt.Errorf("export: %w", err)
	}
	err = w.db.Update(ctx, func(tx *sqlite.Tx) error {
		t.ID, err = w.beginExport(tx, k, sats)
		return err
	})
	if err != nil {
		return t, fmt.Errorf("export: %w", err)
	}
	w.wake()

	err = w.await(ctx, func() (done bool, err error) {
		err = w.db.View(ctx, func(tx *sqlite.Tx) error {
			var state, failure string
			if err := tx.QueryRow(`SELECT state, failure FROM ops WHERE id = ?`, t.ID).Scan(&state, &failure); err != nil {
				return err
			}
			if state == "refused" {
				return fmt.Errorf("%w: %s", payments.ErrBadRequest, failure)
			}
			if done = state == "done"; done {
				t, err = selectToken(tx, t.ID)
			}
			return err
		})
		return done, err
	})
	return t, wrapError("export", err)
}

func (w *Wallet) beginExport(tx *sqlite.Tx, k *keyset, sats int64) (id int64, err error) {
	free, err := freeNotes(tx)
	if err != nil {
		return 0, err
	}

	w.mu.Lock()
	list := w.keysets
	w.mu.Unlock()
	p, err := planPayment(list, k, free, sats)
	if err != nil {
		return 0, err
	}
	o := op{kind: "export", inputs: p.inputs}
	out, err := w.outputs(tx, k, p.locked, nil)
	if err != nil {
		return 0, err
	}
	for i := range out {
		out[i].Locked = true // these notes belong to the receiver from now on
	}
	change, err := w.outputs(tx, k, p.change, nil)
	if err != nil {
		return 0, err
	}
	o.outputs = append(out, change...)
	if err := insertOp(tx, o); err != nil {
		return 0, err
	}
	err = tx.QueryRow(`SELECT max(id) FROM ops`).Scan(&id)
	return id, err
}

// keepToken writes the token in the transaction that removes its notes.
func keepToken(tx *sqlite.Tx, id int64, mint string, notes []note) error {
	type entry struct {
		Mint  string `json:"mint"`
		Notes []note `json:"proofs"`
	}
	doc, err := json.Marshal(map[string]any{"token": []entry{{payments.MintURL(mint), notes}}, "unit": unit})
	if err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE ops SET token = ? WHERE id = ?`, "cashuA"+base64.RawURLEncoding.EncodeToString(doc), id)
	return err
}

// Tokens lists the exported tokens, the oldest first. Only the mint knows which of
// them were redeemed.
func (w *Wallet) Tokens(ctx context.Context) (list []Token, err error) {
	err = w.db.View(ctx, func(tx *sqlite.Tx) error {
		rows, err := tx.Query(tokenColumns + `WHERE kind = 'export' AND state = 'done' ORDER BY id`)
		if err != nil {
			return err
		}

		for rows.Next() {
			t, err := scanToken(rows)
			if err != nil {
				return err
			}
			list = append(list, t)
		}
		return rows.Err()
	})
	return list, wrapError("list tokens", err)
}

const tokenColumns = `SELECT id, at_ms, outputs, token FROM ops `

func selectToken(tx *sqlite.Tx, id int64) (Token, error) {
	return scanToken(tx.QueryRow(tokenColumns+`WHERE id = ?`, id))
}

func scanToken(row scanner) (t Token, err error) {
	var at int64
	var outputs []output
	err = row.Scan(&t.ID, &at, jsonColumn{&outputs}, &t.Text)
	t.At = time.UnixMilli(at).UTC()
	for _, o := range outputs {
		if o.Locked {
			t.Sats += o.Amount
		}
	}
	return t, err
}
