package cashu

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// meltAnswer is NUT-05's, as NUT-23 has it for Lightning invoices, with NUT-08's
// change.
type meltAnswer struct {
	Quote    string           `json:"quote"`
	Amount   int64            `json:"amount"`
	Reserve  int64            `json:"fee_reserve"`
	State    string           `json:"state"`
	Expiry   int64            `json:"expiry"`
	Preimage string           `json:"payment_preimage"`
	Change   []blindSignature `json:"change"`
}

const (
	meltUnpaid  = "UNPAID"
	meltPending = "PENDING"
	meltPaid    = "PAID"
)

const meltPath = "/v1/melt/bolt11"

func (m *mint) meltQuote(ctx context.Context, invoice string) (a meltAnswer, err error) {
	err = m.ask(ctx, http.MethodPost, "/v1/melt/quote/bolt11", map[string]string{"request": invoice, "unit": unit}, &a)
	return a, err
}

func (m *mint) meltState(ctx context.Context, quote string) (a meltAnswer, err error) {
	if err = m.ask(ctx, http.MethodGet, "/v1/melt/quote/bolt11/"+url.PathEscape(quote), nil, &a); err != nil {
		return a, err
	}
	return a, a.check()
}

// melt gives the notes for the invoice of the quote. Mints that can answer before
// the payment has ended are asked to: no connection lasts as long as a payment may.
func (m *mint) melt(ctx context.Context, quote string, inputs []note, blank []output) (a meltAnswer, err error) {
	question := struct {
		Quote   string           `json:"quote"`
		Inputs  []note           `json:"inputs"`
		Outputs []blindedMessage `json:"outputs,omitempty"`
		Async   bool             `json:"prefer_async"`
	}{quote, spendable(inputs), messages(blank), true}
	if err = m.ask(ctx, http.MethodPost, meltPath, question, &a); err != nil {
		return a, err
	}
	return a, a.check()
}

func (a meltAnswer) check() error {
	switch a.State {
	case meltUnpaid, meltPending, meltPaid:
		return nil
	}
	return fmt.Errorf("%w: a melt that is %q", ErrMint, printable(a.State))
}
