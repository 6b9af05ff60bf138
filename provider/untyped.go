package provider

import (
	"slices"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// typedOf reads the job in a request. One that names no schema is what ordinary
// NIP-90 clients send with this kind: a text generation, if that is on offer.
func (p *Provider) typedOf(ev nostr.Event) (receipts.TypedRequest, Reason) {
	if reason := byAddress(ev.Tags); reason.Code != "" {
		return receipts.TypedRequest{}, reason
	}
	typed, err := receipts.RequestOf(ev.Tags)
	if err == nil {
		return typed, Reason{}
	}

	untyped, plain := receipts.UntypedOf(ev.Tags)
	sells := ev.Kind == p.kinds.Request && slices.ContainsFunc(p.cfg.Offers, func(o Offer) bool { return o.SchemaID == string(schemas.TextGeneration) })
	switch {
	case openjob.NamesSchema(ev) && p.mayBeSold(ev):
		return receipts.TypedRequest{}, because(CodeInvalidInput, err.Error()+"; name one job type as param schema, and send its document as one input of type text")
	case openjob.NamesSchema(ev):
		return receipts.TypedRequest{}, because(CodeUnsupportedSchema, notOnOffer)
	case plain != nil && sells:
		return receipts.TypedRequest{}, because(CodeInvalidInput, plain.Error())
	case !sells:
		return receipts.TypedRequest{}, because(CodeUntypedJob, err.Error()+"; send one job type of the 31990 announcement as param schema, and its document as one input of type text")
	}

	return untyped, Reason{}
}

// byAddress refuses inputs that are at an address: nobody makes us fetch what a
// stranger names.
func byAddress(tags nostr.Tags) Reason {
	for _, t := range tags {
		if len(t) >= 3 && t[0] == "i" && t[2] == "url" {
			return because(CodeUnsupportedInput, "inputs of type url are not fetched here: send what is there, as an input of type text")
		}
	}
	return Reason{}
}

// isElsewhere reports whether a tag is an input that another event has.
func isElsewhere(t nostr.Tag) bool {
	return len(t) >= 3 && t[0] == "i" && (t[2] == receipts.InputJob || t[2] == receipts.InputEvent)
}

// mayBeSold reports whether a request could be for something on offer, whatever
// its inputs say.
func (p *Provider) mayBeSold(ev nostr.Event) bool {
	return slices.ContainsFunc(p.cfg.Offers, func(o Offer) bool {
		if !openjob.NamesSchema(ev) {
			return ev.Kind == p.kinds.Request && o.SchemaID == string(schemas.TextGeneration)
		}
		return slices.ContainsFunc(ev.Tags, func(t nostr.Tag) bool {
			s, known := schemas.Lookup(openjob.SchemaParam(t))
			return known && string(s.ID) == o.SchemaID
		})
	})
}
