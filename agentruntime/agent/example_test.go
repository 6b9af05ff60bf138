package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
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

// A tool that takes long shows what it has so far: text for people, and partial
// results for programs. The result follows them.
func ExampleCall_Partial() {
	node := serve(agent.Tool{
		Name: "squares", Description: "Squares numbers.",
		Handler: func(_ context.Context, call *agent.Call) (any, error) {
			var in struct{ Numbers []int }
			if err := call.Decode(&in); err != nil {
				return nil, err
			}
			sum := 0
			for _, n := range in.Numbers {
				if err := call.Stream(wire.Log, fmt.Sprintf("squaring %d", n)); err != nil {
					return nil, err
				}
				sum += n * n
				if err := call.Partial(map[string]int{"square": n * n}); err != nil {
					return nil, err
				}
			}
			return map[string]int{"sum": sum}, nil
		},
	})
	defer node.close()

	node.call("squares", `{"numbers":[3,4]}`)
	result := node.result(func(chunk *wire.ToolStream) {
		if chunk.Channel == wire.PartialResult {
			fmt.Printf("%s: %s\n", chunk.Channel, chunk.Data.JSON)
			return
		}
		fmt.Printf("%s: %s\n", chunk.Channel, *chunk.Data.Text)
	})
	fmt.Printf("%s: %s\n", result.Status, result.Output)
	// Output:
	// log: squaring 3
	// partial_result: {"square":9}
	// log: squaring 4
	// partial_result: {"square":16}
	// succeeded: {"sum":25}
}

// What a caller may know of a failure is said with Fail. What any other error says
// stays in the agent's log, because it may hold a secret.
func ExampleFail() {
	node := serve(
		agent.Tool{Name: "door", Handler: func(context.Context, *agent.Call) (any, error) {
			return nil, agent.Fail("door.locked", "the door is locked, try the window")
		}},
		agent.Tool{Name: "safe", Handler: func(context.Context, *agent.Call) (any, error) {
			return nil, fmt.Errorf("the code is not %d", 1234)
		}},
	)
	defer node.close()

	for _, tool := range []string{"door", "safe"} {
		node.call(tool, `{}`)
		result := node.result(nil)
		fmt.Printf("%s %s: %s, %s\n", tool, result.Status, result.Error.Code, result.Error.Message)
	}
	// Output:
	// door failed: door.locked, the door is locked, try the window
	// safe failed: tool.failed, the tool failed
}

// A handler that works for long looks at its context: it ends when the call is
// canceled or out of time. Whatever it returns then, the caller is told that the call
// was canceled.
func ExampleHandler() {
	node := serve(agent.Tool{Name: "wait", Handler: func(ctx context.Context, call *agent.Call) (any, error) {
		if err := call.Stream(wire.Status, "waiting"); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	defer node.close()

	node.call("wait", `{}`)
	result := node.result(func(chunk *wire.ToolStream) {
		fmt.Println(*chunk.Data.Text)
		node.send(&wire.ToolCancel{CallID: chunk.CallID})
	})
	fmt.Printf("%s: %s\n", result.Status, result.Error.Code)
	// Output:
	// waiting
	// canceled: tool.canceled
}
