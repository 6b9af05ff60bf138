// Package discover finds providers by what they announce, and says which is asked
// first.
package discover

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/market/tree"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

const (
	// announcementAge is how old an announcement may be and still count.
	announcementAge = 365 * 24 * time.Hour
	announcementMax = 64 << 10
	// announcementAhead is how far ahead of our clock one may be.
	announcementAhead = 5 * time.Minute
	// listingsPage is how many are asked for at a time, listingPages how often, and
	// listingsMost how many that count are enough.
	listingsPage = 500
	listingPages = 20
	listingsMost = 5000
	// announcedJobs and announcedModes bound what one announcement lists, and
	// announcedName the names in it, in bytes: all of them are shown.
	announcedJobs  = 64
	announcedModes = 8
	announcedName  = 100
	// announcedServers and announcedAddress bound the blob servers in it.
	announcedServers = 8
	announcedAddress = 300
	// listingsOfKey is how many announcements of one key count, the newest: a key may
	// have any number of them, by their d tags.
	listingsOfKey = 16
)

// Listing is one provider's announcement, as far as we read it. All of it is
// the provider's own claim.
type Listing struct {
	Provider string `json:"provider"` // x-only hex
	D        string `json:"d"`        // of the announcement
	NPub     string `json:"npub"`
	Name     string `json:"name"`
	// NIP05 is a name@host that the provider gives itself. It says nothing until the
	// host vouches for it, so nobody is shown it before.
	NIP05          string                     `json:"-"`
	Jobs           []string                   `json:"jobs"`
	PerMinuteMsats int64                      `json:"sandbox_per_minute_msats"`
	BaseMsats      map[string]int64           `json:"base_msats"`       // by schema id
	Modes          map[string][]receipts.Mode `json:"modes"`            // by schema id; empty for other programs' providers
	Prices         map[string]receipts.Price  `json:"prices,omitempty"` // by schema id
	Paused         bool                       `json:"paused,omitempty"` // takes no jobs now
	FreePoW        int                        `json:"free_pow_bits,omitempty"`
	HostImage      string                     `json:"host_image_digest,omitempty"`
	Confinement    string                     `json:"sandbox_confinement,omitempty"` // how firmly the provider says that it confines commands
	PayeeNode      string                     `json:"payee_node,omitempty"`
	Tree           *tree.Terms                `json:"tree,omitempty"` // of files too large for a request; nil: none are taken
	Network        string                     `json:"network,omitempty"`
	Encryption     *bool                      `json:"supports_encryption,omitempty"` // nil if it does not say
	Completed      int                        `json:"jobs_completed"`
	SuccessRate    float64                    `json:"success_rate"`
	UpdatedAt      time.Time                  `json:"updated_at"`
	// Plain: a program that knows NIP-90 alone. It quotes nothing, and is paid
	// only by those who say that they buy from such.
	Plain bool `json:"outside"`
	// End is how its key ended, as far as the relays told; nil if it has not.
	End *receipts.KeyEnd `json:"-"`
	// Amount is what a plain provider says of its price, in its own words.
	Amount string `json:"amount,omitempty"`
}

// announced is the part of a 31990's content that we read; the rest is ignored.
type announced struct {
	Name         string `json:"name"`
	NIP05        string `json:"nip05"`
	Encryption   *bool  `json:"supportsEncryption"`
	Capabilities struct {
		SupportedJobs []string `json:"supported_jobs"`
	} `json:"capabilities"`
	Pricing struct {
		SandboxMin int64 `json:"sandbox_per_minute_msats"`
	} `json:"pricing"`
	Stability struct {
		SuccessRate   float64 `json:"success_rate"`
		JobsCompleted int     `json:"jobs_completed"`
	} `json:"stability"`
	Lightwork struct {
		Modes     map[string][]receipts.Mode `json:"modes"`
		BaseMsats map[string]int64           `json:"base_msats"`
		Prices    map[string]receipts.Price  `json:"prices"`
		Paused    bool                       `json:"paused"`
		FreePoW   int                        `json:"free_pow_bits"`
		HostImage string                     `json:"host_image_digest"`
		Confined  string                     `json:"sandbox_confinement"`
		PayeeNode string                     `json:"payee_node"`
		Network   string                     `json:"network"`
		Tree      *tree.Terms                `json:"tree"`
	} `json:"lightwork"`
}

// listings are the latest announcements that fit, in no order.
func (s Scout) listings(ctx context.Context, schemaID string, keys []string) ([]Listing, error) {
	f := nostr.Filter{
		Kinds: []int{kinds.Announcement}, Limit: listingsPage,
		Tags: nostr.TagMap{"k": {strconv.Itoa(s.RequestKind)}}, Authors: keys,
	}
	events, err := s.announcements(ctx, f)
	if err != nil {
		return nil, err
	}

	var list []Listing
	for _, ev := range events {
		l, ok := listing(ev)
		if ok && (schemaID == "" || slices.Contains(l.Jobs, schemaID)) {
			list = append(list, l)
		}
	}

	return list, nil
}

