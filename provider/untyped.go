package provider

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// typedOf reads the job in a request. One that names no schema is what ordinary
// NIP-90 clients send with this kind: a text generation, if that is on offer.
func (p *Provider) typedOf(ev nostrEvent) (receipts.TypedRequest, Reason) {
	if reason := fetched(ev.Tags); reason.Code != "" {
		return receipts.TypedRequest{}, reason
	}
	typed, err := receipts.RequestOf(ev.Tags)
	if err == nil {
		return typed, Reason{}
	}
	untyped, plain := receipts.UntypedOf(ev.Tags)
	sells := ev.Kind == p.kinds.Request && slices.ContainsFunc(p.cfg.Offers, func(o Offer) bool { return o.SchemaID == string(schemas.TextGeneration) })
	switch {
	case plain != nil && sells && !namesSchema(ev):
		return receipts.TypedRequest{}, Reason{CodeInvalidInput, plain.Error()}
	case plain != nil || !sells:
		return receipts.TypedRequest{}, Reason{CodeUntypedJob, err.Error()}
	}
	return untyped, Reason{}
}

// fetched refuses inputs that are somewhere else: the result of another job, an
// event, an address. None is looked up, so no request makes us ask anybody for
// anything, jobs form no chains or circles, and job_hash is of all that was asked.
func fetched(tags nostr.Tags) Reason {
	for _, t := range tags {
		if len(t) >= 3 && t[0] == "i" && slices.Contains([]string{"job", "event", "url"}, t[2]) {
			return Reason{CodeUnsupportedInput, fmt.Sprintf("inputs of type %s are not fetched here: send what it says, as an input of type text", t[2])}
		}
	}
	return Reason{}
}

func namesSchema(ev nostrEvent) bool {
	return slices.ContainsFunc(ev.Tags, func(t nostrTag) bool {
		return len(t) >= 3 && t[0] == "param" && (t[1] == "schema" || t[1] == "schema_id" || t[1] == "job_type")
	})
}

// wordsOf is what an untyped request is answered with: the text of the result.
func wordsOf(req nostrEvent, output []byte) (text string, ok bool) {
	if _, err := receipts.RequestOf(req.Tags); err == nil {
		return "", false
	}
	var r schemas.TextResult
	if json.Unmarshal(output, &r) != nil {
		return "", false
	}
	return r.Text, true
}
