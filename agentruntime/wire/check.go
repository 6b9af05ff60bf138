package wire

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ToolID is "<agent_id>/<tool_name>" (OS-4.2.0.1).
type ToolID string

const (
	maxAgentIDBytes  = 200
	maxToolNameBytes = 128
	maxVersionBytes  = 100
)

var semverForm = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// ValidAgentID reports whether id may name an agent: letters, digits and "._-"
// behind a letter or digit, at most 200 bytes.
func ValidAgentID(id string) bool { return validName(id, maxAgentIDBytes, "") }

// ValidToolName reports whether name may name a tool of an agent: as an agent
// id, but at most 128 bytes and perhaps with "_" in front.
func ValidToolName(name string) bool { return validName(name, maxToolNameBytes, "_") }

func validName(s string, limit int, alsoFirst string) bool {
	if s == "" || len(s) > limit {
		return false
	}

	for i, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		case i > 0 && strings.ContainsRune("._-", r), i == 0 && strings.ContainsRune(alsoFirst, r):
		default:
			return false
		}
	}
	return true
}

// ValidVersion reports whether v is a semantic version.
func ValidVersion(v string) bool { return len(v) <= maxVersionBytes && semverForm.MatchString(v) }

// JoinToolID makes the id of an agent's tool.
func JoinToolID(agentID, name string) ToolID { return ToolID(agentID + "/" + name) }

// Split returns the two parts; ok is false where either is malformed.
func (id ToolID) Split() (agentID, name string, ok bool) {
	agentID, name, ok = strings.Cut(string(id), "/")
	return agentID, name, ok && ValidAgentID(agentID) && ValidToolName(name)
}

func requireID(field, value string) *fieldError {
	switch {
	case value == "":
		return &fieldError{field, "required"}
	case len(value) > maxIDBytes:
		return &fieldError{field, fmt.Sprintf("longer than %d bytes", maxIDBytes)}
	}
	return nil
}

func optionalID(field, value string) *fieldError {
	if value == "" {
		return nil
	}
	return requireID(field, value)
}

func optionalObject(field string, raw []byte) *fieldError {
	// Many languages write an absent member as null.
	if raw != nil && string(raw) != "null" && !isObject(raw) {
		return &fieldError{field, "must be an object"}
	}
	return nil
}

func notNegative(field string, n int64) *fieldError {
	if n < 0 {
		return &fieldError{field, "must not be negative"}
	}
	return nil
}

func oneOf[T ~string](field string, value T, allowed ...T) *fieldError {
	if !slices.Contains(allowed, value) {
		return &fieldError{field, "not one of the allowed values"}
	}
	return nil
}

func listLimit(field string, n, limit int) *fieldError {
	if n > limit {
		return &fieldError{field, fmt.Sprintf("more than %d items", limit)}
	}
	return nil
}

// first returns the first failure.
func first(errs ...*fieldError) *fieldError {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *Actor) check() *fieldError {
	return first(
		oneOf("actor.type", a.Type, "human", "agent", "system"),
		requireID("actor.id", a.ID),
		optionalID("actor.display", a.Display),
	)
}

func (p *Hello) check() *fieldError {
	if !ValidAgentID(p.AgentID) {
		return &fieldError{"payload.agent_id", "malformed"}
	}
	if !ValidVersion(p.AgentVersion) {
		return &fieldError{"payload.agent_version", "must be a semantic version"}
	}
	if p.SDK != nil && (p.SDK.Name == "" || len(p.SDK.Name) > maxIDBytes || !ValidVersion(p.SDK.Version)) {
		return &fieldError{"payload.sdk", "needs a name and a semantic version"}
	}
	if len(p.Protocol.SupportedVersions) == 0 {
		return &fieldError{"payload.protocol.supported_versions", "required"}
	}

	return first(
		requireID("payload.session_token", p.SessionToken),
		optionalID("payload.manifest_hash", p.ManifestHash),
		listLimit("payload.protocol.supported_versions", len(p.Protocol.SupportedVersions), maxShortListItems),
		listLimit("payload.protocol.capabilities", len(p.Protocol.Capabilities), maxShortListItems),
	)
}