// latestByKey is the newest announcement of each key and d tag, and of one key the
// newest listingsOfKey.
func latestByKey(events []nostr.Event) []nostr.Event {
	newestFirst := slices.Clone(events)
	slices.SortStableFunc(newestFirst, func(a, b nostr.Event) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })

	seen := map[string]map[string]bool{} // key to d tags
	var latest []nostr.Event
	for _, ev := range newestFirst {
		of := seen[ev.PubKey]
		if of == nil {
			of = map[string]bool{}
			seen[ev.PubKey] = of
		}
		if d := ev.Tags.GetD(); !of[d] && len(of) < listingsOfKey {
			of[d] = true
			latest = append(latest, ev)
		}
	}

	return latest
}

// announcements asks page by page, newest first: neither a crowd of new keys nor one
// key with a crowd of announcements must hide who announced before.
func (s Scout) announcements(ctx context.Context, f nostr.Filter) ([]nostr.Event, error) {
	var all []nostr.Event
	for range listingPages {
		page, err := s.Market.Query(ctx, f)
		if err != nil {
			return nil, err
		}
		all = latestByKey(append(all, page...))
		if len(page) < f.Limit || len(all) >= listingsMost {
			break
		}
		until := page[len(page)-1].CreatedAt
		if f.Until != nil && until >= *f.Until {
			until = *f.Until - 1 // a whole page of one second
		}
		f.Until = &until
	}

	return all, nil
}

// Price is what the announcement says the request costs; false where it names
// no price for the job.
func (l Listing) Price(req *schemas.Request) (msats int64, ok bool) {
	if table, ok := l.Prices[string(req.SchemaID)]; ok {
		return table.For(req)
	}
	return l.PriceMsats(req.SchemaID, receipts.RunLimit(req))
}

// PriceMsats is what the provider announces for a job of at most limit; false
// if it announces no price that can be read for this job type.
func (l Listing) PriceMsats(schema schemas.ID, limit time.Duration) (int64, bool) {
	minutes := max(1, int64((limit+time.Minute-1)/time.Minute))
	base, ok := l.BaseMsats[string(schema)]
	if !ok || base < 0 || l.PerMinuteMsats > (1<<53-1-base)/minutes {
		return 0, false
	}
	return base + l.PerMinuteMsats*minutes, true
}

// isBounded reports whether an announcement lists no more than can be shown, by names
// of one line each.
func (a announced) isBounded() bool {
	if t := a.Lightwork.Tree; t != nil && (t.MaxBytes < 0 || len(t.Servers) > announcedServers || slices.ContainsFunc(t.Servers, isLong)) {
		return false
	}
	names := append([]string{a.NIP05, a.Lightwork.Network, a.Lightwork.Confined, a.Lightwork.HostImage, a.Lightwork.PayeeNode}, a.Capabilities.SupportedJobs...)
	for _, modes := range a.Lightwork.Modes {
		if len(modes) > announcedModes {
			return false
		}
		for _, m := range modes {
			names = append(names, string(m))
		}
	}

	return len(a.Capabilities.SupportedJobs) <= announcedJobs && !slices.ContainsFunc(names, func(name string) bool {
		return len(name) > announcedName || strings.ContainsFunc(name, unicode.IsControl)
	})
}

// isLong reports an address that is shown to nobody.
func isLong(address string) bool {
	return len(address) > announcedAddress || strings.ContainsFunc(address, unicode.IsControl)
}

func listing(ev nostr.Event) (Listing, bool) {
	var a announced
	if domain.Allow(domain.Announcement, ev.Tags) != nil {
		return Listing{}, false
	}
	named, _ := domain.Of(ev.Tags) // another program's names none
	age := time.Since(ev.CreatedAt.Time())
	if len(ev.Content) > announcementMax || age > announcementAge || age < -announcementAhead {
		return Listing{}, false
	}
	npub, err := receipts.Npub(ev.PubKey)
	if err != nil {
		return Listing{}, false
	}
	if named == "" || hashing.UnmarshalKnown([]byte(ev.Content), &a) != nil || len(a.Capabilities.SupportedJobs) == 0 {
		return plainListing(ev, npub), true
	}
	if a.Pricing.SandboxMin < 0 || !a.isBounded() {
		return Listing{}, false
	}

	return Listing{
		Provider: ev.PubKey, D: ev.Tags.GetD(), NPub: npub, Name: a.Name, NIP05: a.NIP05, Jobs: a.Capabilities.SupportedJobs,
		PerMinuteMsats: a.Pricing.SandboxMin, BaseMsats: a.Lightwork.BaseMsats, Prices: a.Lightwork.Prices, Paused: a.Lightwork.Paused, FreePoW: a.Lightwork.FreePoW, Modes: a.Lightwork.Modes,
		HostImage: a.Lightwork.HostImage, Confinement: a.Lightwork.Confined, PayeeNode: a.Lightwork.PayeeNode, Tree: a.Lightwork.Tree, Network: a.Lightwork.Network, Encryption: a.Encryption,
		Completed: a.Stability.JobsCompleted, SuccessRate: a.Stability.SuccessRate, UpdatedAt: ev.CreatedAt.Time().UTC(),
		Plain: len(a.Lightwork.Modes) == 0,
	}, true
}
