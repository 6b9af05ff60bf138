// Command hello is an agent that a stranger writes with the Go SDK alone.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os/signal"
	"syscall"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := agent.Run(ctx, agent.Config{Version: "1.0.0", Tools: []agent.Tool{{
		Name:        "hello_world",
		InputSchema: json.RawMessage(`{"type":"object","required":["name"],"properties":{"name":{"type":"string","maxLength":200}}}`),
		Handler:     func(_ context.Context, c *agent.Call) (any, error) { return c.Input, nil },
	}}})
	if err != nil {
		log.Fatal(err)
	}
}
