package purchase

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/tree"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// View is a purchase as it stands, with the terms of its request. The purchase changes
// and is read again; its terms never do.
type View struct {
	Purchase
	Terms *Terms
}

// ViewOf reads the terms of a purchase.
func ViewOf(p Purchase) View { return View{Purchase: p, Terms: TermsOf(p)} }

// Terms are what we asked a provider for, as the request says that we signed. They are
// read once for a purchase. What cannot be read is left empty, so that a purchase whose
// payment is under way is followed all the same.
type Terms struct {
	receipts.RequestTerms
	// BidMsats is the most that we told the provider we pay.
	BidMsats int64
	// InputIDs are the ids of the events that the request names as its inputs.
	InputIDs []string
	// Expiry is when nobody is to take the request up any more; zero if it names none.
	Expiry time.Time
	// RunLimit is how long the job may run by the request's own words.
	RunLimit time.Duration
	// TreeKey is what the request tells the provider alone of its tree, encrypted; "" if it
	// names none.
	TreeKey string

	schema   *schemas.Schema
	document *schemas.Request
	err      error // why there is no document
}

// TermsOf reads the request of a purchase.
func TermsOf(p Purchase) *Terms {
	t := &Terms{InputIDs: []string{}}
	tags, err := p.requestTags()
	if err != nil {
		t.err = err
		return t
	}

	t.readTags(tags, p.MaxMsats)
	if p.Inputs != nil { // unreadable ones are none: then no quote with inputs is ours
		if events, err := receipts.ParseInputs(p.Inputs); err == nil {
			t.InputIDs = receipts.IDs(events)
		}
	}

	if err := t.readJob(p, tags); err != nil {
		t.err = fmt.Errorf("stored request: %w", err)
		return t
	}
	t.RunLimit = receipts.RunLimit(t.document)
	return t
}

// Tree is what the request says of its tree, nil if it names none.
func (t *Terms) Tree() *tree.Manifest {
	if t.document == nil {
		return nil
	}
	run, ok := t.document.Value.(*schemas.SandboxRunRequest)
	if !ok {
		return nil
	}
	return run.Repo.Tree
}

// requestTags are the request's tags, the encrypted ones in the clear after the others.
func (p Purchase) requestTags() (nostr.Tags, error) {
	var ev nostr.Event
	if err := json.Unmarshal(p.Request, &ev); err != nil {
		return nil, fmt.Errorf("stored request: %w", err)
	}
	if p.Hidden == nil {
		return ev.Tags, nil
	}

	var hidden nostr.Tags
	if err := json.Unmarshal(p.Hidden, &hidden); err != nil {
		return nil, fmt.Errorf("stored request: %w", err)
	}
	return append(ev.Tags, hidden...), nil
}

func (t *Terms) readTags(tags nostr.Tags, maxMsats int64) {
	var err error
	t.RequestTerms, err = receipts.TermsOf(tags)
	switch {
	case err != nil:
	case !t.HasBid:
		t.BidMsats = maxMsats
	default:
		t.BidMsats = min(t.Bid, maxMsats)
	}

	if tag := tags.Find(tree.GrantTag); tag != nil {
		t.TreeKey = tag[1]
	}
	if tag := tags.Find("expiration"); tag != nil {
		if unix, err := strconv.ParseInt(tag[1], 10, 64); err == nil {
			t.Expiry = time.Unix(unix, 0)
		}
	}
}

func (t *Terms) readJob(p Purchase, tags nostr.Tags) error {
	typed, err := ReadJob(tags, p.Provider, p.Inputs)
	if err != nil {
		return err
	}
	s, ok := schemas.Lookup(p.SchemaID)
	if !ok {
		return fmt.Errorf("unknown schema %s", p.SchemaID)
	}
	if t.document, err = s.ParseRequest(typed.Input); err != nil {
		return err
	}
	t.schema = s
	return nil
}

// ReadJob reads the job in the tags of a request, with the events of its inputs.
func ReadJob(tags nostr.Tags, provider string, inputs []byte) (receipts.TypedRequest, error) {
	if inputs != nil {
		events, err := receipts.ParseInputs(inputs)
		if err == nil {
			tags, err = receipts.Inline(tags, provider, events)
		}
		if err != nil {
			return receipts.TypedRequest{}, err
		}
	}

	typed, err := receipts.RequestOf(tags)
	if err != nil {
		if untyped, plain := receipts.UntypedOf(tags); plain == nil {
			return untyped, nil
		}
	}
	return typed, err
}

// Job is the request's document with its schema; the error says why there is none.
func (t *Terms) Job() (*schemas.Schema, *schemas.Request, error) { return t.schema, t.document, t.err }

// Sealed reports whether the request says that we can open boxes.
func (t *Terms) Sealed() bool { return t.Delivery == receipts.DeliverySealed }

// QuotesFirst reports whether the request asks for a mode in which a provider does
// nothing, and says nothing, before its quote.
func (t *Terms) QuotesFirst() bool {
	return t.Mode == receipts.ModeHold || t.Mode == receipts.ModePrepay
}

// Expired reports whether nobody is to take the request up any more: relays refuse it
// then, and what was answered before can still be read.
func (t *Terms) Expired(now time.Time) bool { return !t.Expiry.IsZero() && !now.Before(t.Expiry) }

// Expects reports whether the request says what its result must be to be paid for.
func (t *Terms) Expects() bool {
	if t.err != nil {
		return false
	}
	run, ok := t.document.Value.(*schemas.SandboxRunRequest)
	return ok && run.Verification.Expected != nil
}

// IsQuote tells a quote from what other programs write in its place.
func IsQuote(content string) bool {
	_, err := receipts.ParseQuote([]byte(content))
	return err == nil
}
