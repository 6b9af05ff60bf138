package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/provider/internal/charge"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// admit checks a request against what is on offer and returns the job with
// its quote and the typed request, or why not. It spends nothing and remembers
// only the load, which the caller gives back if the job is not stored.
func (p *Provider) admit(ctx context.Context, ev nostr.Event, inputs []string) (Job, *schemas.Request, Reason) {
	req, offer, reason := p.typed(ev)
	if reason.Code != "" {
		return Job{}, nil, reason
	}
	if p.cfg.Withdrawn != nil && p.cfg.Withdrawn(offer.SchemaID) != "" { // why is the seller's affair
		return Job{}, nil, because(CodeAgentUnavailable, "what does these jobs is down; ask again later, or another provider")
	}

	if p.cfg.Takes != nil {
		if err := p.cfg.Takes(offer.SchemaID, req.Canonical); err != nil {
			return Job{}, nil, because(CodeInvalidInput, err.Error())
		}
	}

	terms, err := receipts.TermsOf(ev.Tags)
	if err != nil {
		return Job{}, nil, because(CodeInvalidInput, err.Error())
	}
	mode, reason := chooseMode(terms, offer)
	if reason.Code != "" {
		return Job{}, nil, reason
	}
	if reason := votes(terms, req); reason.Code != "" {
		return Job{}, nil, reason
	}
	if terms.Agreement == "commit" && p.collector.ChoosesHash(mode) {
		return Job{}, nil, because(CodeInvalidInput, "param agreement: commit needs sealed delivery, and this provider's wallet is paid for results in the clear only")
	}
	if err := p.gate.IsFreeEnough(ev, mode); err != nil {
		return Job{}, nil, reasonOf(err)
	}

	price, ok := offer.Table().For(req)
	if !ok {
		return Job{}, nil, because(CodeOverResources, fmt.Sprintf("max_tokens: at most %d here", offer.MaxOutputTokens))
	}
	credit, fee := int64(0), int64(0)
	if mode == receipts.ModeFree {
		price = 0
	} else {
		price, credit = p.collector.LessCredit(ctx, ev.PubKey, price)
		fee = offer.Table().Engagement(req, terms.Judged())
		if price < p.cfg.LeastMsats {
			return Job{}, nil, because(CodePriceTooSmall, fmt.Sprintf(
				"the price is %d msats, and what carries payments to this provider carries no less than %d; ask for more in one job", price, p.cfg.LeastMsats))
		}
	}

	if terms.HasBid && price > terms.Bid-fee {
		text := fmt.Sprintf("the price is %d msats, the bid %d", price, terms.Bid)
		if fee > 0 {
			text = fmt.Sprintf("the price is %d msats and the engagement fee %d, the bid %d", price, fee, terms.Bid)
		}
		return Job{}, nil, because(CodeBidTooLow, text)
	}

	ttl, err := p.gate.Enter(ctx, ev.ID, ev.PubKey, mode, fee > 0)
	if err != nil {
		if !errors.As(err, new(*job.Refusal)) {
			p.log.Error("admit", "request", ev.ID, "err", err)
		}
		return Job{}, nil, reasonOf(err)
	}
	ends, _ := expiration(ev)
	j, err := p.collector.Quote(charge.Order{
		RequestID: ev.ID, Kind: ev.Kind, Buyer: ev.PubKey, Typed: req, Terms: terms, Mode: mode, Inputs: inputs, Ends: ends, TTL: ttl,
		PriceMsats: price, CreditMsats: credit, FeeMsats: fee,
	})
	if err != nil {
		p.gate.Leave(ev.ID)
		p.log.Error("make quote", "request", ev.ID, "err", err)
		return Job{}, nil, because(CodeInternal, retryLater)
	}
	return j, req, Reason{}
}

// typed reads the typed request and checks that we sell and can run it.
func (p *Provider) typed(ev nostr.Event) (*schemas.Request, Offer, Reason) {
	typed, reason := p.typedOf(ev)
	if reason.Code != "" {
		return nil, Offer{}, reason
	}
	s, ok := schemas.Lookup(typed.SchemaID)
	i := slices.IndexFunc(p.cfg.Offers, func(o Offer) bool { return ok && o.SchemaID == string(s.ID) })
	if i < 0 {
		return nil, Offer{}, because(CodeUnsupportedSchema, notOnOffer)
	}
	req, err := s.ParseRequest(typed.Input)
	if err != nil {
		return nil, Offer{}, because(CodeInvalidInput, err.Error())
	}
	if n := receipts.InputTokens(req); n > int64(p.limits.ContextTokens) {
		return nil, Offer{}, because(CodeOverResources, fmt.Sprintf("the request counts %d tokens (4 bytes each), at most %d are taken here", n, p.limits.ContextTokens))
	}

	if sr, ok := req.Value.(*schemas.SandboxRunRequest); ok {
		if err := sr.CheckSource(p.cfg.Images.Fetches); err != nil {
			return nil, Offer{}, because(CodeInvalidInput, err.Error())
		}
		if err := sr.CheckNetwork(p.cfg.Images.FullNetwork); err != nil {
			return nil, Offer{}, because(CodeInvalidInput, err.Error())
		}
		if err := sr.CheckImage(p.cfg.Images.HostDigest, p.cfg.Images.Registered); err != nil {
			return nil, Offer{}, because(CodeImageNotAvailable, err.Error())
		}

		r := sr.Sandbox.Resources
		if r.MemoryMB > p.limits.MemoryMB || r.CPUs > p.limits.CPUs {
			return nil, Offer{}, because(CodeOverResources, fmt.Sprintf("at most %d MiB of memory and %g processors here", p.limits.MemoryMB, p.limits.CPUs))
		}
	}

	return req, p.cfg.Offers[i], Reason{}
}

// chooseMode takes the offer's first mode unless the request names another one
// that is on offer (param payment_mode).
func chooseMode(terms receipts.RequestTerms, o Offer) (receipts.Mode, Reason) {
	switch {
	case terms.Mode == "":
		return o.Modes[0], Reason{}
	case slices.Contains(o.Modes, terms.Mode):
		return terms.Mode, Reason{}
	}
	return "", because(CodeInvalidInput, fmt.Sprintf("payment_mode: only %v on offer", o.Modes))
}

// votes refuses a seat of a panel whose document says something else, or that has
// one seat: who reveals to a panel of one tells the buyer what the result is, and
// is paid by nobody.
func votes(terms receipts.RequestTerms, req *schemas.Request) Reason {
	var want schemas.Adjudication
	switch terms.Agreement {
	case "commit":
		want = schemas.MajorityVote
	case "judge":
		want = schemas.JudgeModel
	case "merge":
		want = schemas.Merge
	default:
		return Reason{}
	}

	if v := req.Verification(); v.Redundancy >= 2 && v.Adjudication == want {
		return Reason{}
	}
	return because(CodeInvalidInput, fmt.Sprintf("param agreement: needs verification.redundancy of 2 or more and adjudication %s", want))
}
