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

// maxProvoked bounds the lines that an agent can cause in one run by messages and
// connections that nobody asked for: the trail is kept for ever, and a hostile agent
// would fill the disk with it.
const maxProvoked = 256

// provoked counts such lines.
type provoked struct{ lines atomic.Int64 }

// write writes a line while there may be more; the last one says that it is that.
func (p *provoked) write(e AuditEvent, to func(AuditEvent)) {
	n := p.lines.Add(1)
	if n == maxProvoked {
		e.Reason += "; more of its kind in this run are not written down"
	}
	if n <= maxProvoked {
		to(e)
	}
}

// auditCode keeps codes that an agent made up out of the trail.
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
