package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nbd-wtf/go-nostr"
)

// DefaultPrivateKinds are the kinds of encrypted direct messages (NIP-04) and of
// gift wraps (NIP-59), stored and ephemeral.
func DefaultPrivateKinds() []int { return []int{4, 1059, 21059} }

// private reports whether events of the kind are for their parties alone.
func (s *Server) private(kind int) bool { return slices.Contains(s.cfg.PrivateKinds, kind) }

// admitFilters returns the reason to refuse a request, "" if there is none.
// Filters that name no kind are answered without the private events. So is a
// request that names public kinds too, where it may be answered in part: the
// client is asked to prove who it is, and to ask again.
func (c *client) admitFilters(filters []nostr.Filter, inPart bool) string {
	if len(c.identity.keys()) > 0 {
		return ""
	}
	hidden, public := -1, false
	for i := range filters {
		public = public || filters[i].Kinds == nil
		for _, kind := range filters[i].Kinds {
			if c.srv.private(kind) {
				hidden = kind
			} else {
				public = true
			}
		}
	}
	if hidden < 0 {
		return ""
	}
	c.demandAuth()
	if inPart && public {
		return ""
	}
	return fmt.Sprintf("auth-required: events of kind %d are for their author and those whom they name", hidden)
}

// hidePrivate makes the scan leave out private events to which none of the keys
// is a party.
func (q *scan) hidePrivate(kinds []int, keys []string) error {
	if len(kinds) == 0 || q.filter.Kinds != nil && !slices.ContainsFunc(q.filter.Kinds, func(k int) bool { return slices.Contains(kinds, k) }) {
		return nil
	}
	texts := make([]string, len(kinds))
	for i, k := range kinds {
		texts[i] = strconv.Itoa(k)
	}
	clause := "e.kind NOT IN (" + strings.Join(texts, ",") + ")"
	if len(keys) > 0 {
		authors, err := jsonList(keys)
		if err != nil {
			return err
		}
		named, err := tagKeyList("p", keys)
		if err != nil {
			return err
		}
		clause += ` OR e.pubkey IN (SELECT unhex(value) FROM json_each(?))
			OR EXISTS (SELECT 1 FROM tags o WHERE o.key IN (SELECT value FROM json_each(?))
			AND o.created_at = e.created_at AND o.seq = e.seq)`
		q.otherTags = append(q.otherTags, authors, named)
	}
	q.otherClause += " AND (" + clause + ")"
	return nil
}
