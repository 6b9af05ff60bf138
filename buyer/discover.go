package buyer

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/receipts"
)

const (
	kindAnnouncement = 31990
	// announcementAge is how old an announcement may be and still count.
	announcementAge = 365 * 24 * time.Hour
	announcementMax = 64 << 10
	listingsMax     = 500
)

// Listing is one provider's announcement, as far as we read it. All of it is
// the provider's own claim.
type Listing struct {
	Provider       string                     `json:"provider"` // x-only hex
	NPub           string                     `json:"npub"`
	Name           string                     `json:"name"`
	Jobs           []string                   `json:"jobs"`
	PerMinuteMsats int64                      `json:"sandbox_per_minute_msats"`
	Modes          map[string][]receipts.Mode `json:"modes"` // by schema id; empty for other programs' providers
	HostImage      string                     `json:"host_image_digest,omitempty"`
	PayeeNode      string                     `json:"payee_node,omitempty"`
	Network        string                     `json:"network,omitempty"`
	Completed      int                        `json:"jobs_completed"`
	SuccessRate    float64                    `json:"success_rate"`
	UpdatedAt      time.Time                  `json:"updated_at"`
}

// announced is the part of a 31990's content that we read; the rest is ignored.
type announced struct {
	Name         string `json:"name"`
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
		HostImage string                     `json:"host_image_digest"`
		PayeeNode string                     `json:"payee_node"`
		Network   string                     `json:"network"`
	} `json:"lightwork"`
}

// Discover lists who announces that it runs the job type (all if schemaID is
// ""), cheapest first. provider limits it to one key.
func (c *Client) Discover(ctx context.Context, schemaID, provider string) ([]Listing, error) {
	f := nostr.Filter{
		Kinds: []int{kindAnnouncement}, Limit: listingsMax,
		Tags: nostr.TagMap{"k": {strconv.Itoa(c.cfg.Kinds.Request)}},
	}
	if provider != "" {
		f.Authors = []string{provider}
	}
	events, err := c.cfg.Market.Query(ctx, f)
	if err != nil {
		return nil, err
	}
	latest := map[string]nostr.Event{}
	for _, ev := range events {
		key := ev.PubKey + "/" + ev.Tags.GetD()
		if old, ok := latest[key]; !ok || ev.CreatedAt > old.CreatedAt {
			latest[key] = ev
		}
	}
	var list []Listing
	for _, ev := range latest {
		l, ok := listing(ev)
		if ok && (schemaID == "" || slices.Contains(l.Jobs, schemaID)) {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b Listing) int {
		if a.PerMinuteMsats != b.PerMinuteMsats {
			return int(min(max(a.PerMinuteMsats-b.PerMinuteMsats, -1), 1))
		}
		return strings.Compare(a.Provider, b.Provider)
	})
	return list, nil
}

func listing(ev nostr.Event) (Listing, bool) {
	var a announced
	age := time.Since(ev.CreatedAt.Time())
	if len(ev.Content) > announcementMax || age > announcementAge || json.Unmarshal([]byte(ev.Content), &a) != nil {
		return Listing{}, false
	}
	npub, err := receipts.Npub(ev.PubKey)
	if err != nil || len(a.Capabilities.SupportedJobs) == 0 {
		return Listing{}, false
	}
	return Listing{
		Provider: ev.PubKey, NPub: npub, Name: a.Name, Jobs: a.Capabilities.SupportedJobs,
		PerMinuteMsats: a.Pricing.SandboxMin, Modes: a.Lightwork.Modes,
		HostImage: a.Lightwork.HostImage, PayeeNode: a.Lightwork.PayeeNode, Network: a.Lightwork.Network,
		Completed: a.Stability.JobsCompleted, SuccessRate: a.Stability.SuccessRate, UpdatedAt: ev.CreatedAt.Time().UTC(),
	}, true
}
