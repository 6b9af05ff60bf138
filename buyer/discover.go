package buyer

import "github.com/lightwork-market/lightwork/buyer/internal/discover"

// Who sells what, and who of them is asked first.
type (
	// Listing is one provider's announcement, as far as we read it. All of it is
	// the provider's own claim.
	Listing = discover.Listing
	// Found is a provider that announces itself, with what else is known of it and
	// why it has its place in the list.
	Found = discover.Found
	// Scout looks for providers. It needs neither a wallet nor a store.
	Scout = discover.Scout
	// History is what our own store knows of a provider.
	History = discover.History
)
