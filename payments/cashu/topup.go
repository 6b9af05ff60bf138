package cashu

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// Topup is an invoice of the mint: its payment fills the wallet.
type Topup struct {
	Quote   string    // the mint's id of the quote
	Invoice string    // BOLT 11, of the mint's own Lightning node
	Until   time.Time // when it expires; zero if the mint does not say
}

// quoteAnswer is the answer of NUT-04.
type quoteAnswer struct {
	Quote   string `json:"quote"`
	Request string `json:"request"`
	State   string `json:"state"`
	Expiry  int64  `json:"expiry"`
}

// topupKept is how long an unpaid invoice of the mint is polled.
const topupKept = 7 * 24 * time.Hour

// Topup asks the mint for an invoice over an amount. Once it is paid, Serve fetches
// the notes, also after a restart. Until it expires it counts towards MaxMsats,
// paid or not.
func (w *Wallet) Topup(ctx context.Context, sats int64) (t Topup, err error) {
	if sats < 1 || sats > maxSats {
		return t, fmt.Errorf("top up: %w: %d sats", payments.ErrAmount, sats)
	}
	if err := w.db.View(ctx, func(tx *sqlite.Tx) error { return w.checkCap(tx, sats*1000) }); err != nil {
		return t, fmt.Errorf("top up: %w", err)
	}

	k, err := w.active(ctx)
	if err != nil {
		return t, fmt.Errorf("top up: %w", err)
	}
	amounts, err := k.split(sats)
	if err != nil {
		return t, fmt.Errorf("top up: %w", err)
	}
	var answer quoteAnswer
	if err := w.mint.ask(ctx, http.MethodPost, "/v1/mint/quote/bolt11", map[string]any{"amount": sats, "unit": unit}, &answer); err != nil {
		return t, fmt.Errorf("top up: %w", err)
	}
	if answer.Quote == "" || len(answer.Quote) > 200 || len(answer.Request) > 4096 {
		return t, fmt.Errorf("top up: %w: no quote", ErrMint)
	}

	err = w.db.Update(ctx, func(tx *sqlite.Tx) error {
		// Another top-up may have started while the mint was asked.
		if err := w.checkCap(tx, sats*1000); err != nil {
			return err
		}
		o := op{kind: "topup", quote: answer.Quote, until: answer.expiry()}
		if o.outputs, err = w.outputs(tx, k, amounts, nil); err != nil {
			return err
		}
		return insertOp(tx, o)
	})
	if err != nil {
		return t, fmt.Errorf("top up: %w", err)
	}
	w.wake()
	t = Topup{Quote: answer.Quote, Invoice: invoiceText(answer.Request)}
	if answer.Expiry > 0 {
		t.Until = time.Unix(answer.Expiry, 0).UTC()
	}
	return t, nil
}

// expiry is when the mint's invoice can no longer be paid: the later one of the
// mint's and the invoice's own expiry; zero if there is neither.
func (a quoteAnswer) expiry() (end time.Time) {
	if a.Expiry > 0 {
		end = time.Unix(a.Expiry, 0)
	}
	if inv, err := bolt11.Decode(a.Request); err == nil && inv.ExpiresAt().After(end) {
		end = inv.ExpiresAt()
	}
	return end
}

// AwaitTopup waits until the notes are in the wallet. An error other than that of
// ctx means that they will not come.
func (w *Wallet) AwaitTopup(ctx context.Context, t Topup) error {
	err := w.await(ctx, func() (done bool, err error) {
		err = w.db.View(ctx, func(tx *sqlite.Tx) error {
			var state, failure string
			if err := tx.QueryRow(`SELECT state, failure FROM ops WHERE kind = 'topup' AND quote = ?`, t.Quote).Scan(&state, &failure); err != nil {
				return err
			}
			done = state == "done"
			if state == "refused" {
				return fmt.Errorf("%w: %s", payments.ErrInvoiceCanceled, failure)
			}
			return nil
		})
		return done, err
	})
	return wrapError("await top-up", err)
}

// checkTopup asks whether the mint's invoice was paid, so that the notes can be fetched.
func (e *engine) checkTopup(ctx context.Context, o op) (ready bool, err error) {
	var answer quoteAnswer
	if err := e.mint.ask(ctx, http.MethodGet, "/v1/mint/quote/bolt11/"+url.PathEscape(o.quote), nil, &answer); err != nil {
		return false, err
	}

	switch answer.State {
	case "PAID":
		return true, nil
	case "ISSUED":
		// The mint has issued our notes and its answer was lost, or it lies.
		done, err := e.resolve(ctx, o, fmt.Errorf("%w: it says that it has issued notes that it did not sign", ErrMint))
		if err == nil && !done {
			err = ErrMint
		}
		return false, err
	case "UNPAID":
		if time.Since(o.at) > topupKept {
			return false, e.fail(ctx, o, nil, fmt.Errorf("%w: nobody paid the mint's invoice", payments.ErrExpired))
		}
		return false, nil
	}

	return false, fmt.Errorf("%w: a quote that is %q", ErrMint, printable(answer.State))
}

// invoiceText returns s if it has only visible characters, as invoices do; else "".
func invoiceText(s string) string {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return ""
		}
	}
	return s
}
