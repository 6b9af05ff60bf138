package wire

import "encoding/json"

// Hello opens a session (OS-4.1.1). SessionToken is the only secret that any
// message may hold; it is never logged.
type Hello struct {
	SessionToken string       `json:"session_token"`
	AgentID      string       `json:"agent_id"`
	AgentVersion string       `json:"agent_version"` // semver
	ManifestHash string       `json:"manifest_hash,omitzero"`
	Protocol     ProtocolInfo `json:"protocol"`
	SDK          *SDKInfo     `json:"sdk,omitzero"`
}

// ProtocolInfo is what the agent speaks.
type ProtocolInfo struct {
	SupportedVersions []int    `json:"supported_versions"`
	Capabilities      []string `json:"capabilities"`
}

// SDKInfo names the library that the agent is built with.
type SDKInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"` // semver
}

// Welcome answers Hello (OS-4.1.2). With an envelope error it is a refusal and
// its fields are empty.
type Welcome struct {
	AcceptedVersion     int        `json:"accepted_version,omitzero"`
	SessionID           string     `json:"session_id,omitzero"`
	HeartbeatIntervalMS int64      `json:"heartbeat_interval_ms,omitzero"`
	MaxFrameBytes       int        `json:"max_frame_bytes,omitzero"`
	Server              ServerInfo `json:"server"`
}

// ServerInfo names the core.
type ServerInfo struct {
	CoreVersion string `json:"core_version"`
	InstanceID  string `json:"instance_id"`
}

// Goodbye says that core is about to close the connection.
type Goodbye struct {
	Reason       string `json:"reason"`
	RetryAfterMS int64  `json:"retry_after_ms,omitzero"`
}

// Tool is one offered tool. Schemas are JSON Schema 2020-12 objects.
type Tool struct {
	ToolID            ToolID          `json:"tool_id"`
	Name              string          `json:"name"`
	Description       string          `json:"description"`
	InputSchema       json.RawMessage `json:"input_schema"`
	OutputSchema      json.RawMessage `json:"output_schema,omitzero"`
	Capabilities      []string        `json:"capabilities,omitempty"`
	SideEffects       bool            `json:"side_effects,omitzero"`
	RequiresDirective bool            `json:"requires_directive,omitzero"`
	Tags              []string        `json:"tags,omitempty"`
}

// Register offers tools (OS-4.2.1). What is wrong with a single tool is for
// core to reject, so only the shape of the list is checked here.
type Register struct {
	Tools   []Tool `json:"tools"`
	Replace bool   `json:"replace,omitzero"`
}

// Registered answers Register.
type Registered struct {
	Registered []ToolID       `json:"registered"`
	Rejected   []RejectedTool `json:"rejected,omitempty"`
}

// RejectedTool is one tool that was not registered, and why.
type RejectedTool struct {
	ToolID ToolID `json:"tool_id"`
	Error  *Error `json:"error"`
}

// Unregister withdraws tools.
type Unregister struct {
	ToolIDs []ToolID `json:"tool_ids"`
}

// Unregistered answers Unregister.
type Unregistered struct {
	ToolIDs []ToolID `json:"tool_ids"`
}

// ToolCall asks for one execution (OS-4.3.1).
type ToolCall struct {
	CallID         string          `json:"call_id"`
	ToolID         ToolID          `json:"tool_id"`
	Input          json.RawMessage `json:"input"` // object
	TimeoutMS      int64           `json:"timeout_ms,omitzero"`
	IdempotencyKey string          `json:"idempotency_key,omitzero"`
	Caller         *Caller         `json:"caller,omitzero"`
	Context        *CallContext    `json:"context,omitzero"`
}

// Caller is who called, without authority.
type Caller struct {
	Type string `json:"type"` // "human", "agent" or "system"
	ID   string `json:"id"`
}

// CallContext is non-secret metadata of a call.
type CallContext struct {
	ProjectRoot   string          `json:"project_root,omitzero"`
	ResourcePaths []string        `json:"resource_paths,omitempty"`
	UI            json.RawMessage `json:"ui,omitzero"` // object
}

// Channel is the kind of a stream chunk.
type Channel string

const (
	Stdout        Channel = "stdout"
	Stderr        Channel = "stderr"
	Log           Channel = "log"
	Status        Channel = "status"
	PartialResult Channel = "partial_result"
)

// ToolStream is one chunk of output of a running call (OS-4.3.2).
type ToolStream struct {
	CallID  string     `json:"call_id"`
	Seq     int64      `json:"seq"` // from 1, increasing within a call
	Channel Channel    `json:"channel"`
	Data    StreamData `json:"data"`
	Done    bool       `json:"done,omitzero"`
}

