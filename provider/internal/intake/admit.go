package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/provider/internal/charge"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// admit checks a request against what is on offer and returns the job with
// its quote and the typed request, or why not. It spends nothing and remembers
// only the load, which the caller gives back if the job is not stored. The job keeps
// the prices that it was quoted at, whatever becomes of them.
func (in *Intake) admit(ctx context.Context, ev nostr.Event, inputs []string) (job.Job, *schemas.Request, error) {
	list := in.cfg.Prices()
	req, offer, err := in.typed(ev, list)
	if err != nil {
		return job.Job{}, nil, err
	}
	if in.cfg.Withdrawn != nil && in.cfg.Withdrawn(offer.SchemaID) != "" { // why is the seller's affair
		return job.Job{}, nil, job.Refuse(job.CodeAgentUnavailable, "what does these jobs is down; ask again later, or another provider")
	}

	if in.cfg.Takes != nil {
		if err := in.cfg.Takes(offer.SchemaID, req.Canonical); err != nil {
			return job.Job{}, nil, job.Refuse(job.CodeInvalidInput, err.Error())
		}
	}

	terms, err := receipts.TermsOf(ev.Tags)
	if err != nil {
		return job.Job{}, nil, job.Refuse(job.CodeInvalidInput, err.Error())
	}
	mode, err := chooseMode(terms, offer)
	if err != nil {
		return job.Job{}, nil, err
	}
	if err := in.cfg.Trees(ctx, ev, req, mode); err != nil {
		return job.Job{}, nil, err
	}
	if err := votes(terms, req); err != nil {
		return job.Job{}, nil, err
	}
	if terms.Agreement == "commit" && in.cfg.Collector.ChoosesHash(mode) {
		return job.Job{}, nil, job.Refuse(job.CodeInvalidInput, "param agreement: commit needs sealed delivery, and this provider's wallet is paid for results in the clear only")
	}
	if err := in.cfg.Gate.IsFreeEnough(ev, mode); err != nil {
		return job.Job{}, nil, err
	}

	price, ok := offer.Table().For(req)
	if !ok {
		return job.Job{}, nil, job.Refuse(job.CodeOverResources, fmt.Sprintf("max_tokens: at most %d here", offer.MaxOutputTokens))
	}
	credit, fee := int64(0), int64(0)
	if mode == receipts.ModeFree {
		price = 0
	} else {
		price, credit = in.cfg.Collector.LessCredit(ctx, ev.PubKey, price)
		fee = offer.Table().Engagement(req, terms.Judged())
		if price < in.cfg.Limits.LeastMsats {
			return job.Job{}, nil, job.Refuse(job.CodePriceTooSmall, fmt.Sprintf(
				"the price is %d msats, and what carries payments to this provider carries no less than %d; ask for more in one job", price, in.cfg.Limits.LeastMsats))
		}
	}

	if terms.HasBid && price > terms.Bid-fee {
		text := fmt.Sprintf("the price is %d msats, the bid %d", price, terms.Bid)
		if fee > 0 {
			text = fmt.Sprintf("the price is %d msats and the engagement fee %d, the bid %d", price, fee, terms.Bid)
		}
		return job.Job{}, nil, job.Refuse(job.CodeBidTooLow, text)
	}

	ttl, err := in.cfg.Gate.Enter(ctx, ev.ID, ev.PubKey, mode, fee > 0)
	if err != nil {
		if !errors.As(err, new(*job.Refusal)) {
			in.log.Error("admit", "request", ev.ID, "err", err)
		}
		return job.Job{}, nil, err
	}
	ends, _ := expiration(ev) // what cannot be read is no request that is timely
	j, err := in.cfg.Collector.Quote(charge.Order{
		RequestID: ev.ID, Kind: ev.Kind, Buyer: ev.PubKey, Typed: req, Terms: terms, Mode: mode, Inputs: inputs, Ends: ends, TTL: ttl,
		PolicyID: list.PolicyID, PriceMsats: price, CreditMsats: credit, FeeMsats: fee,
	})
	if err != nil {
		in.cfg.Gate.Leave(ev.ID)
		in.log.Error("make quote", "request", ev.ID, "err", err)
		return job.Job{}, nil, err
	}
	return j, req, nil
}

