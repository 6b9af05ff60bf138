package profile

import (
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// nip90 is for a provider that may know NIP-90 alone: its invoice is paid without a
// quote, and what it sends is taken without proof. As soon as it quotes, it is held to
// that as any other.
type nip90 struct{}

// Request sends a text generation as NIP-90 has it, untyped; the job is then what these
// tags say.
func (nip90) Request(s *schemas.Schema, req *schemas.Request) (*schemas.Request, nostr.Tags, error) {
	text, ok := req.Value.(*schemas.TextRequest)
	if !ok {
		return typed{}.Request(s, req)
	}

	var tags nostr.Tags
	for _, t := range receipts.UntypedTags(text) {
		tags = append(tags, t)
	}
	untyped, err := receipts.UntypedOf(tags)
	if err != nil {
		return nil, nil, err
	}
	req, err = s.ParseRequest(untyped.Input)
	return req, tags, err
}

func (nip90) Seals() bool { return false }

func (nip90) Bare(ev nostr.Event) bool { return !purchase.IsQuote(ev.Content) }

// BareResult: where there is a quote, it says what is paid.
func (nip90) BareResult(ev nostr.Event) bool {
	return len(ev.Tags.Find("amount")) >= 3 && ev.Tags.Find("quote_hash") == nil
}

func (nip90) Unbound(p purchase.Purchase, _ nostr.Event) bool { return p.Quote == nil }

// AnyOutput: a request that names a schema binds nobody who does not know it.
func (nip90) AnyOutput(p purchase.Purchase) bool { return p.Quote == nil }

func (nip90) Receipts(purchase.Charge) bool { return true }

func (nip90) EndsSilent() bool { return true }
