// Package agent is the Go SDK for agents of the OpenSentience runtime
// protocol: it connects to the node that launched the process, offers tools,
// runs their calls concurrently and keeps the session alive.
//
//	func main() {
//		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
//		defer stop()
//		err := agent.Run(ctx, agent.Config{Version: "1.0.0", Tools: []agent.Tool{{
//			Name:        "greet",
//			Description: "Greets by name.",
//			InputSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`),
//			Handler:     greet,
//		}}})
//		...
//	}
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// Environment variables that the node sets for an agent.
const (
	EnvSocketPath = "OPENSENTIENCE_SOCKET_PATH"
	EnvToken      = "OPENSENTIENCE_SESSION_TOKEN"
	EnvAgentID    = "OPENSENTIENCE_AGENT_ID"
)

const (
	sdkName    = "lightwork-agent"
	sdkVersion = "1.0.0"

	defaultMaxInflight    = 256
	defaultMaxStreamBytes = 16 << 20
	maxChunkBytes         = 64 << 10 // text of one stream chunk
	chunkOverhead         = 16       // bytes that a chunk counts besides its text
	envelopeReserve       = 16 << 10 // room in a frame for all but the output
	handshakeTimeout      = 10 * time.Second
	// stopGrace is how long Serve waits for handlers to see their cancellation.
	stopGrace = time.Second
)

var (
	// ErrDisconnected means that the node went away without a goodbye.
	ErrDisconnected = errors.New("agent: disconnected")
	// ErrUnauthorized means that the node refused the handshake.
	ErrUnauthorized = errors.New("agent: refused by the node")
	// ErrStreamLimit means that a call has streamed all it may.
	ErrStreamLimit = errors.New("agent: stream limit reached")
	// ErrStreamEnded means that a chunk came after Done or after the handler
	// returned.
	ErrStreamEnded = errors.New("agent: stream ended")
)

// Error is a failure that a handler wants the caller to see: its code and
// message go on the wire, so they must hold no secret.
type Error = wire.Error

// Fail makes an Error. Codes are dotted, "tool.failed" where none fits better.
func Fail(code, message string) *Error {
	return &Error{Code: code, Message: wire.SafeText(message)}
}

// Handler does one call. Its result is marshalled to JSON and must be an
// object; nil means {}. An *Error is sent as it is; what any other error says
// goes to the log only, and the caller gets code "tool.failed". ctx ends when
// the call is canceled, times out, or the session ends.
type Handler func(ctx context.Context, call *Call) (any, error)

// Tool is one offered tool.
type Tool struct {
	Name              string // without the agent's id
	Description       string
	InputSchema       json.RawMessage // JSON Schema 2020-12; nil accepts any object
	OutputSchema      json.RawMessage // optional
	Capabilities      []string        // default: streaming, cancellation
	SideEffects       bool
	RequiresDirective bool
	Tags              []string
	Timeout           time.Duration // own limit per call; 0 means the caller's
	Handler           Handler
}

// Config describes the agent. SocketPath, Token and ID come from the
// environment when they are empty.
type Config struct {
	ID           string // agent id, as in the manifest
	Version      string // semantic version, required
	ManifestHash string // optional; lets the node see drift
	SocketPath   string
	Token        string
	Tools        []Tool

	MaxFrameBytes  int   // largest frame read or written; 0 means 4 MiB
	MaxInflight    int   // concurrent calls; 0 means 256
	MaxOutputBytes int   // result of one call; 0 means what fits in a frame
	MaxStreamBytes int64 // streamed data of one call; 0 means 16 MiB

	Log *slog.Logger // nil discards
}

// Run connects and serves until ctx ends, the node says goodbye, or the
// connection is lost. It returns nil in the first two cases. There is no
// reconnecting: a session token is good for one session, and the node starts
// a new process for the next.
func Run(ctx context.Context, cfg Config) error {
	s, err := Connect(ctx, cfg)
	if err != nil {
		return err
	}
	err = s.Serve(ctx)
	if g := new(Goodbye); errors.As(err, &g) {
		return nil
	}
	return err
}

// Goodbye is what Serve returns after the node announced the end.
type Goodbye struct {
	Reason     string
	RetryAfter time.Duration // 0 if the node gave none
}

func (g *Goodbye) Error() string { return "agent: goodbye from the node: " + g.Reason }

// fillFromEnv takes what is missing from the environment. The token is removed
// from it at once, so that no child process and no dump of it finds one.
func (c *Config) fillFromEnv() {
	token := os.Getenv(EnvToken)
	os.Unsetenv(EnvToken)
	if c.Token == "" {
		c.Token = token
	}
	if c.SocketPath == "" {
		c.SocketPath = os.Getenv(EnvSocketPath)
	}
	if c.ID == "" {
		c.ID = os.Getenv(EnvAgentID)
	}
}

func (c *Config) validate() error {
	switch {
	case c.SocketPath == "":
		return errors.New("agent: no socket path: set " + EnvSocketPath)
	case c.Token == "":
		return errors.New("agent: no session token: set " + EnvToken)
	case !wire.ValidAgentID(c.ID):
		return errors.New("agent: missing or malformed agent id: set " + EnvAgentID)
	case !wire.ValidVersion(c.Version):
		return errors.New("agent: Version must be a semantic version")
	}

	if c.MaxFrameBytes <= 0 {
		c.MaxFrameBytes = frame.DefaultMaxBytes
	}
	if c.MaxInflight <= 0 {
		c.MaxInflight = defaultMaxInflight
	}
	if c.MaxStreamBytes <= 0 {
		c.MaxStreamBytes = defaultMaxStreamBytes
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// boundTool is a tool with its compiled schema.
type boundTool struct {
	Tool
	id    wire.ToolID
	input inputSchema
	quick atomic.Bool // its last call was
}

// bind compiles the tools and makes their registration.
func (c *Config) bind() (map[wire.ToolID]*boundTool, *wire.Register, error) {
	tools := make(map[wire.ToolID]*boundTool, len(c.Tools))
	reg := &wire.Register{Tools: make([]wire.Tool, 0, len(c.Tools)), Replace: true}
	for _, t := range c.Tools {
		id := wire.JoinToolID(c.ID, t.Name)
		if !wire.ValidToolName(t.Name) || t.Handler == nil || tools[id] != nil {
			return nil, nil, fmt.Errorf("agent: tool %q needs a handler and a name of its own", t.Name)
		}
		if t.InputSchema == nil {
			t.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
		input, err := compileInput(t.InputSchema)
		if err != nil {
			return nil, nil, fmt.Errorf("agent: input schema of %s: %w", t.Name, err)
		}
		if t.Capabilities == nil {
			t.Capabilities = []string{"streaming", "cancellation"}
		}
		tools[id] = &boundTool{Tool: t, id: id, input: input}
		reg.Tools = append(reg.Tools, wire.Tool{
			ToolID: id, Name: t.Name, Description: t.Description,
			InputSchema: t.InputSchema, OutputSchema: t.OutputSchema, Capabilities: t.Capabilities,
			SideEffects: t.SideEffects, RequiresDirective: t.RequiresDirective, Tags: t.Tags,
		})
	}

	return tools, reg, nil
}