// typed reads the typed request and checks that we sell and can run it.
func (in *Intake) typed(ev nostr.Event, list *job.PriceList) (*schemas.Request, job.Offer, error) {
	typed, err := in.typedOf(ev, list)
	if err != nil {
		return nil, job.Offer{}, err
	}
	s, ok := schemas.Lookup(typed.SchemaID)
	if !ok {
		return nil, job.Offer{}, job.Refuse(job.CodeUnsupportedSchema, notOnOffer)
	}
	offer, ok := list.Offer(string(s.ID))
	if !ok {
		return nil, job.Offer{}, job.Refuse(job.CodeUnsupportedSchema, notOnOffer)
	}
	req, err := s.ParseRequest(typed.Input)
	if err != nil {
		return nil, job.Offer{}, job.Refuse(job.CodeInvalidInput, err.Error())
	}
	if n := receipts.InputTokens(req); n > int64(in.cfg.Limits.ContextTokens) {
		return nil, job.Offer{}, job.Refuse(job.CodeOverResources, fmt.Sprintf("the request counts %d tokens (4 bytes each), at most %d are taken here", n, in.cfg.Limits.ContextTokens))
	}

	if sr, ok := req.Value.(*schemas.SandboxRunRequest); ok {
		if err := sr.CheckSource(in.cfg.Images.Fetches); err != nil {
			return nil, job.Offer{}, job.Refuse(job.CodeInvalidInput, err.Error())
		}
		if err := sr.CheckNetwork(in.cfg.Images.FullNetwork); err != nil {
			return nil, job.Offer{}, job.Refuse(job.CodeInvalidInput, err.Error())
		}
		if err := sr.CheckImage(in.cfg.Images.HostDigest, in.cfg.Images.Registered); err != nil {
			return nil, job.Offer{}, job.Refuse(job.CodeImageNotAvailable, err.Error())
		}

		r := sr.Sandbox.Resources
		if r.MemoryMB > in.cfg.Limits.MemoryMB || r.CPUs > in.cfg.Limits.CPUs {
			return nil, job.Offer{}, job.Refuse(job.CodeOverResources, fmt.Sprintf("at most %d MiB of memory and %g processors here", in.cfg.Limits.MemoryMB, in.cfg.Limits.CPUs))
		}
	}

	return req, offer, nil
}

// chooseMode takes the offer's first mode unless the request names another one
// that is on offer (param payment_mode).
func chooseMode(terms receipts.RequestTerms, o job.Offer) (receipts.Mode, error) {
	switch {
	case terms.Mode == "":
		return o.Modes[0], nil
	case slices.Contains(o.Modes, terms.Mode):
		return terms.Mode, nil
	}
	return "", job.Refuse(job.CodeInvalidInput, fmt.Sprintf("payment_mode: only %v on offer", o.Modes))
}

// votes refuses a seat of a panel whose document says something else, or that has
// one seat: who reveals to a panel of one tells the buyer what the result is, and
// is paid by nobody.
func votes(terms receipts.RequestTerms, req *schemas.Request) error {
	var want schemas.Adjudication
	switch terms.Agreement {
	case "commit":
		want = schemas.MajorityVote
	case "judge":
		want = schemas.JudgeModel
	case "merge":
		want = schemas.Merge
	default:
		return nil
	}

	if v := req.Verification(); v.Redundancy >= 2 && v.Adjudication == want {
		return nil
	}
	return job.Refuse(job.CodeInvalidInput, fmt.Sprintf("param agreement: needs verification.redundancy of 2 or more and adjudication %s", want))
}

// notOnOffer goes with CodeUnsupportedSchema.
const notOnOffer = "not on offer here; see the 31990 announcement"

// typedOf reads the job in a request. One that names no schema is what ordinary
// NIP-90 clients send with this kind: a text generation, if that is on offer.
func (in *Intake) typedOf(ev nostr.Event, list *job.PriceList) (receipts.TypedRequest, error) {
	if err := byAddress(ev.Tags); err != nil {
		return receipts.TypedRequest{}, err
	}
	typed, err := receipts.RequestOf(ev.Tags)
	if err == nil {
		return typed, nil
	}

	untyped, plain := receipts.UntypedOf(ev.Tags)
	_, sells := list.Offer(string(schemas.TextGeneration))
	sells = sells && ev.Kind == in.cfg.RequestKinds[0]
	switch {
	case openjob.NamesSchema(ev) && in.mayBeSold(ev):
		return receipts.TypedRequest{}, job.Refuse(job.CodeInvalidInput, err.Error()+"; name one job type as param schema, and send its document as one input of type text")
	case openjob.NamesSchema(ev):
		return receipts.TypedRequest{}, job.Refuse(job.CodeUnsupportedSchema, notOnOffer)
	case plain != nil && sells:
		return receipts.TypedRequest{}, job.Refuse(job.CodeInvalidInput, plain.Error())
	case !sells:
		return receipts.TypedRequest{}, job.Refuse(job.CodeUntypedJob, err.Error()+"; send one job type of the 31990 announcement as param schema, and its document as one input of type text")
	}

	return untyped, nil
}

// byAddress refuses inputs that are at an address: nobody makes us fetch what a
// stranger names.
func byAddress(tags nostr.Tags) error {
	for _, t := range tags {
		if len(t) >= 3 && t[0] == "i" && t[2] == "url" {
			return job.Refuse(job.CodeUnsupportedInput, "inputs of type url are not fetched here: send what is there, as an input of type text")
		}
	}
	return nil
}

// isElsewhere reports whether a tag is an input that another event has.
func isElsewhere(t nostr.Tag) bool {
	return len(t) >= 3 && t[0] == "i" && (t[2] == receipts.InputJob || t[2] == receipts.InputEvent)
}

// mayBeSold reports whether a request could be for something on offer, whatever
// its inputs say.
func (in *Intake) mayBeSold(ev nostr.Event) bool {
	return slices.ContainsFunc(in.cfg.Prices().Offers, func(o job.Offer) bool {
		if !openjob.NamesSchema(ev) {
			return ev.Kind == in.cfg.RequestKinds[0] && o.SchemaID == string(schemas.TextGeneration)
		}
		return slices.ContainsFunc(ev.Tags, func(t nostr.Tag) bool {
			s, known := schemas.Lookup(openjob.SchemaParam(t))
			return known && string(s.ID) == o.SchemaID
		})
	})
}
