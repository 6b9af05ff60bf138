package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
)

type providerDebtsCmd struct {
	JSON bool `help:"Print JSON."`
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
	PaymentHash string    `json:"refund_payment_hash,omitempty"`
	Preimage    string    `json:"refund_preimage,omitempty"`
	Reason      string    `json:"refund_reason,omitempty"`
	// CreditMsats is what the buyer can still use here, of all its debts.
	CreditMsats int64 `json:"buyer_credit_msats"`
}

func viewOfDebt(d provider.Debt) debtView {
	v := debtView{
		RequestID: d.RequestID, Buyer: d.Buyer, OwedMsats: d.Msats, Since: d.At, RefundTo: d.RefundTo,
		Refund: "none", CreditMsats: d.CreditMsats,
	}
	r := d.Refund
	if r == nil {
		return v
	}
	v.Refund, v.RefundMsats, v.PaymentHash = "open", r.Msats, r.PaymentHash.String()
	if r.End != nil {
		v.Refund, v.FeeMsats, v.Reason = string(r.End.State), r.End.FeeMsats, r.End.Reason
		if r.End.State == payments.PaymentSucceeded {
			v.Preimage = r.End.Preimage.String()
		}
	}
	return v
}

// what says in a line what became of the debt.
func (v debtView) what() string {
	switch v.Refund {
	case "open":
		return msats(v.RefundMsats) + " on their way back"
	case string(payments.PaymentSucceeded):
		return msats(v.RefundMsats) + " sent back, fee " + msats(v.FeeMsats)
	case string(payments.PaymentFailed):
		return "credit; the refund failed: " + cut(v.Reason, 60)
	}
	return "credit"
}

// Run lists what failed prepaid jobs left owing.
func (c providerDebtsCmd) Run(ctx context.Context, s *streams, g *globals) error {
	return readProvider(ctx, s, g, func(store *kernel.ProviderStore) error {
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
			return printJSON(s.out, views)
		}
		w := tabwriter.NewWriter(s.out, 2, 8, 2, ' ', 0)
		fmt.Fprintln(w, "REQUEST\tSINCE\tBUYER\tOWED\tBUYER'S CREDIT\tWHAT BECAME OF IT")
		for _, v := range views {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", short(v.RequestID), v.Since.Local().Format(time.DateTime), short(v.Buyer),
				msats(v.OwedMsats), msats(v.CreditMsats), v.what())
		}
		return w.Flush()
	})
}

// debtOf finds the debt of one job; nil if there is none.
func debtOf(ctx context.Context, store *kernel.ProviderStore, requestID string) (*debtView, error) {
	debts, err := store.Debts(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range debts {
		if d.RequestID == requestID {
			v := viewOfDebt(d)
			return &v, nil
		}
	}
	return nil, nil
}

// EndRefund implements provider.Store and tells what became of a refund.
func (s tellingStore) EndRefund(ctx context.Context, id string, end provider.RefundEnd, out ...provider.OutEvent) error {
	err := s.Store.EndRefund(ctx, id, end, out...)
	switch {
	case err != nil:
	case end.State == payments.PaymentFailed:
		s.tell.say("refund of job %s failed, it is the buyer's credit now: %s", short(id), end.Reason)
	default:
		s.tell.say("job %s refunded, fee %s", short(id), msats(end.FeeMsats))
	}
	return err
}

// refundFeeMsats is what a refund may cost in routing fees unless configured.
const refundFeeMsats = 5000

// refundConfig says how failed prepaid jobs are paid back.
type refundConfig struct {
	CreditOnly  bool  `yaml:"credit_only"`
	MaxFeeMsats int64 `yaml:"max_fee_msats"`
}

// refunds is nil where debts become credit.
func (c *config) refunds(w wallet) *provider.Refunds {
	r := c.Provider.Refunds
	if r.CreditOnly || w == nil {
		return nil
	}
	fee := r.MaxFeeMsats
	if fee == 0 {
		fee = refundFeeMsats
	}
	return &provider.Refunds{Wallet: w, MaxFeeMsats: fee}
}
