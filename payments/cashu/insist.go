package cashu

import (
	"context"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// insists reports an op that a refusal does not end, because money is lost
// with it: what we have earned, until its lock ends, and what we have paid the
// mint for. Mints answer their own troubles with refusals too.
func (e *engine) insists(ctx context.Context, o op) (yes bool, err error) {
	switch o.kind {
	case "claim":
		err = e.db.View(ctx, func(tx *sqlite.Tx) error {
			row, err := selectInvoice(tx, o.hash)
			yes = time.Now().Before(row.lockedUntil)
			return err
		})
	case "topup":
		yes = time.Since(o.at) < topupKept
	}
	return yes, err
}

// renew asks for notes of the keys that the mint uses now, where it has
// retired those of a request that it refused and did not sign.
func (e *engine) renew(ctx context.Context, o op) error {
	if _, err := e.keys(ctx, 0); err != nil {
		return err
	}
	k, err := e.active(ctx)
	if err != nil || k.id == o.outputs[0].Keyset {
		return err
	}
	var sats int64
	for _, out := range o.outputs {
		sats += out.Amount
	}
	amounts, err := k.split(sats)
	if err != nil {
		return err
	}

	return e.db.Update(ctx, func(tx *sqlite.Tx) error {
		outputs, err := e.outputs(tx, k, amounts, nil)
		if err != nil {
			return err
		}
		doc, err := text(outputs)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE ops SET outputs = ?, unsure_ms = 0 WHERE id = ? AND state = 'open'`, doc, o.id)
		return err
	})
}
