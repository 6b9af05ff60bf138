package buyer

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/profile"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// Input is the result of an earlier job as an input of a new one: named, where
// the provider can read it, or as text.
type Input struct {
	Text  string // where Event is nil
	Event *receipts.Event
	// Request and Provider are of the earlier job.
	Request, Provider string
}

// ErrNoOutput: the purchase has no result that could be an input.
var ErrNoOutput = errors.New("it has no result yet")

// InputOf makes an input of what a purchase gave. A result that others cannot
// read (sealed, encrypted, or too large for an event) is sent as text.
func InputOf(p Purchase) (Input, error) {
	if p.Output == nil || p.ResultEvent == nil {
		return Input{}, fmt.Errorf("purchase %s: %w", p.RequestID, ErrNoOutput)
	}
	ev, err := receipts.ParseEvent(p.ResultEvent, purchase.MaxEventBytes)
	if err == nil {
		if _, err = receipts.InputText(ev); err == nil && p.Hidden == nil {
			return Input{Event: &ev, Request: p.RequestID, Provider: p.Provider}, nil
		}
	}

	var words schemas.TextResult
	if p.SchemaID == string(schemas.TextGeneration) && json.Unmarshal(p.Output, &words) == nil {
		return Input{Text: words.Text}, nil
	}
	return Input{Text: string(p.Output)}, nil
}

// tag is the input in a request; relay is where the event is found.
func (i Input) tag(relay string) nostr.Tag {
	if i.Event == nil {
		return nostr.Tag{"i", i.Text, "text"}
	}
	return nostr.Tag{"i", i.Request, receipts.InputJob, relay, i.Provider}
}

// Document is the request document of an order, with the texts of its inputs in
// their places: what job_hash will be of. Errors say what breaks the schema.
func (c *Client) Document(o Order) (*schemas.Request, error) {
	s, ok := schemas.Lookup(o.SchemaID)
	if !ok {
		return nil, fmt.Errorf("%w %q", ErrJobType, o.SchemaID)
	}
	req, _, _, err := requestFor(s, o, c.cfg.Market.Relays())
	return req, err
}

// requestFor makes the tags that carry the job, and what they name as inputs.
func requestFor(s *schemas.Schema, o Order, relays []string) (req *schemas.Request, tags nostr.Tags, inputs []byte, err error) {
	if len(o.Inputs) > 0 {
		return chainedFor(s, o, relays)
	}
	if req, err = s.ParseRequest(o.Input); err != nil {
		return nil, nil, nil, err
	}
	req, tags, err = profile.For(o.Plain).Request(s, req)
	return req, tags, nil, err
}

// chainedFor makes the tags of an order with inputs. Of a text generation they
// come after the prompt, and the request is untyped, as NIP-90 has it; of any
// other job type the one input is the document.
func chainedFor(s *schemas.Schema, o Order, relays []string) (*schemas.Request, nostr.Tags, []byte, error) {
	var tags nostr.Tags
	switch {
	case s.ID == schemas.TextGeneration:
		if o.Input != nil {
			req, err := s.ParseRequest(o.Input)
			if err != nil {
				return nil, nil, nil, err
			}
			for _, t := range receipts.UntypedTags(req.Value.(*schemas.TextRequest)) {
				tags = append(tags, t)
			}
		}
	case len(o.Inputs) != 1 || o.Input != nil:
		return nil, nil, nil, fmt.Errorf("of %s the result of one job is the whole document", s.ID)
	default:
		tags = nostr.Tags{{"param", "schema", string(s.ID)}, {"output", "application/json"}}
	}

	var events []receipts.Event
	for _, input := range o.Inputs {
		tags = append(tags, input.tag(relays[0]))
		if input.Event != nil {
			events = append(events, *input.Event)
		}
	}

	kept := []byte(nil)
	if len(events) > 0 {
		kept = receipts.WriteInputs(events)
	}
	typed, err := purchase.ReadJob(tags, o.Provider, kept)
	if err != nil {
		return nil, nil, nil, err
	}
	req, err := s.ParseRequest(typed.Input)
	return req, tags, kept, err
}
