package panel

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/adjudicate"
	"github.com/lightwork-market/lightwork/market/tree"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// membersMax is the most members of a panel: what a request may state as its redundancy.
const membersMax = 16

// commitMargin is what providers get beyond the job's own limit until their
// results no longer count: for quoting, for queueing, and for boxes to travel.
const commitMargin = 2 * time.Minute

// Order is what to buy from several providers.
type Order struct {
	SchemaID string
	Input    []byte // the request document
	// Tree is that of buyer.Order: each provider gets the files under a key of its own.
	Tree *tree.Summary
	// Members are the providers, each once. A listing that announces no price, or
	// only a key, is bid an equal part of MaxMsats.
	Members  []buyer.Listing
	Rule     Rule
	MaxMsats int64 // of all members together, routing fees included
	// Mode and Delivery are those of buyer.Order. RuleMajority needs sealed postpay,
	// and asks for it if they are left out.
	Mode     receipts.Mode
	Delivery receipts.Delivery
	// Encrypt is that of buyer.Order, for every member: each provider reads its own
	// request, and nobody else any.
	Encrypt bool
	TTL     time.Duration // the requests expire after this (1 h)
	// CommitTimeout is how long an answer counts (the job's limit and 2 min).
	CommitTimeout time.Duration
}

// Place signs a request to each provider and stores the panel. Nothing is
// sent: Follow does that, now or after a restart.
func (c *Client) Place(ctx context.Context, o Order) (Panel, error) {
	switch {
	case o.Rule == RuleMajority:
		def(&o.Mode, receipts.ModePostpay)
		def(&o.Delivery, receipts.DeliverySealed)
	case o.Rule.subjective():
		def(&o.Mode, receipts.ModePostpay)
		def(&o.Delivery, receipts.DeliveryPlain)
		o.Encrypt = true
	}

	if o.Rule == RuleJudge && c.cfg.Judge == nil {
		return Panel{}, ErrNoJudge
	}
	if err := o.check(); err != nil {
		return Panel{}, err
	}

	req, err := o.request()
	if err != nil {
		return Panel{}, err
	}
	parts, err := o.parts(req)
	if err != nil {
		return Panel{}, err
	}
	if err := c.buyer.AffordsDay(ctx, o.MaxMsats); err != nil {
		return Panel{}, err
	}

	def(&o.CommitTimeout, receipts.RunLimit(req)+commitMargin)
	now := time.Now().UTC()
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	p := Panel{
		ID: "panel_" + hex.EncodeToString(id[:]), SchemaID: string(req.SchemaID), JobHash: req.JobHash,
		Rule: o.Rule, MaxMsats: o.MaxMsats, Deadline: now.Add(o.CommitTimeout), AddedAt: now,
	}

	var more []nostr.Tag
	switch {
	case o.Rule == RuleMajority:
		more = append(more, nostr.Tag{"param", "agreement", "commit"})
	case o.Rule.subjective():
		more = append(more, nostr.Tag{"param", "agreement", string(o.Rule)})
	}

	var members []buyer.Purchase
	for i, l := range o.Members {
		member, err := c.buyer.Draft(ctx, buyer.Order{
			Provider: l.Provider, SchemaID: o.SchemaID, Input: req.Canonical, Tree: o.Tree, MaxMsats: parts[i],
			Announced: &l, Mode: o.Mode, Delivery: o.Delivery, PayeeNode: l.PayeeNode, TTL: o.TTL, Encrypt: o.Encrypt, Judged: o.Rule.subjective(),
		}, more...)
		if err != nil {
			return Panel{}, fmt.Errorf("member %d: %w", i+1, err)
		}
		if err := c.buyer.MayPay(member, o.Mode); err != nil && o.Mode != "" {
			return Panel{}, fmt.Errorf("member %d: %w", i+1, err) // before anybody works for nothing
		}

		members = append(members, member)
		p.Members = append(p.Members, Member{RequestID: member.RequestID, Provider: member.Provider})
	}

	if err := c.cfg.Store.AddPanel(ctx, p, members); err != nil {
		return Panel{}, fmt.Errorf("store panel: %w", err)
	}
	return p, nil
}

