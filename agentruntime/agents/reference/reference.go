// Package reference is the reference agent. Its seven small tools show the features
// of the runtime protocol and serve the tests of the runtime.
package reference

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/message"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// ID and Version identify the agent; the node may launch it under another id.
const (
	ID      = "lightwork.reference"
	Version = "1.0.0"
)

// ToolNames are the names of the tools.
var ToolNames = [...]string{"hello_world", "stream_counter", "sleep", "invalid_input", "large_output", message.Tool, "sign_in"}

// InEveryLanguage are the tools that the specification requires, and that the
// reference agents of the other SDKs have too.
var InEveryLanguage = ToolNames[:5]

// Run serves until ctx ends or the node ends the session. The environment set by
// the node says where to connect.
func Run(ctx context.Context, log *slog.Logger) error {
	return agent.Run(ctx, agent.Config{Version: Version, Tools: Tools(), Log: log})
}

// Tools returns the tools, in the order of ToolNames.
func Tools() []agent.Tool {
	return []agent.Tool{
		{
			Name:        "hello_world",
			Description: "Greets by name.",
			InputSchema: schema(`{"name":{"type":"string","minLength":1,"maxLength":200}}`),
			OutputSchema: schema(`{"greeting":{"type":"string"}}`,
				"greeting"),
			Handler: helloWorld,
			Tags:    []string{"reference"},
		},

		{
			Name:        "stream_counter",
			Description: "Streams the numbers from 1 to count, then returns count.",
			InputSchema: schema(`{"count":{"type":"integer","minimum":0,"maximum":100000},
				"interval_ms":{"type":"integer","minimum":0,"maximum":60000}}`, "count"),
			OutputSchema: schema(`{"count":{"type":"integer"}}`, "count"),
			Handler:      streamCounter,
			Tags:         []string{"reference"},
		},

		{
			Name:         "sleep",
			Description:  "Sleeps for ms milliseconds, or until it is canceled.",
			InputSchema:  schema(`{"ms":{"type":"integer","minimum":0,"maximum":3600000}}`, "ms"),
			OutputSchema: schema(`{"slept_ms":{"type":"integer"}}`, "slept_ms"),
			Handler:      sleep,
			Tags:         []string{"reference"},
		},

		{
			Name:        "invalid_input",
			Description: "Finds every input invalid.",
			Handler: func(context.Context, *agent.Call) (any, error) {
				return nil, agent.Fail(wire.CodeInvalidInput, "this tool accepts no input")
			},
			Tags: []string{"reference"},
		},

		{
			Name: "large_output",
			Description: "Returns a text of bytes bytes; with as_file it writes the text to a file in the agent's " +
				"working directory and returns its path.",
			InputSchema: schema(`{"bytes":{"type":"integer","minimum":0,"maximum":67108864},
				"as_file":{"type":"boolean"}}`, "bytes"),
			Handler:     largeOutput,
			SideEffects: true,
			Tags:        []string{"reference"},
		},

		{
			Name: message.Tool, Description: "Takes part in messages: a question TOOL INPUT is answered with what the tool gives.",
			InputSchema: json.RawMessage(message.ToolInputSchema), OutputSchema: json.RawMessage(message.ToolOutputSchema),
			Handler: handleMessage,
			Tags:    []string{"reference"},
		},

		{
			Name: "sign_in", Description: "Takes a PIN and gives a session: both are marked as secrets, so no record has them.",
			InputSchema:  schema(`{"user":{"type":"string","maxLength":200},"pin":{"type":"string","minLength":4,"x-secret":true}}`, "user", "pin"),
			OutputSchema: schema(`{"user":{"type":"string"},"session":{"type":"string","x-secret":true}}`, "user", "session"),
			Handler:      signIn,
			Tags:         []string{"reference"},
		},
	}
}

// schema returns an object schema that allows only the given properties.
func schema(properties string, required ...string) json.RawMessage {
	quoted := make([]string, len(required))
	for i, name := range required {
		quoted[i] = `"` + name + `"`
	}
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":%s,"required":[%s],"additionalProperties":false}`,
		properties, strings.Join(quoted, ",")))
}

func helloWorld(_ context.Context, call *agent.Call) (any, error) {
	in := struct{ Name string }{Name: "world"}
	if err := call.Decode(&in); err != nil {
		return nil, err
	}
	return map[string]string{"greeting": "Hello, " + in.Name + "!"}, nil
}

func streamCounter(ctx context.Context, call *agent.Call) (any, error) {
	var in struct {
		Count      int
		IntervalMS int64 `json:"interval_ms"`
	}
	if err := call.Decode(&in); err != nil {
		return nil, err
	}

	for i := 1; i <= in.Count; i++ {
		if err := call.Stream(wire.Stdout, fmt.Sprintf("%d\n", i)); err != nil {
			return nil, err
		}
		if err := pause(ctx, in.IntervalMS); err != nil {
			return nil, err
		}
	}

	if err := call.Done(); err != nil {
		return nil, err
	}
	return map[string]int{"count": in.Count}, nil
}

func sleep(ctx context.Context, call *agent.Call) (any, error) {
	var in struct{ MS int64 }
	if err := call.Decode(&in); err != nil {
		return nil, err
	}
	if err := pause(ctx, in.MS); err != nil {
		return nil, err
	}
	return map[string]int64{"slept_ms": in.MS}, nil
}

func pause(ctx context.Context, ms int64) error {
	if ms == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func largeOutput(_ context.Context, call *agent.Call) (any, error) {
	var in struct {
		Bytes  int
		AsFile bool `json:"as_file"`
	}
	if err := call.Decode(&in); err != nil {
		return nil, err
	}
	text := strings.Repeat("x", in.Bytes)
	if !in.AsFile {
		return map[string]string{"text": text}, nil
	}
	f, err := os.CreateTemp(".", "output-*.txt")
	if err != nil {
		return nil, fmt.Errorf("create output file: %w", err)
	}
	defer f.Close()

	if _, err := f.WriteString(text); err != nil {
		return nil, fmt.Errorf("write output file: %w", err)
	}
	return map[string]any{"path": f.Name(), "bytes": in.Bytes}, nil
}

// signIn derives the session from the PIN, so that a test can see that the PIN
// arrived.
func signIn(_ context.Context, call *agent.Call) (any, error) {
	var in struct{ User, PIN string }
	if err := call.Decode(&in); err != nil {
		return nil, err
	}
	slog.Info("signing in", "user", in.User, "with", in.PIN) // a deliberate mistake: the runtime must mask the PIN
	return map[string]string{"user": in.User, "session": "session-of-" + in.PIN}, nil
}
