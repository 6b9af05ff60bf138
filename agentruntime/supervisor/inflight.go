package supervisor

import (
	"bytes"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// outcome is the end of a call: the agent's result, or the reason why there is none.
type outcome struct {
	result *wire.ToolResult
	err    *Error
}

// inflight is a call that the agent has not ended. It counts as a call of its session
// until then, even after its caller has given up, because the agent still works on it.
type inflight struct {
	id        string
	messageID string // of the core.tool.call
	requestID string
	stream    *stream // nil if nobody listens
	outcome   chan outcome
	gone      bool // the caller has given up; under the session's lock
}

// admit adds the call to the session, or returns the reason why it cannot.
func (s *session) admit(c *inflight) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()

	switch {
	case s.closed:
		return unavailable("the agent's session is ending")
	case s.calls[c.id] != nil:
		return failf(wire.CodeDuplicateCall, "a call with this id is in flight")
	case len(s.calls) >= s.spec.Limits.Concurrent:
		e := failf(wire.CodeOverloaded, "%d calls in flight", len(s.calls))
		e.Retryable = true
		return e
	}

	s.calls[c.id] = c
	return nil
}

// withdraw removes a call that was not sent.
func (s *session) withdraw(c *inflight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, c.id)
}

// finish gives a call its outcome; false if there is no such call.
func (s *session) finish(id string, o outcome) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	c := s.calls[id]
	if c == nil {
		return false
	}
	delete(s.calls, id)
	s.recordEnded(id)
	if c.gone {
		s.abandoned--
	}
	if c.stream != nil {
		c.stream.close()
	}
	c.outcome <- o // has room for one, and a call ends once
	return true
}

// recordEnded keeps the ids of the calls that ended last. The caller holds the lock.
func (s *session) recordEnded(id string) {
	s.ended[id] = struct{}{}
	if s.endedOrder = append(s.endedOrder, id); len(s.endedOrder) > recentCalls {
		delete(s.ended, s.endedOrder[0])
		s.endedOrder = s.endedOrder[1:]
	}
}

// abandon notes that the caller has given up. It returns false if the outcome
// has just come.
func (s *session) abandon(c *inflight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[c.id] != c {
		return false
	}
	c.gone = true
	s.abandoned++
	if c.stream != nil {
		c.stream.close()
	}
	return true
}

// streamStats returns the counters of a stream, which must be closed.
func (s *session) streamStats(c *inflight) StreamStats {
	if c.stream == nil {
		return StreamStats{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.stream.stats
}

func (s *session) chunk(p *wire.ToolStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[p.CallID]
	if c == nil || c.gone {
		s.stray++
		return
	}
	if c.stream != nil {
		c.stream.offer(p, s.secret)
	}
}

// result ends a call. A second result, or one that nobody asked for, is
// ignored and audited (OS-4.3.3.8).
func (s *session) result(msg *wire.Message, p *wire.ToolResult) {
	s.mu.Lock()
	c := s.calls[p.CallID]
	_, second := s.ended[p.CallID]
	if c == nil {
		s.stray++
	}
	s.mu.Unlock()

	switch {
	case c != nil:
		if c.requestID != msg.RequestID {
			s.audit(AuditEvent{Type: AuditViolation, CallID: c.id, RequestID: c.requestID, Reason: "result does not echo request_id"})
		}
		s.finish(p.CallID, outcome{result: p})
	case second:
		s.strays.write(AuditEvent{Type: AuditViolation, CallID: p.CallID, Reason: "second result"}, s.audit)
	default:
		// The agent invented the id, so the trail does not repeat it.
		s.strays.write(AuditEvent{Type: AuditViolation, Reason: "result of an unknown call"}, s.audit)
	}
}

// agentError ends the call whose message the agent could not handle.
func (s *session) agentError(msg *wire.Message) {
	if msg.Error == nil || msg.InReplyTo == "" {
		return
	}
	s.mu.Lock()

	id := ""
	for _, c := range s.calls {
		if c.messageID == msg.InReplyTo {
			id = c.id
		}
	}

	s.mu.Unlock()
	if id != "" {
		s.finish(id, outcome{err: fromAgent(msg.Error)})
	}
}

// failAll ends all calls in flight at the end of the session.
func (s *session) failAll() {
	s.mu.Lock()
	ids := make([]string, 0, len(s.calls))
	for id := range s.calls {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	for _, id := range ids {
		s.finish(id, outcome{err: failf(wire.CodeUnavailable, "the agent's session ended during the call")})
	}
}

// leaks reports whether doc holds the session token.
func (s *session) leaks(doc []byte) bool { return bytes.Contains(doc, []byte(s.secret)) }
