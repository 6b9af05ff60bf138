package mcp_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

type object = map[string]any

// everything starts the protocol's own test server.
func everything(t *testing.T) *node {
	return serve(t, "server-everything", nil, "echo", "get-sum", "get-structured-content", "get-env",
		"get-tiny-image", "get-resource-links", "get-resource-reference", "get-annotated-message",
		"trigger-long-running-operation", "gzip-file-as-resource")
}

func TestEverythingTools(t *testing.T) {
	n := everything(t)
	tools, err := n.Tools(agentID)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		if tool.Name == "echo" && tool.SideEffects || tool.Name == "toggle-simulated-logging" && !tool.SideEffects {
			t.Errorf("%s has side effects: %t", tool.Name, tool.SideEffects)
		}
		if strings.Contains(tool.Name, "sampling") || strings.Contains(tool.Name, "elicitation") || strings.Contains(tool.Name, "roots") {
			t.Errorf("%s is offered: the server believes that it gets more than calls", tool.Name)
		}
	}
	if missing := n.Status()[0].Missing; len(missing) > 0 {
		t.Errorf("missing: %q", missing)
	}
	var got content
	n.must(t, "echo", object{"message": "héllo <&>"}, &got)
	if len(got.Content) != 1 || got.Content[0].Text != "Echo: héllo <&>" {
		t.Errorf("echo gives %+v", got)
	}
	n.must(t, "get-sum", object{"a": 2, "b": 40}, &got)
	if got.Content[0].Text != "The sum of 2 and 40 is 42." {
		t.Errorf("get-sum gives %+v", got)
	}
	if e := n.failure(t, "get-sum", object{"a": "x", "b": 1}); e.Code != wire.CodeInvalidInput || e.FromAgent {
		t.Errorf("get-sum of a text: %+v", e)
	}
	var weather struct {
		Temperature float64
		Conditions  string
	}
	n.must(t, "get-structured-content", object{"location": "Chicago"}, &weather)
	if weather.Temperature != 36 || weather.Conditions != "Light rain / drizzle" {
		t.Errorf("get-structured-content gives %+v", weather)
	}
	// Nothing here may fetch from a network, and this says how a tool fails.
	if e := n.failure(t, "gzip-file-as-resource", object{"data": "ftp://127.0.0.1/x"}); e.Code != wire.CodeFailed || e.Message == "" {
		t.Errorf("gzip-file-as-resource: %+v", e)
	}
}

func TestEverythingContent(t *testing.T) {
	n := everything(t)
	var got content
	n.must(t, "get-tiny-image", object{}, &got)
	i := slices.IndexFunc(got.Content, func(c struct{ Type, Text, MIMEType, Data, URI string }) bool { return c.Type == "image" })
	if i < 0 || got.Content[i].MIMEType != "image/png" {
		t.Fatalf("get-tiny-image gives %.300v", got)
	}
	if png, err := base64.StdEncoding.DecodeString(got.Content[i].Data); err != nil || !strings.HasPrefix(string(png), "\x89PNG") {
		t.Errorf("no PNG: %v", err)
	}
	n.must(t, "get-resource-links", object{"count": 3}, &got)
	links := 0
	for _, c := range got.Content {
		if c.Type == "resource_link" && c.URI != "" {
			links++
		}
	}
	if links != 3 {
		t.Errorf("get-resource-links gives %+v", got)
	}
	out, err := n.call(t, "get-resource-reference", object{"resourceType": "Text", "resourceId": 1})
	if err != nil || !strings.Contains(string(out), `"type":"resource"`) {
		t.Errorf("get-resource-reference gives %s, %v", out, err)
	}
}

func TestEverythingHasAnEmptyEnvironment(t *testing.T) {
	n := everything(t)
	var got content
	n.must(t, "get-env", object{}, &got)
	var env map[string]string
	if err := json.Unmarshal([]byte(got.Content[0].Text), &env); err != nil {
		t.Fatal(err)
	}
	for name := range env {
		if name != "PATH" && name != "HOME" && name != "MEMORY_FILE_PATH" {
			t.Errorf("the server has %s in its environment", name)
		}
	}
	if env["PATH"] == "" {
		t.Error("the server has no PATH")
	}
}

