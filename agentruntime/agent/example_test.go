package agent_test

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// A whole agent: the node starts it and tells it by its environment where to
// connect. `lightwork agents call --dir` tries it.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err := agent.Run(ctx, agent.Config{Version: "1.0.0", Tools: []agent.Tool{{
		Name:        "count",
		Description: "Counts words.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
		Handler: func(_ context.Context, call *agent.Call) (any, error) {
			var in struct{ Text string }
			if err := call.Decode(&in); err != nil {
				return nil, err
			}
			if in.Text == "" {
				return nil, agent.Fail(wire.CodeInvalidInput, "there is nothing to count")
			}
			return map[string]int{"words": len(strings.Fields(in.Text))}, nil
		},
	}}})
	if err != nil {
		log.Fatal(err)
	}
}
