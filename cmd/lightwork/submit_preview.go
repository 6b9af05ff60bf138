package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// previewView is what --dry-run says.
type previewView struct {
	Provider     string `json:"provider"` // x-only hex
	Schema       string `json:"schema_id"`
	JobHash      string `json:"job_hash"`
	RequestBytes int    `json:"request_bytes"`
	BidMsats     int64  `json:"bid_msats"` // the announced price, or the maximum where none is announced
	MaxMsats     int64  `json:"max_msats"`
	Payee        string `json:"payee_node,omitempty"`
	Rule         string `json:"approval_rule_id"` // what would approve the bid
	Asks         bool   `json:"asks_a_person"`
	OverBudget   string `json:"over_budget,omitempty"` // why a seat of a panel would not be paid
}

// rule is what would decide about paying the bid.
func (b buyerSubmitCmd) rule(n *buyerNode, l buyer.Listing, document []byte) (buyer.ApprovalRule, error) {
	schema, _ := schemas.Lookup(b.Schema) // checked before
	req, err := schema.ParseRequest(document)
	if err != nil {
		return buyer.ApprovalRule{}, usage("lightwork schemas show "+b.Schema+" tells its form", "%w", err)
	}
	mode := modeFor(l, b.Schema, b.Mode)
	if mode == receipts.ModeFree {
		return buyer.ApprovalRule{}, nil
	}
	a := buyer.Approval{Provider: l.Provider, SchemaID: string(schema.ID), Mode: mode, PriceMsats: b.MaxMsats}
	if price, ok := l.Price(req); ok {
		a.PriceMsats = min(price, b.MaxMsats)
	}
	return ruled(n, a)
}

// priced is what the provider announces for the job; not ok if it names no price,
// or sells it for nothing.
func (b buyerSubmitCmd) priced(l buyer.Listing, document []byte) (price int64, free, ok bool, err error) {
	schema, _ := schemas.Lookup(b.Schema) // checked before
	req, err := schema.ParseRequest(document)
	if err != nil || modeFor(l, b.Schema, b.Mode) == receipts.ModeFree {
		return 0, true, false, err
	}
	price, ok = l.Price(req)
	return price, false, ok, nil
}

// affords says what would refuse the payment, if anything would: the maximum,
// which is the bid, or a budget.
func (b buyerSubmitCmd) affords(ctx context.Context, n *buyerNode, l buyer.Listing, document []byte) error {
	price, free, ok, err := b.priced(l, document)
	if err != nil || free {
		return err
	}
	if !ok {
		price = b.MaxMsats
	}
	if price > b.MaxMsats {
		return hinted(fmt.Errorf("the announced price is %d msats, --max-msats %d", price, b.MaxMsats), "raise --max-msats; nothing was sent")
	}
	return overBudget(n.client.Affords(ctx, l.Provider, price, b.MaxMsats))
}

// hopeless refuses, before anything is sent, a job whose announced price no budget
// holds. Where none is announced, or it is above the maximum, the quote tells.
func (b buyerSubmitCmd) hopeless(ctx context.Context, n *buyerNode, l buyer.Listing, document []byte) error {
	price, _, ok, err := b.priced(l, document)
	if err != nil || !ok || price > b.MaxMsats {
		return err
	}
	return overBudget(n.client.Affords(ctx, l.Provider, price, b.MaxMsats))
}

// overOwn is why a seat of a panel would get nothing: what may go to its provider
// in one day does not hold the price. The others are paid.
func (b buyerSubmitCmd) overOwn(ctx context.Context, n *buyerNode, l buyer.Listing, document []byte) (over *buyer.BudgetError, err error) {
	price, _, ok, err := b.priced(l, document)
	if err != nil || !ok {
		return nil, err
	}
	err = n.client.Affords(ctx, l.Provider, price, price)
	if errors.As(err, &over) {
		err = nil
		if over.Limit != "provider" {
			over = nil
		}
	}
	return over, err
}

// overBudget is a refusal of a budget's with the next step.
func overBudget(err error) error {
	if err == nil {
		return nil
	}
	return hinted(err, firstText(budgetHint(err.Error()), "nothing was sent"))
}

func (b buyerSubmitCmd) preview(s *streams, l buyer.Listing, document []byte, rule buyer.ApprovalRule, over *buyer.BudgetError) error {
	schema, _ := schemas.Lookup(b.Schema) // checked before
	req, err := schema.ParseRequest(document)
	if err != nil {
		return usage("", "%w", err)
	}
	v := previewView{
		Provider: l.Provider, Schema: b.Schema, JobHash: req.JobHash.String(), RequestBytes: len(req.Canonical), BidMsats: b.MaxMsats, MaxMsats: b.MaxMsats,
		Payee: firstText(b.Payee, l.PayeeNode), Rule: rule.ID, Asks: rule.Do == buyer.Ask,
	}
	if price, ok := l.Price(req); ok {
		v.BidMsats = min(price, b.MaxMsats)
	}
	if over != nil {
		v.OverBudget = over.Error()
	}
	if b.JSON {
		return printJSON(s.out, v)
	}
	seen := "all of it public"
	if b.Encrypt {
		seen = "encrypted"
	}
	fmt.Fprintf(s.out, "would ask   %s\njob         %s, %d bytes, %s\njob hash    %s\nbid         %s of at most %s\nrule        %s\npayee node  %s\n",
		npub(v.Provider), v.Schema, v.RequestBytes, seen, v.JobHash, msats(v.BidMsats), msats(v.MaxMsats), v.rule(), v.Payee)
	if v.OverBudget != "" {
		fmt.Fprintf(s.out, "not paid    %s: buyer.max_msats_per_provider_and_day\n", v.OverBudget)
	}
	fmt.Fprintln(s.out, "Nothing was sent.")
	return nil
}

func (v previewView) rule() string {
	if v.Asks {
		return v.Rule + ", which asks first"
	}
	return firstText(v.Rule, "none is needed")
}
