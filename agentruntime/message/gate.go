package message

import (
	"context"
	"errors"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/redact"
	"github.com/lightwork-market/lightwork/hashing"
)

// maxAhead is how far a sender's clock may be ahead of ours. Without a limit a
// message from the future would outlive its ttl.
const maxAhead = 5 * time.Minute

// Gate checks what a message alone does not show. It has no state of its own;
// all fields are required.
type Gate struct {
	// Known reports whether the registry has the agent (YE-V4).
	Known func(agentID string) bool
	// Holds reports whether the journal of a session has a source, by its id, or
	// an output, by its digest as "sha256:<hex>". Evidence that names anything
	// else is made up (M-10). An error refuses the message.
	Holds func(ctx context.Context, sessionID, ref string) (bool, error)
	// Now is the clock that ttl is judged by.
	Now func() time.Time
}

func (g Gate) validate() error {
	if g.Known == nil || g.Holds == nil || g.Now == nil {
		return errors.New("gate: Known, Holds and Now are required")
	}
	return nil
}

// Receive reads a message and checks it: Parse, then that both agents are
// known, that it is not too late (TIMEOUT), that it holds no secret
// (SAFETY_VIOLATION) and that its evidence is in the session's journal
// (FABRICATION_DETECTED). The error is an *Error. With one the message is there
// too if it could be parsed.
func (g Gate) Receive(ctx context.Context, doc []byte) (Message, error) {
	m, err := Parse(doc)
	if err != nil {
		return Message{}, err
	}
	if err := g.agents(m); err != nil {
		return m, err
	}
	if err := g.inTime(m); err != nil {
		return m, err
	}
	if err := noSecret(doc); err != nil {
		return m, err
	}
	if err := g.evidence(ctx, m); err != nil {
		return m, err
	}

	return m, nil
}

// Send writes a message after the checks of Receive but for the time. The
// error is an *Error.
func (g Gate) Send(ctx context.Context, m Message) ([]byte, error) {
	doc, err := Encode(m)
	if err != nil {
		return nil, FromError(err)
	}
	if err := g.agents(m); err != nil {
		return nil, err
	}
	if err := noSecret(doc); err != nil {
		return nil, err
	}
	if err := g.evidence(ctx, m); err != nil {
		return nil, err
	}

	return doc, nil
}

func (g Gate) agents(m Message) *Error {
	switch {
	case !g.Known(m.From.AgentID):
		return invalid("from.agentId", "is in no manifest")
	case !g.Known(m.To.AgentID):
		return invalid("to.agentId", "is in no manifest")
	}
	return nil
}

func (g Gate) inTime(m Message) *Error {
	now := g.Now()
	switch {
	case now.After(m.Deadline()):
		return &Error{Kind: KindDeadline, Field: "ttl", Reason: "the message is too old"}
	case m.Timestamp.After(now.Add(maxAhead)):
		return invalid("timestamp", "lies in the future")
	}
	return nil
}

// late is inTime as an error that may be nil.
func (g Gate) late(m Message) error {
	if err := g.inTime(m); err != nil {
		return err
	}
	return nil
}

// evidence asks the journal for everything that the chain rests on.
func (g Gate) evidence(ctx context.Context, m Message) *Error {
	seen := map[string]bool{}
	held := func(law Law, field, ref string) *Error {
		if seen[ref] {
			return nil
		}
		seen[ref] = true
		ok, err := g.Holds(ctx, m.Context.SessionID, ref)
		if err != nil {
			return &Error{Kind: KindUnavailable, Reason: "the session's journal cannot be read", cause: err}
		}
		if !ok {
			return fabricated(law, field, "is not in the session's journal")
		}

		return nil
	}

	for _, s := range m.Evidence.chain.Sources {
		if err := held(LawFabrication, "evidence.sources", s.ID); err != nil {
			return err
		}
	}

	for _, p := range m.Evidence.chain.Provenance {
		// A thing that is named rather than hashed cannot be looked up; what it
		// was made from can.
		if ref, isDigest := reference(p.Entity); isDigest {
			if err := held(LawFabrication, "evidence.provenance", ref); err != nil {
				return err
			}
		}

		if p.WasDerivedFrom == "" {
			continue
		}
		ref, _ := reference(p.WasDerivedFrom)
		if err := held(LawFabrication, "evidence.provenance", ref); err != nil {
			return err
		}
	}

	return nil
}

// reference gives a digest its one spelling.
func reference(text string) (ref string, isDigest bool) {
	d, err := hashing.ParseDigest(text)
	if err != nil {
		return text, false
	}
	return d.String(), true
}

// noSecret looks for secrets in the whole document. It looks at the canonical
// form, where no escape hides a letter.
func noSecret(doc []byte) *Error {
	plain, err := hashing.Canonical(doc)
	if err != nil {
		return invalid("", "%v", err)
	}
	if redact.Holds(string(plain)) {
		return &Error{Kind: KindPolicy, Reason: "the message holds what looks like a secret"}
	}
	return nil
}
