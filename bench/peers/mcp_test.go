package peers_test

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// startMCP connects over stdin and stdout, and lists the tools as a host does.
func startMCP(tb testing.TB) (echo, func()) {
	args := child(tb, "mcp")
	client := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1.0.0"}, nil)
	session, err := client.Connect(context.Background(), &sdk.CommandTransport{Command: exec.Command(args[0], args[1:]...)}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := session.ListTools(context.Background(), nil); err != nil {
		tb.Fatal(err)
	}
	call := func(ctx context.Context, doc json.RawMessage) (json.RawMessage, error) {
		r, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "echo", Arguments: doc})
		if err != nil {
			return nil, err
		}
		if len(r.Content) == 1 {
			if text, ok := r.Content[0].(*sdk.TextContent); ok {
				return json.RawMessage(text.Text), nil
			}
		}
		return nil, errors.New("no text")
	}
	return call, func() {
		if err := session.Close(); err != nil {
			tb.Error(err)
		}
	}
}

func serveMCP(ctx context.Context, _ []string) error {
	s := sdk.NewServer(&sdk.Implementation{Name: "echo", Version: "1.0.0"}, nil)
	s.AddTool(&sdk.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(r.Params.Arguments)}}}, nil
		})
	return s.Run(ctx, &sdk.StdioTransport{})
}
