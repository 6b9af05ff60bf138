package buy

import (
	"cmp"
	"fmt"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
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

// overBudget is a refusal of a budget's with the next step.
func overBudget(err error) error {
	if err == nil {
		return nil
	}
	return advice.Hint(err, cmp.Or(budgetHint(err.Error()), "nothing was sent"))
}

func (b buyerSubmitCmd) preview(s *app.Streams, n *node.Buyer, x buyer.Candidate) error {
	req, err := n.Client.Document(x.Order)
	if err != nil {
		return advice.Usage("", "%w", err)
	}

	v := previewView{
		Provider: x.Provider, Schema: b.Schema, JobHash: req.JobHash.String(), RequestBytes: len(req.Canonical), BidMsats: min(x.PriceMsats, b.MaxMsats), MaxMsats: b.MaxMsats,
		Payee: x.Order.PayeeNode, Rule: x.Rule.ID, Asks: x.Rule.Do == buyer.Ask,
	}
	if x.Refusal != nil {
		v.OverBudget = x.Refusal.Error()
	}
	if b.JSON {
		return app.PrintJSON(s.Out, v)
	}
	seen := "all of it public"
	if b.Encrypt {
		seen = "encrypted"
	}
	fmt.Fprintf(s.Out, "would ask   %s\njob         %s, %d bytes, %s\njob hash    %s\nbid         %s of at most %s\nrule        %s\npayee node  %s\n",
		display.NPub(v.Provider), v.Schema, v.RequestBytes, seen, v.JobHash, display.Msats(v.BidMsats), display.Msats(v.MaxMsats), v.rule(), v.Payee)
	if v.OverBudget != "" {
		fmt.Fprintf(s.Out, "not paid    %s: buyer.max_msats_per_provider_and_day\n", v.OverBudget)
	}
	fmt.Fprintln(s.Out, "Nothing was sent.")
	return nil
}

func (v previewView) rule() string {
	if v.Asks {
		return v.Rule + ", which asks first"
	}
	return cmp.Or(v.Rule, "none is needed")
}
