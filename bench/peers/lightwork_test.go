package peers_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
)

const agentID = "com.example.echo"

// startLightwork runs the child as an agent under the supervisor.
func startLightwork(tb testing.TB) (echo, func()) {
	return supervise(tb, "echo", child(tb, "lightwork"))
}

// startProgram runs an agent that is the node's own program.
func startProgram(tb testing.TB) (echo, func()) {
	return supervise(tb, "hello_world", built(tb, "lightwork-program", "../..", "-tags=libsecp256k1", "./cmd/lightwork"), "agent", "reference")
}

// supervise starts an agent, whose one tool is called.
func supervise(tb testing.TB, tool string, command ...string) (echo, func()) {
	dir, err := os.MkdirTemp("", "lw") // a socket's path must be short
	if err != nil {
		tb.Fatal(err)
	}
	s, err := supervisor.New(supervisor.Config{SocketDir: filepath.Join(dir, "s")})
	if err != nil {
		tb.Fatal(err)
	}
	err = s.Start(context.Background(), supervisor.Spec{
		ID: agentID, Version: "1.0.0", Command: command, Tools: []string{tool},
	})
	if err != nil {
		tb.Fatal(err)
	}
	call := func(ctx context.Context, doc json.RawMessage) (json.RawMessage, error) {
		r, err := s.Call(ctx, supervisor.Call{AgentID: agentID, Tool: tool, Input: doc, Timeout: time.Minute})
		return r.Output, err
	}
	return call, func() {
		if err := s.Stop(context.Background()); err != nil {
			tb.Error(err)
		}
		os.RemoveAll(dir)
	}
}
