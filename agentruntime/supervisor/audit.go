package supervisor

import (
	"sync/atomic"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// AuditEvent is one line for the audit trail. It never holds a payload, a
// token or text that an agent wrote.
type AuditEvent struct {
	Time      time.Time
	Type      string // one of the Audit constants
	AgentID   string
	RunID     string
	PID       int
	Tool      string // name without the agent's id
	CallID    string
	RequestID string
	Causation string // id of the directive that the call names
	Code      string
	Reason    string
	Size      int64 // bytes of an over-limit frame
	Limit     int64
}

// Types of audit events.
const (
	auditRunStarted      = "agent.run_started"
	auditRunStopped      = "agent.run_stopped"
	auditRunCrashed      = "agent.run_crashed"
	auditConnected       = "agent.connected"
	auditHandshakeFailed = "agent.handshake_failed"
	auditHeartbeatMissed = "agent.heartbeat_missed"
	auditUnhealthy       = "agent.marked_unhealthy"
	auditDown            = "agent.down"
	auditCallRouted      = "tool.call_routed"
	auditCallCompleted   = "tool.call_completed"
	auditDenied          = "security.denied"
	auditFrameTooLarge   = "protocol.frame_too_large"
	AuditViolation       = "protocol.violation"
	auditSecretSuspected = "security.secret_suspected"
)

// maxProvokedLines bounds the audit lines that an agent can cause in one run with
// unsolicited messages and connections. The trail is never deleted, so a hostile agent
// could fill the disk with it.
const maxProvokedLines = 256

// lineLimit counts audit lines of one kind.
type lineLimit struct{ lines atomic.Int64 }

// write writes a line until the limit is reached. The last line says that it is the
// last.
func (p *lineLimit) write(e AuditEvent, to func(AuditEvent)) {
	n := p.lines.Add(1)
	if n == maxProvokedLines {
		e.Reason += "; more of its kind in this run are not written down"
	}
	if n <= maxProvokedLines {
		to(e)
	}
}

// auditCode replaces codes that an agent invented, so that its text stays out of the
// trail.
func auditCode(e *Error) string {
	if !e.FromAgent {
		return e.Code
	}
	switch e.Code {
	case wire.CodeInvalidInput, wire.CodeTimeout, wire.CodeCanceled, wire.CodeUnavailable, wire.CodeOverloaded,
		wire.CodeInternal, wire.CodeOutputTooLarge, wire.CodePolicyViolation:
		return e.Code
	}
	return wire.CodeFailed
}
