package discover

import (
	"encoding/json"
	"fmt"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/schemas"
)

// plainListing reads an announcement that has a name and tags alone, or
// nothing that we can read.
func plainListing(ev nostr.Event, npub string) Listing {
	var a struct {
		Name   string `json:"name"`
		Amount any    `json:"amount"`
	}
	_ = json.Unmarshal([]byte(ev.Content), &a) // in part, or not at all: it is only shown
	l := Listing{Provider: ev.PubKey, NPub: npub, Name: a.Name, Plain: true, UpdatedAt: ev.CreatedAt.Time().UTC()}
	if a.Amount != nil {
		l.Amount = fmt.Sprint(a.Amount)
	}

	for _, t := range ev.Tags {
		if len(t) < 2 || t[0] != "t" || len(l.Jobs) == plainJobs {
			continue
		}
		if s, ok := schemas.Lookup(t[1]); ok {
			l.Jobs = append(l.Jobs, string(s.ID))
		}
	}

	return l
}

// plainJobs bounds the job types read of one plain announcement.
const plainJobs = 16
