package server

import (
	"fmt"
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
