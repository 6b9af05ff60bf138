// Package profile says what may be taken from a provider: from one that speaks the
// market's own profile, or from one that knows NIP-90 alone, where the buyer allows it.
package profile

import (
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/schemas"
)

// Profile is what a provider is asked in, and what is taken from it.
type Profile interface {
	// Request makes the tags that carry a document, and reads what they say.
	Request(s *schemas.Schema, req *schemas.Request) (*schemas.Request, nostr.Tags, error)
	// Seals reports whether a result may be asked for in boxes that its payment opens.
	Seals() bool
	// Bare reports whether an event that asks for a payment may do so by its invoice
	// alone: no quote binds it to the job.
	Bare(ev nostr.Event) bool
	// BareResult reports whether a result brings such an invoice for itself.
	BareResult(ev nostr.Event) bool
	// Unbound reports whether a result may come without the hashes that bind it to the
	// job, the quote and the output.
	Unbound(p purchase.Purchase, ev nostr.Event) bool
	// AnyOutput reports whether an output is taken that is no result of the job type.
	AnyOutput(p purchase.Purchase) bool
	// Receipts reports whether a receipt of a charge can be judged now.
	Receipts(c purchase.Charge) bool
	// EndsSilent reports whether a purchase whose result is here is done once its
	// provider says no more: without a receipt, and unpaid if it asked for nothing.
	EndsSilent() bool
}

// Of is the profile that the provider of a purchase may speak.
func Of(p purchase.Purchase) Profile { return For(p.Plain) }

// For is the profile for an order: plain allows a provider that knows NIP-90 alone.
func For(plain bool) Profile {
	if plain {
		return nip90{}
	}
	return typed{}
}

// SignedHash is the hash of the output that a result event was signed with; nil if it
// names none and need not.
func SignedHash(of Profile, p purchase.Purchase, ev nostr.Event) *hashing.Digest {
	t := ev.Tags.Find("output_hash")
	if t == nil && of.Unbound(p, ev) {
		return nil
	}
	var d hashing.Digest
	if t != nil {
		d, _ = hashing.ParseDigest(t[1]) // another one is no output's
	}
	return &d
}

// Free reports whether a result event says that it costs nothing.
func Free(ev nostr.Event) bool {
	t := ev.Tags.Find("amount")
	return t == nil || t[1] == "0"
}
