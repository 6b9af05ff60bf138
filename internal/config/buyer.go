package config

import (
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// Approval is one rule; the first that fits a payment decides about it.
type Approval struct {
	ID        string               `yaml:"id"`
	UpToMsats int64                `yaml:"up_to_msats"`
	Schemas   []string             `yaml:"schemas"`
	Providers []string             `yaml:"providers"`
	Modes     []receipts.Mode      `yaml:"modes"`
	Do        buyer.ApprovalAction `yaml:"do"`
}

func (c *Config) checkApprovals() *Problem {
	ids := map[string]bool{}
	for i, a := range c.Buyer.Approvals {
		at := fmt.Sprintf("$.buyer.approvals[%d]", i)
		switch {
		case a.ID == "" || len(a.ID) > 64:
			return Mistake(at, "id is needed, of at most 64 bytes: it goes into the receipt")
		case ids[a.ID]:
			return Mistake(at+".id", "is the id of another rule too")
		case a.UpToMsats < 0 || payments.CheckMsats(a.UpToMsats) != nil:
			return Mistake(at+".up_to_msats", "must be an amount in msats; 0 is no limit")
		case !slices.Contains([]buyer.ApprovalAction{"", buyer.Approve, buyer.Ask, buyer.Refuse}, a.Do):
			return Mistake(at+".do", "must be approve, ask or refuse")
		}

		ids[a.ID] = true
		for j, s := range a.Schemas {
			if _, ok := schemas.Lookup(s); !ok {
				return Mistake(fmt.Sprintf("%s.schemas[%d]", at, j), "unknown job type; "+advice.ListSchemas+" shows them")
			}
		}

		for j, p := range a.Providers {
			if _, err := receipts.ParseKey(p); err != nil {
				return Mistake(fmt.Sprintf("%s.providers[%d]", at, j), "must be an npub1... or 64 hex digits")
			}
		}

		if bad := checkModes(at+".modes", a.Modes); bad != nil {
			return bad
		}
	}

	return nil
}

// Rules are the configured approvals; none where the order's maximum decides.
func (c *Config) Rules() []buyer.ApprovalRule {
	var rules []buyer.ApprovalRule
	for _, a := range c.Buyer.Approvals {
		r := buyer.ApprovalRule{ID: a.ID, UpToMsats: a.UpToMsats, Modes: a.Modes, Do: a.Do}
		if r.Do == "" {
			r.Do = buyer.Approve
		}
		for _, s := range a.Schemas {
			schema, _ := schemas.Lookup(s) // checked before
			r.Schemas = append(r.Schemas, string(schema.ID))
		}

		for _, p := range a.Providers {
			key, _ := receipts.ParseKey(p) // checked before
			r.Providers = append(r.Providers, key)
		}

		rules = append(rules, r)
	}

	return rules
}

// Buyer is what the buyer pays, how, and whom it asks before.
type Buyer struct {
	Wallet        Wallet `yaml:"wallet"`
	DayMsats      int64  `yaml:"max_msats_per_day"`
	ProviderMsats int64  `yaml:"max_msats_per_provider_and_day"`
	FeeMsats      int64  `yaml:"max_fee_msats"`
	// EngagementMsats is the most that is paid for an attempt; 0 pays none.
	EngagementMsats int64           `yaml:"max_engagement_msats"`
	Modes           []receipts.Mode `yaml:"modes"`
	// Approvals say what is paid without asking; none leaves it to --max-msats.
	Approvals []Approval `yaml:"approvals"`
	// Judge chooses among several providers' results; none is no judging.
	Judge Judge `yaml:"judge"`
}

// Judge names who judges results: an agent of the node's organism that
// thinks, so that every question to it is a message of the pipeline, in a thread and
// in the journal of its profile.
type Judge struct {
	Profile  string `yaml:"profile"`
	Listener string `yaml:"listener"`
}

func (c *Config) checkJudge() *Problem {
	j := c.Buyer.Judge
	switch {
	case j == Judge{}:
		return nil
	case j.Profile == "" || j.Listener == "":
		return Mistake("$.buyer.judge", "needs a profile and a listener of the organism")
	case c.Organism == "":
		return Mistake("$.buyer.judge", "needs an organism: the file that has the judge's listener")
	}
	return nil
}
