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
	client := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1.0.0"}, nil)
	session, err := client.Connect(context.Background(), &sdk.CommandTransport{Command: exec.Command(child(tb, "mcp"))}, nil)
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
