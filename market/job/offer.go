package job

import (
	"slices"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// Offer is one job type on sale.
type Offer struct {
	SchemaID string
	// Modes the job is sold in; the first is the default.
	Modes []receipts.Mode
	// The price is a worst case, known before the run: receipts.Price.
	BaseMsats       int64
	PerMinuteMsats  int64
	InputMsats      int64 // 1000 tokens
	OutputMsats     int64 // 1000 tokens
	MaxOutputTokens int64 // the most a job may make
	EngagementMsats int64 // the fee for an attempt: receipts.Price
}

// Table is the offer's table of prices.
func (o Offer) Table() receipts.Price {
	return receipts.Price{
		BaseMsats: o.BaseMsats, PerMinuteMsats: o.PerMinuteMsats,
		InputMsats: o.InputMsats, OutputMsats: o.OutputMsats, MaxOutputTokens: o.MaxOutputTokens,
		EngagementMsats: o.EngagementMsats,
	}
}

// PriceList is what is sold and for how much, with the policy that says so. It is never
// changed: another price is another list.
type PriceList struct {
	Offers   []Offer
	Policy   []byte         // the manifest
	PolicyID hashing.Digest // of Policy
}

// Offer is the one of a job type.
func (l *PriceList) Offer(schemaID string) (o Offer, ok bool) {
	i := slices.IndexFunc(l.Offers, func(o Offer) bool { return o.SchemaID == schemaID })
	if i < 0 {
		return o, false
	}
	return l.Offers[i], true
}

// Images says which root file systems a sandbox job may name.
type Images struct {
	// Fetches says whether a repository would be fetched from an address; nil:
	// from none.
	Fetches func(address string) bool
	// FullNetwork says that jobs may have the network policy "full".
	FullNetwork bool
	HostDigest  string // digest of the host toolchain's manifest
	Confinement string // how firmly commands are confined, as announced; empty: not said
	Registered  func(digest string) bool
}