func TestEverythingProgressAndCancel(t *testing.T) {
	n := everything(t)
	var got []string
	_, err := n.Call(t.Context(), supervisor.Call{
		AgentID: agentID, Tool: "trigger-long-running-operation", Input: json.RawMessage(`{"duration":0.3,"steps":3}`), Timeout: time.Minute,
		OnStream: func(c supervisor.Chunk) { got = append(got, string(c.Channel)+" "+c.Text) },
	})
	// The last one races the result, as MCP lets it.
	want := []string{"status progress 1/3", "status progress 2/3", "status progress 3/3"}
	if err != nil || len(got) < 2 || !slices.Equal(got, want[:len(got)]) {
		t.Errorf("streamed %q, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begin := time.Now()
	_, err = n.Call(ctx, supervisor.Call{
		AgentID: agentID, Tool: "trigger-long-running-operation", Input: json.RawMessage(`{"duration":600,"steps":6000}`), Timeout: 10 * time.Minute,
		OnStream: func(supervisor.Chunk) { cancel() },
	})
	if !errors.Is(err, context.Canceled) || time.Since(begin) > time.Minute {
		t.Errorf("after %s: %v", time.Since(begin), err)
	}
	if _, err := n.call(t, "echo", object{"message": "still here"}); err != nil {
		t.Error(err)
	}
}

func TestFilesystem(t *testing.T) {
	allowed := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(outside, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := serve(t, "server-filesystem", []string{allowed}, "read_text_file", "write_file", "list_directory", "create_directory")
	if missing := n.Status()[0].Missing; len(missing) > 0 {
		t.Errorf("missing: %q", missing)
	}
	path := filepath.Join(allowed, "a.txt")
	var got struct{ Content string }
	n.must(t, "write_file", object{"path": path, "content": "line\nline two\n"}, &got)
	if data, err := os.ReadFile(path); err != nil || string(data) != "line\nline two\n" {
		t.Errorf("wrote %q, %v", data, err)
	}
	n.must(t, "read_text_file", object{"path": path}, &got)
	if got.Content != "line\nline two\n" {
		t.Errorf("read %q", got.Content)
	}
	if err := os.Symlink(outside, filepath.Join(allowed, "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{outside, filepath.Join(allowed, "link"), filepath.Join(allowed, "..", "x")} {
		e := n.failure(t, "read_text_file", object{"path": path})
		if e.Code != wire.CodeFailed || !strings.Contains(e.Message, "denied") {
			t.Errorf("reading %s: %+v", path, e)
		}
	}
	if e := n.failure(t, "write_file", object{"path": outside, "content": "x"}); e.Code != wire.CodeFailed {
		t.Errorf("writing outside: %+v", e)
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "canary" {
		t.Errorf("outside is %q, %v", data, err)
	}
}

func TestMemory(t *testing.T) {
	n := serve(t, "server-memory", nil, "create_entities", "create_relations", "add_observations", "read_graph", "search_nodes", "delete_entities")
	var graph struct {
		Entities  []struct{ Name, EntityType string }
		Relations []struct{ From, To, RelationType string }
	}
	entities := []object{
		{"name": "Ada", "entityType": "person", "observations": []string{"wrote the first program"}},
		{"name": "Engine", "entityType": "machine", "observations": []string{}},
	}
	n.must(t, "create_entities", object{"entities": entities}, &graph)
	if len(graph.Entities) != 2 {
		t.Errorf("created %+v", graph)
	}
	n.must(t, "create_relations", object{"relations": []object{{"from": "Ada", "to": "Engine", "relationType": "programs"}}}, &graph)
	n.must(t, "read_graph", object{}, &graph)
	if len(graph.Entities) != 2 || graph.Entities[0].Name != "Ada" || len(graph.Relations) != 1 || graph.Relations[0].RelationType != "programs" {
		t.Errorf("the graph is %+v", graph)
	}
	n.must(t, "search_nodes", object{"query": "first program"}, &graph)
	if len(graph.Entities) != 1 || graph.Entities[0].EntityType != "person" {
		t.Errorf("found %+v", graph)
	}
	if e := n.failure(t, "add_observations", object{"observations": []object{{"entityName": "Nobody", "contents": []string{"x"}}}}); e.Code != wire.CodeFailed || !strings.Contains(e.Message, "Nobody") {
		t.Errorf("add_observations: %+v", e)
	}
	if _, err := os.Stat(filepath.Join(n.dir, "memory.jsonl")); err != nil {
		t.Errorf("the variable named with --env did not reach the server: %v", err)
	}
}
