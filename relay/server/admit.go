package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip13"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// admit returns the reason to refuse the event, "" if there is none. It makes
// the checks that need neither the store nor a hash.
func (s *Server) admit(ev *nostr.Event, size int, now time.Time) string {
	l := s.cfg.Limits
	if size > l.MaxEventBytes {
		return fmt.Sprintf("invalid: event is larger than %d bytes", l.MaxEventBytes)
	}
	if deletions(ev) > l.MaxDeletions {
		return fmt.Sprintf("invalid: more than %d deletions in one event", l.MaxDeletions)
	}
	if ev.CreatedAt < nostr.Timestamp(now.Add(-l.MaxAge).Unix()) {
		return "invalid: created_at is too long ago"
	}
	if ev.CreatedAt > nostr.Timestamp(now.Add(l.MaxAhead).Unix()) {
		return "invalid: created_at is too far ahead"
	}
	if expires, ok := nip01.Expiration(ev); ok && expires <= now.Unix() {
		return "invalid: event has expired"
	}
	if ev.Kind == nostr.KindClientAuthentication {
		return "invalid: an event of kind 22242 goes into an AUTH message"
	}
	if work := nip13.CommittedDifficulty(ev); l.MinPow > 0 && work < l.MinPow {
		return fmt.Sprintf("pow: a nonce tag that commits to %d bits and an id with them are required, this is %d", l.MinPow, work)
	}
	if reason := s.admitKind(ev, now); reason != "" {
		return reason
	}
	if embedsProtected(ev) {
		return "blocked: a repost must not embed a protected event"
	}

	return ""
}

// protected reports whether only the author may publish the event (NIP-70).
func protected(ev *nostr.Event) bool {
	for _, tag := range ev.Tags {
		if len(tag) == 1 && tag[0] == "-" {
			return true
		}
	}
	return false
}

// embedsProtected reports whether the event is a repost that carries a
// protected event: "relays SHOULD summarily reject it".
func embedsProtected(ev *nostr.Event) bool {
	if ev.Kind != nostr.KindRepost && ev.Kind != nostr.KindGenericRepost || ev.Content == "" {
		return false
	}
	embedded, err := nip01.ParseEvent([]byte(ev.Content), storedLimits)
	return err == nil && protected(&embedded)
}

// admitProtected returns the reason to refuse a protected event, "" if the
// client is its author.
func (c *client) admitProtected(ev *nostr.Event) string {
	for _, key := range c.identity.keys() {
		if key == ev.PubKey {
			return ""
		}
	}
	c.demandAuth()
	if len(c.identity.keys()) > 0 {
		return "restricted: only its author may publish this event"
	}
	return "auth-required: only its author may publish this event"
}

// DefaultPrivateKinds are the kinds of encrypted direct messages (NIP-04) and of
// gift wraps (NIP-59), stored and ephemeral.
func DefaultPrivateKinds() []int { return []int{4, 1059, 21059} }

// private reports whether events of the kind are served only to their author and
// recipients.
func (s *Server) private(kind int) bool { return slices.Contains(s.cfg.PrivateKinds, kind) }

// admitFilters returns the reason to refuse a request, "" if there is none. Filters
// without kinds are answered without the private events. If inPart is true, a request
// that names private and public kinds is answered with the public ones, and the
// client is asked to authenticate.
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

// hidePrivate excludes private events of which none of the keys is the author or a
// recipient.
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
