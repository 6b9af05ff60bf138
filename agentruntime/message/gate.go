package message

import (
	"context"
	"errors"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/redact"
	"github.com/lightwork-market/lightwork/hashing"
)

// maxAhead is how far a sender's clock may be ahead of ours. Without this limit, a
// message dated in the future would outlive its ttl.
const maxAhead = 5 * time.Minute

// Gate makes the checks that need more than the message. It has no state; all
// fields are required.
type Gate struct {
	// Known reports whether the registry has the agent (YE-V4).
	Known func(agentID string) bool
	// Holds reports whether the journal of a session contains a source, by its id,
	// or an output, by its digest "sha256:<hex>". Evidence that is not in the
	// journal counts as fabricated (M-10). On an error the message is refused.
	Holds func(ctx context.Context, sessionID, ref string) (bool, error)
	// Now is the clock for ttl.
	Now func() time.Time
}

func (g Gate) validate() error {
	if g.Known == nil || g.Holds == nil || g.Now == nil {
		return errors.New("gate: Known, Holds and Now are required")
	}
	return nil
}

// Receive parses a message and checks that both agents are known, that its ttl has
// not passed (TIMEOUT), that it contains no secret (SAFETY_VIOLATION) and that its
// evidence is in the session's journal (FABRICATION_DETECTED). The error is an
// *Error; the message is returned with it if it could be parsed.
func (g Gate) Receive(ctx context.Context, doc []byte) (Message, error) {
	m, err := Parse(doc)
	if err != nil {
		return Message{}, err
	}
	if err := g.checkAgents(m); err != nil {
		return m, err
	}
	if err := g.checkTime(m); err != nil {
		return m, err
	}
	if err := noSecret(doc); err != nil {
		return m, err
	}
	if err := g.checkEvidence(ctx, m); err != nil {
		return m, err
	}

	return m, nil
}

// Send encodes a message after the same checks, except that of the time. The error
// is an *Error.
func (g Gate) Send(ctx context.Context, m Message) ([]byte, error) {
	doc, err := Encode(m)
	if err != nil {
		return nil, FromError(err)
	}
	if err := g.checkAgents(m); err != nil {
		return nil, err
	}
	if err := noSecret(doc); err != nil {
		return nil, err
	}
	if err := g.checkEvidence(ctx, m); err != nil {
		return nil, err
	}

	return doc, nil
}

func (g Gate) checkAgents(m Message) *Error {
	switch {
	case !g.Known(m.From.AgentID):
		return invalid("from.agentId", "is in no manifest")
	case !g.Known(m.To.AgentID):
		return invalid("to.agentId", "is in no manifest")
	}
	return nil
}

func (g Gate) checkTime(m Message) *Error {
	now := g.Now()
	switch {
	case now.After(m.Deadline()):
		return &Error{Kind: KindDeadline, Field: "ttl", Reason: "the message is too old"}
	case m.Timestamp.After(now.Add(maxAhead)):
		return invalid("timestamp", "lies in the future")
	}
	return nil
}

// checkDeadline calls checkTime; unlike a nil *Error its result compares equal to nil.
func (g Gate) checkDeadline(m Message) error {
	if err := g.checkTime(m); err != nil {
		return err
	}
	return nil
}

// checkEvidence looks up each source and output of the chain in the journal.
func (g Gate) checkEvidence(ctx context.Context, m Message) *Error {
	seen := map[string]bool{}
	requireHeld := func(law Law, field, ref string) *Error {
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
		if err := requireHeld(LawFabrication, "evidence.sources", s.ID); err != nil {
			return err
		}
	}

	for _, p := range m.Evidence.chain.Provenance {
		// An entity that is named and not hashed cannot be looked up, but its
		// source can.
		if ref, isDigest := reference(p.Entity); isDigest {
			if err := requireHeld(LawFabrication, "evidence.provenance", ref); err != nil {
				return err
			}
		}

		if p.WasDerivedFrom == "" {
			continue
		}
		ref, _ := reference(p.WasDerivedFrom)
		if err := requireHeld(LawFabrication, "evidence.provenance", ref); err != nil {
			return err
		}
	}

	return nil
}

// reference returns the canonical spelling of a digest.
func reference(text string) (ref string, isDigest bool) {
	d, err := hashing.ParseDigest(text)
	if err != nil {
		return text, false
	}
	return d.String(), true
}

// noSecret searches the whole document for secrets, in canonical form because there
// no escape sequence hides a letter.
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
