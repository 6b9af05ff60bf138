package profile

import (
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/schemas"
)

// typed is the market's own profile: every payment has a quote, and every result names
// the job that it is of.
type typed struct{}

func (typed) Request(_ *schemas.Schema, req *schemas.Request) (*schemas.Request, nostr.Tags, error) {
	return req, nostr.Tags{
		{"param", "schema", string(req.SchemaID)}, {"i", string(req.Canonical), "text"}, {"output", "application/json"},
	}, nil
}

func (typed) Seals() bool { return true }

func (typed) Bare(nostr.Event) bool { return false }

func (typed) BareResult(nostr.Event) bool { return false }

// Unbound: nothing was promised in a quote, and nobody is paid for it.
func (typed) Unbound(p purchase.Purchase, ev nostr.Event) bool {
	return p.Quote == nil && p.Attempt == nil && Free(ev)
}

func (typed) AnyOutput(purchase.Purchase) bool { return false }

// Receipts: relays keep no order, so what a receipt is of may come after it.
func (typed) Receipts(c purchase.Charge) bool { return c.Quote != nil }

func (typed) EndsSilent() bool { return false }
