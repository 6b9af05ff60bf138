package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
)

type providerDebtsCmd struct {
	Retry    string `help:"Try again to pay the debt of this job, whose refund failed or that never had one." placeholder:"ID"`
	To       string `help:"With --retry: the invoice or Lightning address to pay, on the chain an address; left out, where the last attempt went, or the request said." placeholder:"INVOICE"`
	WriteOff string `help:"The debt of this job was settled by other means: what is left of it is no credit any more." placeholder:"ID"`
	Note     string `help:"With --write-off: how it was settled; the buyer is told." placeholder:"TEXT"`
	JSON     bool   `help:"Print JSON."`
}

// debtView is a debt as --json shows it.
type debtView struct {
	RequestID   string    `json:"request_id"`
	Buyer       string    `json:"buyer"`
	OwedMsats   int64     `json:"owed_msats"`
	Since       time.Time `json:"since"`
	RefundTo    string    `json:"refund_to,omitempty"`
	Refund      string    `json:"refund"` // none, open, succeeded or failed
	RefundMsats int64     `json:"refund_msats,omitempty"`
	FeeMsats    int64     `json:"refund_fee_msats,omitempty"`
	Sent        int       `json:"refund_sent,omitempty"` // how often the wallet was told
	PaymentHash string    `json:"refund_payment_hash,omitempty"`
	Preimage    string    `json:"refund_preimage,omitempty"`
	Outpoint    string    `json:"refund_outpoint,omitempty"` // on the chain, in place of the preimage
	Reason      string    `json:"refund_reason,omitempty"`
	// Attempts are all there were, the last too, where there was more than one.
	Attempts   []attemptView `json:"refund_attempts,omitempty"`
	WrittenOff int64         `json:"written_off_msats,omitempty"`
	Note       string        `json:"written_off_note,omitempty"`
	// CreditMsats is what the buyer can still use here, of all its debts.
	CreditMsats int64 `json:"buyer_credit_msats"`
}

func viewOfDebt(d provider.Debt) debtView {
	v := debtView{
		RequestID: d.RequestID, Buyer: d.Buyer, OwedMsats: d.Msats, Since: d.At, RefundTo: d.RefundTo,
		Refund: "none", CreditMsats: d.CreditMsats,
	}
	if d.WriteOff != nil {
		v.WrittenOff, v.Note = d.WriteOff.Msats, d.WriteOff.Note
	}
	r := d.Refund
	if r == nil {
		return v
	}
	if len(d.Attempts) > 1 {
		v.Attempts = viewsOfAttempts(d.Attempts)
	}
	v.Refund, v.RefundMsats, v.PaymentHash, v.Sent = "open", r.SentMsats(), r.PaymentHash.String(), r.Sent
	if r.End != nil {
		v.Refund, v.FeeMsats, v.Reason = string(r.End.State), r.End.FeeMsats, r.End.Reason
		v.Outpoint = r.End.Outpoints
		if r.End.State == payments.PaymentSucceeded && v.Outpoint == "" {
			v.Preimage = r.End.Preimage.String()
		}
	}

	return v
}

// what says in a line what became of the debt.
func (v debtView) what() string {
	if v.WrittenOff > 0 {
		return display.Msats(v.WrittenOff) + " settled otherwise: " + display.OneLine(v.Note)
	}

	switch v.Refund {
	case "open":
		if v.Sent > 1 {
			return display.Msats(v.RefundMsats) + " perhaps sent back: the wallet was told twice, and the outcome is not known"
		}
		return display.Msats(v.RefundMsats) + " on their way back"
	case string(payments.PaymentSucceeded):
		return strings.TrimSpace(display.Msats(v.RefundMsats) + " sent back, fee " + display.Msats(v.FeeMsats) + " " + v.Outpoint)
	case string(payments.PaymentFailed):
		if n := len(v.Attempts); n > 1 {
			return fmt.Sprintf("credit; %d refunds failed, the last: %s", n, display.OneLine(v.Reason))
		}
		return "credit; the refund failed: " + display.OneLine(v.Reason)
	}

	return "credit"
}

// Run lists what failed prepaid jobs left owing, or acts on one such debt.
func (c providerDebtsCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	switch {
	case c.Retry != "" && c.WriteOff != "":
		return advice.Usage("one debt, one word", "--retry and --write-off contradict each other")
	case c.To != "" && c.Retry == "":
		return advice.Usage("", "--to goes with --retry")
	case (c.Note != "") != (c.WriteOff != ""):
		return advice.Usage("for example --write-off ID --note 'paid by bank, 21 November'", "--write-off and --note go together")
	case c.Retry != "" || c.WriteOff != "":
		return c.act(ctx, s, g)
	}

	return readProvider(ctx, s, g, func(store *node.Sales) error {
		views := []debtView{}
		if store != nil {
			debts, err := store.Debts(ctx)
			if err != nil {
				return err
			}
			for _, d := range debts {
				views = append(views, viewOfDebt(d))
			}
		}

		if c.JSON {
			return app.PrintJSON(s.Out, views)
		}
		w := app.NewTable(s.Out, 1, 2, 4)
		fmt.Fprintln(w, "REQUEST\tSINCE\tBUYER\tOWED\tBUYER'S CREDIT\tWHAT BECAME OF IT")
		for _, v := range views {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", display.Short(v.RequestID), v.Since.Local().Format(time.DateTime), display.Short(v.Buyer),
				display.Msats(v.OwedMsats), display.Msats(v.CreditMsats), v.what())
		}

		if err := w.Flush(); err != nil {
			return err
		}

		for _, v := range views {
			if v.Refund == string(payments.PaymentFailed) && v.WrittenOff == 0 {
				fmt.Fprintln(s.Err, "lightwork:", g.Spell("lightwork provider debts --retry ID tries a refund again; --write-off ID --note TEXT says that it was settled otherwise"))
				break
			}
		}

		return nil
	})
}

// debtOf finds the debt of one job; nil if there is none.
func debtOf(ctx context.Context, store *node.Sales, requestID string) (*debtView, error) {
	d, err := store.DebtOf(ctx, requestID)
	if err != nil || d == nil {
		return nil, err
	}
	v := viewOfDebt(*d)
	return &v, nil
}
