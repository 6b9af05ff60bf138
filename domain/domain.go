// Package domain prevents confusion between signed documents. A signature proves
// the author of an event but not its meaning: the kind can be configured, and the
// content may be another author's text. Therefore every event that this program
// signs as a document has exactly one tag ["domain", "lightwork/<document>/v1"],
// and readers of the document require the tag.
//
// Events that other standards define including their kind have no domain: profiles
// (kind 0), relay lists (10002), logins to a relay (22242) or a blob server
// (24242), and gift wraps.
package domain

import (
	"errors"
	"fmt"
	"strconv"
)

// Domain names the kind of document in a signed event.
type Domain string

// The domains. docs/protocol/protocol.md lists the kind and the readers of each.
const (
	Request      Domain = "lightwork/request/v1"
	Quote        Domain = "lightwork/quote/v1"    // feedback whose content is a quote
	Reveal       Domain = "lightwork/reveal/v1"   // feedback that reveals a commitment
	Feedback     Domain = "lightwork/feedback/v1" // every other feedback
	Acceptance   Domain = "lightwork/acceptance/v1"
	Result       Domain = "lightwork/result/v1"
	Receipt      Domain = "lightwork/receipt/v1"
	Pruned       Domain = "lightwork/pruned/v1" // what a provider has pruned of a job
	Closing      Domain = "lightwork/closing/v1"
	NotTaken     Domain = "lightwork/not_taken/v1"
	Deletion     Domain = "lightwork/deletion/v1"
	Announcement Domain = "lightwork/announcement/v1"
	Beat         Domain = "lightwork/beat/v1"
	Ping         Domain = "lightwork/ping/v1"
	Pointer      Domain = "lightwork/receipt_pointer/v1"
	Wallet       Domain = "lightwork/wallet/v1"

	KeyChange     Domain = "lightwork/key_change/v1"     // a key says that it is used no more
	KeyAcceptance Domain = "lightwork/key_acceptance/v1" // the key that follows agrees

	// Encrypted marks an event that contains another document in encrypted form,
	// which has its own domain.
	Encrypted Domain = "lightwork/encrypted/v1"

	AgentProfile      Domain = "lightwork/agent_profile/v1"
	AgentState        Domain = "lightwork/agent_state/v1"
	TickRequest       Domain = "lightwork/tick_request/v1"
	TickResult        Domain = "lightwork/tick_result/v1"
	TrajectorySession Domain = "lightwork/trajectory_session/v1"
	TrajectoryEvent   Domain = "lightwork/trajectory_event/v1"
)

// All lists every domain.
func All() []Domain {
	return []Domain{
		Request, Quote, Reveal, Feedback, Acceptance, Result, Receipt, Pruned, Closing, NotTaken, Deletion, Announcement, Beat, Ping, Pointer, Wallet,
		KeyChange, KeyAcceptance,
		Encrypted, AgentProfile, AgentState, TickRequest, TickResult, TrajectorySession, TrajectoryEvent,
	}
}

// TagName is the name of the tag with the domain.
const TagName = "domain"

// Error means that an event is not the expected document.
var Error = errors.New("not the document that is wanted")

// Tag returns the tag for the domain.
func (d Domain) Tag() []string { return []string{TagName, string(d)} }

// Of returns the domain named by an event's tags, "" if there is none. A malformed
// or repeated tag gives an error that wraps Error.
func Of[T ~[]string](tags []T) (Domain, error) {
	var found Domain
	for _, tag := range tags {
		if len(tag) == 0 || tag[0] != TagName {
			continue
		}
		switch {
		case found != "":
			return "", fmt.Errorf("%w: it has more than one tag %s", Error, TagName)
		case len(tag) != 2 || tag[1] == "":
			return "", fmt.Errorf("%w: its tag %s has not exactly one value", Error, TagName)
		}
		found = Domain(tag[1])
	}

	return found, nil
}

// Demand returns an error that wraps Error unless the tags name this domain.
func Demand[T ~[]string](d Domain, tags []T) error {
	found, err := Of(tags)
	switch {
	case err != nil:
		return err
	case found == "":
		return fmt.Errorf(`%w: it has no tag ["%s","%s"], and without it any event that reads like one would count`, Error, TagName, d)
	case found != d:
		return fmt.Errorf("%w: its domain is %s, not %s", Error, printable(string(found)), d)
	}
	return nil
}

// Allow is like Demand, but accepts tags without a domain, for documents that
// programs without domains write too.
func Allow[T ~[]string](d Domain, tags []T) error {
	if found, err := Of(tags); err != nil || found == "" {
		return err
	}
	return Demand(d, tags)
}

// printable shortens untrusted text and makes it printable.
func printable(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.QuoteToASCII(s)
}