func (o Order) check() error {
	switch o.Rule {
	case RuleFirst:
	case RuleMajority:
		if o.Mode != receipts.ModePostpay || o.Delivery != receipts.DeliverySealed {
			return errors.New("a majority needs mode postpay and sealed delivery: results must be fixed before anybody sees or is paid for one")
		}
	case RuleJudge, RuleMerge:
		if o.Mode != receipts.ModePostpay || o.Delivery != receipts.DeliveryPlain {
			return fmt.Errorf("%s needs mode postpay and plain delivery: results are read before one is paid for", o.Rule)
		}
		if o.Rule == RuleMerge && !adjudicate.Merges(schemas.ID(o.SchemaID)) {
			return fmt.Errorf("%s: %w", o.SchemaID, adjudicate.ErrNoMerge)
		}
	default:
		return fmt.Errorf("unknown rule %q: first, majority, merge or judge", o.Rule)
	}

	if len(o.Members) < 2 || len(o.Members) > membersMax {
		return fmt.Errorf("a panel has 2 to %d providers, not %d", membersMax, len(o.Members))
	}

	for i, l := range o.Members {
		if !nostr.IsValidPublicKey(l.Provider) {
			return fmt.Errorf("provider %q is not a public key", l.Provider)
		}
		if slices.ContainsFunc(o.Members[:i], func(other buyer.Listing) bool { return other.Provider == l.Provider }) {
			return fmt.Errorf("provider %s is named twice: a second member of one key proves nothing", l.Provider)
		}
	}

	if err := payments.CheckMsats(o.MaxMsats); err != nil {
		return fmt.Errorf("maximum: %w", err)
	}
	return nil
}

// request reads the document and states in it how results become one, so that job_hash and with it every receipt commits to redundancy and adjudication.
func (o Order) request() (*schemas.Request, error) {
	s, ok := schemas.Lookup(o.SchemaID)
	if !ok {
		return nil, fmt.Errorf("%w %q", buyer.ErrJobType, o.SchemaID)
	}
	req, err := s.ParseRequest(o.Input)
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	adjudication := o.Rule.adjudication()
	if adjudication == "" {
		return req, nil
	}
	if o.Rule == RuleMajority && !s.Agrees() {
		return nil, fmt.Errorf("results of %s cannot be compared: they have no agreement hash", s.ID)
	}

	var doc, verification map[string]json.RawMessage
	if err := json.Unmarshal(req.Canonical, &doc); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(doc["verification"], &verification); err != nil {
		return nil, fmt.Errorf("request: verification: %w", err)
	}

	verification["redundancy"] = json.RawMessage(fmt.Sprint(len(o.Members)))
	verification["adjudication"] = json.RawMessage(`"` + string(adjudication) + `"`)
	if doc["verification"], err = json.Marshal(verification); err != nil {
		return nil, err
	}
	stated, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return s.ParseRequest(stated)
}

// parts divides the maximum over the members, so that all of them together can
// never take more. Where only one is paid, each may take it all; else each gets
// what its provider announces and an equal part of the rest, for fees.
func (o Order) parts(req *schemas.Request) ([]int64, error) {
	n := int64(len(o.Members))
	parts := make([]int64, n)
	if o.Rule == RuleFirst {
		for i := range parts {
			parts[i] = o.MaxMsats
		}
		return parts, nil
	}
	if o.Rule == RuleJudge {
		return o.chosen(req)
	}

	left, all := o.MaxMsats, true
	for i, l := range o.Members {
		price, ok := l.Price(req)
		if all = all && ok; ok {
			price += feeOf(l, req, o.Rule)
		}
		if parts[i] = price; price > left {
			return nil, fmt.Errorf("%w: %d providers together cost more than %d msats", ErrAboveMaximum, n, o.MaxMsats)
		}
		left -= price
	}

	for i := range parts {
		if !all {
			parts[i] = o.MaxMsats / n
			continue
		}
		parts[i] += left / n
	}

	return parts, nil
}

// Purchases reads purchases: a [buyer.Client] does, and a store that is open for
// reading only.
type Purchases interface {
	Purchase(ctx context.Context, requestID string) (buyer.Purchase, error)
}

// OrderOf is the order that a panel began with, to be placed again: the same
// document for the same providers. What they announced then is left out.
func OrderOf(ctx context.Context, purchases Purchases, p Panel) (Order, error) {
	o := Order{SchemaID: p.SchemaID, Rule: p.Rule, MaxMsats: p.MaxMsats}
	for i, member := range p.Members {
		bought, err := purchases.Purchase(ctx, member.RequestID)
		if err != nil {
			return o, err
		}
		one, err := buyer.OrderOf(bought)
		if err != nil {
			return o, err
		}
		if i == 0 {
			o.Input, o.Mode, o.Delivery, o.Encrypt = one.Input, one.Mode, one.Delivery, one.Encrypt
		}
		o.Members = append(o.Members, buyer.Listing{Provider: member.Provider, PayeeNode: bought.PayeeNode})
	}

	return o, nil
}
