package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

type sum struct {
	A int `json:"a"`
	B int `json:"b"`
}

// serveSDK is a server of the SDK, which speaks the newest protocol there is.
func serveSDK(*rawServer) {
	s := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "add", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *sdk.CallToolRequest, in sum) (*sdk.CallToolResult, map[string]int, error) {
			return nil, map[string]int{"sum": in.A + in.B}, nil
		})
	sdk.AddTool(s, &sdk.Tool{Name: "count"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		for i := range 3 {
			err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3, Message: "counting",
			})
			if err != nil {
				return nil, nil, err
			}
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "counted"}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "wait"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Message: "waiting"})
		<-ctx.Done()
		return nil, nil, os.WriteFile("canceled", nil, 0o600)
	})
	sdk.AddTool(s, &sdk.Tool{Name: "fail"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return nil, nil, fmt.Errorf("no such thing")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "grow"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		sdk.AddTool(s, &sdk.Tool{Name: "new"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{}, nil, nil
		})
		return &sdk.CallToolResult{}, nil, nil
	})
	if err := s.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func TestSDKServer(t *testing.T) {
	n := serve(t, "sdk", "add", "count", "wait", "fail", "grow")
	eventually(t, "the newest protocol is spoken", func() bool { return strings.Contains(n.log(), "protocol="+modernProtocol) })
	out, err := n.call(t, "add", `{"a":1,"b":2}`)
	if err != nil || string(out) != `{"sum":3}` {
		t.Errorf("add: %s, %v", out, err)
	}
	if e := n.failure(t, "add", `{"a":"x"}`); e.Code != wire.CodeInvalidInput {
		t.Errorf("add: %v", e)
	}
	if e := n.failure(t, "fail", `{}`); e.Code != wire.CodeFailed || e.Message != "no such thing" {
		t.Errorf("fail: %v", e)
	}
	var got []string
	_, err = n.Call(t.Context(), supervisor.Call{
		AgentID: agentID, Tool: "count", Input: json.RawMessage(`{}`), Timeout: time.Minute,
		OnStream: func(c supervisor.Chunk) { got = append(got, c.Text) },
	})
	if want := []string{"progress 1/3: counting", "progress 2/3: counting", "progress 3/3: counting"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("count: %q, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = n.Call(ctx, supervisor.Call{
		AgentID: agentID, Tool: "wait", Input: json.RawMessage(`{}`), Timeout: time.Minute,
		OnStream: func(supervisor.Chunk) { cancel() }, // the server has it by now
	})
	cancel()
	if e, ok := err.(*supervisor.Error); !ok || e.Code != wire.CodeCanceled {
		t.Errorf("wait: %v", err)
	}
	eventually(t, "the server is told of the end", func() bool {
		_, err := os.Stat(n.dir + "/canceled")
		return err == nil
	})
	if _, err := n.call(t, "grow", `{}`); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the change is seen", func() bool { return strings.Contains(n.log(), ErrToolsChanged.Error()) })
}