// StreamData holds JSON (an object) for PartialResult, Text for every other
// channel.
type StreamData struct {
	Text *string         `json:"text,omitzero"`
	JSON json.RawMessage `json:"json,omitzero"`
}

// ResultStatus is how a call ended.
type ResultStatus string

const (
	Succeeded ResultStatus = "succeeded"
	Failed    ResultStatus = "failed"
	Canceled  ResultStatus = "canceled"
)

// ToolResult ends a call (OS-4.3.3). That Output is an object is for core to
// check, so that a wrong one fails its call and nothing else.
type ToolResult struct {
	CallID     string          `json:"call_id"`
	Status     ResultStatus    `json:"status"`
	Output     json.RawMessage `json:"output,omitzero"`
	Error      *Error          `json:"error,omitzero"`
	StartedAt  Time            `json:"started_at,omitzero"`
	FinishedAt Time            `json:"finished_at,omitzero"`
	Metrics    json.RawMessage `json:"metrics,omitzero"` // object
}

// ToolCancel asks to stop a call.
type ToolCancel struct {
	CallID     string `json:"call_id"`
	Reason     string `json:"reason,omitzero"`
	DeadlineMS int64  `json:"deadline_ms,omitzero"`
}

// CancelAck answers ToolCancel.
type CancelAck struct {
	CallID   string `json:"call_id"`
	Accepted bool   `json:"accepted"`
	Note     string `json:"note,omitzero"`
}

// Health is what an agent says about itself.
type Health string

const (
	OK        Health = "ok"
	Degraded  Health = "degraded"
	Unhealthy Health = "unhealthy"
)

// Heartbeat is sent every heartbeat interval (OS-4.5.1).
type Heartbeat struct {
	SessionID     string          `json:"session_id"`
	UptimeMS      int64           `json:"uptime_ms"`
	InflightCalls int             `json:"inflight_calls"`
	Status        Health          `json:"status"`
	Details       json.RawMessage `json:"details,omitzero"` // object
}

// Ping and Pong are an explicit probe; heartbeats alone are enough.
type (
	Ping struct{}
	Pong struct{}
)

// CoreError and AgentError answer a message that could not be handled. What
// was wrong is in the envelope's error (K-15).
type (
	CoreError  struct{}
	AgentError struct{}
)

func (*Hello) messageType() Type        { return TypeHello }
func (*Welcome) messageType() Type      { return TypeWelcome }
func (*Goodbye) messageType() Type      { return TypeGoodbye }
func (*Register) messageType() Type     { return TypeRegister }
func (*Registered) messageType() Type   { return TypeRegistered }
func (*Unregister) messageType() Type   { return TypeUnregister }
func (*Unregistered) messageType() Type { return TypeUnregistered }
func (*ToolCall) messageType() Type     { return TypeToolCall }
func (*ToolStream) messageType() Type   { return TypeToolStream }
func (*ToolResult) messageType() Type   { return TypeToolResult }
func (*ToolCancel) messageType() Type   { return TypeToolCancel }
func (*CancelAck) messageType() Type    { return TypeCancelAck }
func (*Heartbeat) messageType() Type    { return TypeHeartbeat }
func (*Ping) messageType() Type         { return TypePing }
func (*Pong) messageType() Type         { return TypePong }
func (*CoreError) messageType() Type    { return TypeCoreError }
func (*AgentError) messageType() Type   { return TypeAgentError }

// newPayload returns an empty payload of a known type, nil for any other.
func newPayload(t Type) Payload {
	switch t {
	case TypeHello:
		return new(Hello)
	case TypeWelcome:
		return new(Welcome)
	case TypeGoodbye:
		return new(Goodbye)
	case TypeRegister:
		return new(Register)
	case TypeRegistered:
		return new(Registered)
	case TypeUnregister:
		return new(Unregister)
	case TypeUnregistered:
		return new(Unregistered)
	case TypeToolCall:
		return new(ToolCall)
	case TypeToolStream:
		return new(ToolStream)
	case TypeToolResult:
		return new(ToolResult)
	case TypeToolCancel:
		return new(ToolCancel)
	case TypeCancelAck:
		return new(CancelAck)
	case TypeHeartbeat:
		return new(Heartbeat)
	case TypePing:
		return new(Ping)
	case TypePong:
		return new(Pong)
	case TypeCoreError:
		return new(CoreError)
	case TypeAgentError:
		return new(AgentError)
	}

	return nil
}
