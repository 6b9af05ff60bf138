// Package kinds is the one table of the Nostr events of the market: which number
// an event has, which side signs it, and which domains its documents have.
// docs/protocol/protocol.md describes each.
package kinds

import (
	"slices"

	"github.com/lightwork-market/lightwork/domain"
)

// The kinds. 7001 to 7006 are ours, no NIP assigns them; a configuration may
// choose others for Request, Acceptance and Receipt.
const (
	Profile        = 0     // NIP-01
	Follows        = 3     // NIP-02
	Deletion       = 5     // NIP-09: a cancellation, or the end of what a provider announced
	GiftWrap       = 1059  // NIP-59: Cashu notes arrive in one
	Request        = 5050  // NIP-90: text generation, and every typed job
	Feedback       = 7000  // NIP-90
	Acceptance     = 7001  // the buyer agrees to a quote
	Receipt        = 7002  // the provider's, of one payment
	Closing        = 7003  // a panel is closed: its members reveal what they committed to
	NotTaken       = 7004  // the offers of an open request that its buyer did not take
	KeyChange      = 7005  // a key is used no more, or the next one agrees to follow
	Pruning        = 7006  // what a provider has pruned of a job; never published
	Ping           = 7007  // asks a provider whether it is alive
	RelayList      = 10002 // NIP-65
	Beat           = 11998 // a provider is alive
	RelayLogin     = 22242 // NIP-42
	BlobLogin      = 24242 // BUD-11
	Pointer        = 30078 // NIP-78: where a receipt's bundle is
	Recommendation = 31989 // NIP-89
	Announcement   = 31990 // NIP-89
)

// Kinds of requests and results are ranges of NIP-90: a result has the kind of
// its request plus ResultOffset.
const (
	FirstRequest = 5000
	LastRequest  = 5999
	ResultOffset = 1000
)

// An Event says of one kind who signs it and what its documents are.
type Event struct {
	Kind            int
	Buyer, Provider bool            // who signs it
	Domains         []domain.Domain // none where the NIP alone says what the event is
}

var table = []Event{
	{Kind: Profile, Provider: true},
	{Kind: Deletion, Buyer: true, Provider: true, Domains: []domain.Domain{domain.Deletion}},
	{Kind: Request, Buyer: true, Domains: []domain.Domain{domain.Request}},
	{Kind: Request + ResultOffset, Provider: true, Domains: []domain.Domain{domain.Result, domain.Encrypted}},
	{Kind: Feedback, Provider: true, Domains: []domain.Domain{domain.Quote, domain.Reveal, domain.Feedback, domain.Encrypted}},
	{Kind: Acceptance, Buyer: true, Domains: []domain.Domain{domain.Acceptance, domain.Encrypted}},
	{Kind: Receipt, Provider: true, Domains: []domain.Domain{domain.Receipt, domain.Encrypted}},
	{Kind: Closing, Buyer: true, Domains: []domain.Domain{domain.Closing, domain.Encrypted}},
	{Kind: NotTaken, Buyer: true, Domains: []domain.Domain{domain.NotTaken}},
	{Kind: KeyChange, Buyer: true, Provider: true, Domains: []domain.Domain{domain.KeyChange, domain.KeyAcceptance}},
	{Kind: Pruning, Provider: true, Domains: []domain.Domain{domain.Pruned}},
	{Kind: Ping, Buyer: true, Domains: []domain.Domain{domain.Ping}},
	{Kind: RelayList, Provider: true},
	{Kind: Beat, Provider: true, Domains: []domain.Domain{domain.Beat}},
	{Kind: RelayLogin, Buyer: true, Provider: true},
	{Kind: BlobLogin, Buyer: true, Provider: true},
	{Kind: Pointer, Buyer: true, Provider: true, Domains: []domain.Domain{domain.Pointer}},
	{Kind: Announcement, Provider: true, Domains: []domain.Domain{domain.Announcement}},
}

// Table lists the kinds that a node signs, in order.
func Table() []Event { return slices.Clone(table) }

// SignedByBuyer lists the kinds for which a buyer's key is needed.
func SignedByBuyer() []int { return signedBy(func(e Event) bool { return e.Buyer }) }

// SignedByProvider lists the kinds for which a provider's key is needed, without
// those that its configuration adds.
func SignedByProvider() []int { return signedBy(func(e Event) bool { return e.Provider }) }

func signedBy(side func(Event) bool) []int {
	var list []int
	for _, e := range Table() {
		if side(e) {
			list = append(list, e.Kind)
		}
	}
	return list
}
