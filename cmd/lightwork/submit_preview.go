package main

import (
	"context"
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

// affords says what would refuse the payment, if anything would: the maximum,
// which is the bid, or a budget.
func (b buyerSubmitCmd) affords(ctx context.Context, n *buyerNode, l buyer.Listing, document []byte) error {
	schema, _ := schemas.Lookup(b.Schema) // checked before
	req, err := schema.ParseRequest(document)
	if err != nil || modeFor(l, b.Schema, b.Mode) == receipts.ModeFree {
		return err
	}
	price, ok := l.Price(req)
	if !ok {
		price = b.MaxMsats
	}
	if price > b.MaxMsats {
		return hinted(fmt.Errorf("the announced price is %d msats, --max-msats %d", price, b.MaxMsats), "raise --max-msats; nothing was sent")
	}
	return overBudget(n.client.Affords(ctx, l.Provider, price, b.MaxMsats))
}

// overBudget is a refusal of a budget's with the next step.
func overBudget(err error) error {
	if err == nil {
		return nil
	}
	return hinted(err, firstText(budgetHint(err.Error()), "nothing was sent"))
}

func (b buyerSubmitCmd) preview(s *streams, l buyer.Listing, document []byte, rule buyer.ApprovalRule) error {
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
	if b.JSON {
		return printJSON(s.out, v)
	}
	seen := "all of it public"
	if b.Encrypt {
		seen = "encrypted"
	}
	fmt.Fprintf(s.out, "would ask   %s\njob         %s, %d bytes, %s\njob hash    %s\nbid         %s of at most %s\nrule        %s\npayee node  %s\nNothing was sent.\n",
		npub(v.Provider), v.Schema, v.RequestBytes, seen, v.JobHash, msats(v.BidMsats), msats(v.MaxMsats), v.rule(), v.Payee)
	return nil
}

func (v previewView) rule() string {
	if v.Asks {
		return v.Rule + ", which asks first"
	}
	return firstText(v.Rule, "none is needed")
}