func (p *Welcome) check() *fieldError {
	if p.HeartbeatIntervalMS <= 0 {
		return &fieldError{"payload.heartbeat_interval_ms", "must be positive"}
	}
	if p.MaxFrameBytes <= 0 {
		return &fieldError{"payload.max_frame_bytes", "must be positive"}
	}
	if p.AcceptedVersion <= 0 {
		return &fieldError{"payload.accepted_version", "required"}
	}
	return requireID("payload.session_id", p.SessionID)
}

func (p *Goodbye) check() *fieldError {
	return first(
		requireID("payload.reason", p.Reason),
		notNegative("payload.retry_after_ms", p.RetryAfterMS),
	)
}

func (p *Register) check() *fieldError {
	if p.Tools == nil {
		return &fieldError{"payload.tools", "required"}
	}
	return listLimit("payload.tools", len(p.Tools), maxToolsPerMsg)
}

func (p *Registered) check() *fieldError {
	for i := range p.Rejected {
		if p.Rejected[i].Error == nil {
			return &fieldError{"payload.rejected.error", "required"}
		}
		if err := p.Rejected[i].Error.check("payload.rejected.error"); err != nil {
			return err
		}
	}
	return nil
}

func (p *Unregister) check() *fieldError {
	if p.ToolIDs == nil {
		return &fieldError{"payload.tool_ids", "required"}
	}
	return listLimit("payload.tool_ids", len(p.ToolIDs), maxToolsPerMsg)
}

func (p *Unregistered) check() *fieldError { return nil }

func (p *ToolCall) check() *fieldError {
	if _, _, ok := p.ToolID.Split(); !ok {
		return &fieldError{"payload.tool_id", "must be <agent_id>/<tool_name>"}
	}
	if !isObject(p.Input) {
		return &fieldError{"payload.input", "must be an object"}
	}

	if p.Caller != nil {
		if err := oneOf("payload.caller.type", p.Caller.Type, "human", "agent", "system"); err != nil {
			return err
		}
	}

	if p.Context != nil {
		if err := optionalObject("payload.context.ui", p.Context.UI); err != nil {
			return err
		}
	}

	return first(
		requireID("payload.call_id", p.CallID),
		optionalID("payload.idempotency_key", p.IdempotencyKey),
		notNegative("payload.timeout_ms", p.TimeoutMS),
	)
}

func (p *ToolStream) check() *fieldError {
	if err := requireID("payload.call_id", p.CallID); err != nil {
		return err
	}
	if p.Seq < 1 {
		return &fieldError{"payload.seq", "must be 1 or more"}
	}
	if p.Channel == PartialResult {
		if !isObject(p.Data.JSON) {
			return &fieldError{"payload.data.json", "must be an object"}
		}
		return nil
	}
	if p.Data.Text == nil {
		return &fieldError{"payload.data.text", "required"}
	}

	return oneOf("payload.channel", p.Channel, Stdout, Stderr, Log, Status)
}

func (p *ToolResult) check() *fieldError {
	if p.Error != nil {
		if err := p.Error.check("payload.error"); err != nil {
			return err
		}
	}
	return first(
		requireID("payload.call_id", p.CallID),
		oneOf("payload.status", p.Status, Succeeded, Failed, Canceled),
		optionalObject("payload.metrics", p.Metrics),
	)
}

func (p *ToolCancel) check() *fieldError {
	return first(
		requireID("payload.call_id", p.CallID),
		optionalID("payload.reason", p.Reason),
		notNegative("payload.deadline_ms", p.DeadlineMS),
	)
}

func (p *CancelAck) check() *fieldError {
	return first(requireID("payload.call_id", p.CallID), optionalID("payload.note", p.Note))
}

func (p *Heartbeat) check() *fieldError {
	return first(
		requireID("payload.session_id", p.SessionID),
		notNegative("payload.uptime_ms", p.UptimeMS),
		notNegative("payload.inflight_calls", int64(p.InflightCalls)),
		oneOf("payload.status", p.Status, OK, Degraded, Unhealthy),
		optionalObject("payload.details", p.Details),
	)
}

func (*Ping) check() *fieldError       { return nil }
func (*Pong) check() *fieldError       { return nil }
func (*CoreError) check() *fieldError  { return nil }
func (*AgentError) check() *fieldError { return nil }
