package peers_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
)

const agentID = "com.example.echo"

// startLightwork runs the child as an agent under the supervisor.
func startLightwork(tb testing.TB) (echo, func()) {
	dir, err := os.MkdirTemp("", "lw") // a socket's path must be short
	if err != nil {
		tb.Fatal(err)
	}
	s, err := supervisor.New(supervisor.Config{SocketDir: filepath.Join(dir, "s")})
	if err != nil {
		tb.Fatal(err)
	}
	err = s.Start(context.Background(), supervisor.Spec{
		ID: agentID, Version: "1.0.0", Command: child(tb, "lightwork"), Tools: []string{"echo"},
	})
	if err != nil {
		tb.Fatal(err)
	}
	call := func(ctx context.Context, doc json.RawMessage) (json.RawMessage, error) {
		r, err := s.Call(ctx, supervisor.Call{AgentID: agentID, Tool: "echo", Input: doc, Timeout: time.Minute})
		return r.Output, err
	}
	return call, func() {
		if err := s.Stop(context.Background()); err != nil {
			tb.Error(err)
		}
		os.RemoveAll(dir)
	}
}

func serveLightwork(ctx context.Context, _ []string) error {
	return agent.Run(ctx, agent.Config{Version: "1.0.0", Tools: []agent.Tool{{
		Name:    "echo",
		Handler: func(_ context.Context, c *agent.Call) (any, error) { return c.Input, nil },
	}}})
}
