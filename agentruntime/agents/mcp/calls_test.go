package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

var callTools = []string{"line", "hello", "raw", "long", "typed", "notes", "wait", "canceled", "refuse", "ask", "process"}

func TestArgumentsAndResultsKeepTheirBytes(t *testing.T) {
	n := serve(t, "calls", callTools...)
	// encoding/json would escape <, and a float64 holds none of the numbers.
	args := `{"b":1.50,"a":"<&> é","big":12345678901234567890123,"e":1E+2,"nested":{"z":[],"y":null}}`
	if line := n.text(t, "line", args); !strings.Contains(line, `"arguments":`+args) {
		t.Errorf("the server got %s", line)
	}
	out, err := n.call(t, "typed", `{"result":{"content":[],"structuredContent":{"n":12345678901234567890.10,"m":{"<":0}}}}`)
	if err != nil || string(out) != `{"n":12345678901234567890.10,"m":{"<":0}}` {
		t.Errorf("output %s, %v", out, err)
	}
}

func TestContent(t *testing.T) {
	n := serve(t, "calls", callTools...)
	result := `{"structuredContent":{"not":"promised"},"_meta":{"a":1},"content":[
		{"type":"text","text":"","annotations":{"audience":["user"]}},
		{"type":"image","mimeType":"image/png","data":"AAEC"},
		{"type":"audio","mimeType":"audio/wav","data":"AA=="},
		{"type":"resource_link","uri":"file:///a","name":"a","size":12,"artifact":{"path":"/etc/passwd"}},
		{"type":"resource","resource":{"uri":"x:y","text":"t","artifact":{"path":"/etc/passwd"}}},
		{"type":"resource","resource":{"uri":"x:z","blob":"AAEC"}}]}`
	want := `{"content":[{"type":"text","text":""},` +
		`{"type":"image","mimeType":"image/png","data":"AAEC"},` +
		`{"type":"audio","mimeType":"audio/wav","data":"AA=="},` +
		`{"type":"resource_link","uri":"file:///a","name":"a","size":12},` +
		`{"type":"resource","resource":{"uri":"x:y","text":"t"}},` +
		`{"type":"resource","resource":{"uri":"x:z","blob":"AAEC"}}]}`
	out, err := n.call(t, "raw", `{"result":`+result+`}`)
	if err != nil || string(out) != want {
		t.Errorf("output %s, %v", out, err)
	}
}

func TestBadResults(t *testing.T) {
	n := serve(t, "calls", callTools...)
	for _, tt := range []struct{ tool, result, code, message string }{
		{"raw", `{"isError":true,"content":[{"type":"text","text":"no\u0007 \nway"},{"type":"image","data":"AA=="},{"type":"text","text":"x"}]}`, wire.CodeFailed, "no  way x"},
		{"raw", `{"isError":true,"content":[]}`, wire.CodeFailed, "the tool failed"},
		{"typed", `{"isError":true,"content":[{"type":"text","text":"no"}]}`, wire.CodeFailed, "no"},
		{"typed", `{"content":[{"type":"text","text":"no"}]}`, wire.CodeInvalidOutput, "structured"},
		{"typed", `{"content":[],"structuredContent":[1]}`, wire.CodeInvalidOutput, ""},
		{"typed", `{"content":[],"structuredContent":{}}`, wire.CodeInvalidOutput, "missing n"},
		{"raw", `{"content":[{"type":"image","data":"%"}]}`, wire.CodeInvalidOutput, ""},
		{"raw", `{"content":[{"type":"video"}]}`, wire.CodeInvalidOutput, ""},
		{"raw", `{"content":[{"type":"text"}]}`, wire.CodeInvalidOutput, ""},
		{"raw", `{"content":7}`, wire.CodeInvalidOutput, ""},
		{"raw", `[]`, wire.CodeInvalidOutput, ""},
		{"raw", `{"resultType":"input_required","content":[]}`, wire.CodeFailed, "does not provide"},
	} {
		e := n.failure(t, tt.tool, `{"result":`+tt.result+`}`)
		if e.Code != tt.code || !strings.Contains(e.Message, tt.message) || e.Retryable {
			t.Errorf("%s gives %+v", tt.result, e)
		}
	}
	for code, want := range map[int]string{
		-32602: wire.CodeInvalidInput, -32601: wire.CodeUnavailable, -32603: wire.CodeFailed, 7: wire.CodeFailed, -32001: wire.CodeTimeout,
	} {
		if e := n.failure(t, "refuse", fmt.Sprintf(`{"code":%d}`, code)); e.Code != want || e.Message != "why not" {
			t.Errorf("JSON-RPC error %d gives %+v", code, e)
		}
	}
}

func TestLargePartsBecomeFiles(t *testing.T) {
	requirements.Covers(t, "OS-7.3.2", "K-39")
	n := serve(t, "calls", callTools...)
	text := strings.Repeat("0123456789abcdef", 150_000)
	blob := base64.StdEncoding.EncodeToString([]byte(text[:largePart]))
	out, err := n.call(t, "raw", `{"result":{"content":[{"type":"text","text":"`+text+`"},{"type":"text","text":"short"},`+
		`{"type":"image","mimeType":"image/png","data":"`+blob+`"},{"type":"resource","resource":{"uri":"a:b","text":"`+text[:largePart]+`"}}]}}`)
	if err != nil || len(out) > 1000 {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
	var got struct {
		Content []struct {
			Text     *string
			MIMEType string
			Artifact *artifact
			Resource *resource
		}
	}
	if err := json.Unmarshal(out, &got); err != nil || len(got.Content) != 4 || got.Content[2].Artifact == nil || got.Content[3].Resource == nil {
		t.Fatalf("%s: %v", out, err)
	}
	image, inner := got.Content[2], got.Content[3].Resource
	if image.MIMEType != "image/png" || inner.URI != "a:b" || inner.Artifact == nil || *inner.Artifact != *image.Artifact || image.Artifact.Bytes != largePart {
		t.Errorf("output %s", out)
	}
	a := got.Content[0].Artifact
	if a == nil || got.Content[0].Text != nil || a.Bytes != len(text) || a.URI != "artifact://sha256/"+filepath.Base(a.Path) || *got.Content[1].Text != "short" {
		t.Fatalf("output %s", out)
	}
	if data, err := os.ReadFile(filepath.Join(n.dir, a.Path)); err != nil || string(data) != text {
		t.Errorf("file: %d bytes, %v", len(data), err)
	}
	// What is in many small parts stays, and has its limit.
	if e := n.failure(t, "long", `{}`); e.Code != wire.CodeOutputTooLarge {
		t.Errorf("got %s", e.Code)
	}
}

func TestNotificationsAreStreamed(t *testing.T) {
	requirements.Covers(t, "OS-4.3.2.4", "OS-4.3.2.5")
	n := serve(t, "calls", callTools...)
	var got []string
	_, err := n.Call(t.Context(), supervisor.Call{
		AgentID: agentID, Tool: "notes", Input: json.RawMessage(`{}`), Timeout: time.Minute,
		OnStream: func(c supervisor.Chunk) { got = append(got, string(c.Channel)+" "+c.Text) },
	})
	want := []string{"status progress 3/10: half", "status progress 3.5", "log info: l: text", `log error: {"a":1}`}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
}

// A log message names no call. While several run it is nobody's.
func TestLogsOfOneCallAreNotGivenToAnother(t *testing.T) {
	n := serve(t, "calls", callTools...)
	ctx, cancel := context.WithCancel(t.Context())
	running, ended := make(chan struct{}), make(chan struct{})
	var waiting, noting []wire.Channel
	go func() {
		defer close(ended)
		_, _ = n.Call(ctx, supervisor.Call{
			AgentID: agentID, Tool: "wait", Input: json.RawMessage(`{}`), Timeout: time.Minute,
			OnStream: func(c supervisor.Chunk) {
				if waiting = append(waiting, c.Channel); len(waiting) == 1 {
					close(running)
				}
			},
		})
	}()
	select {
	case <-running:
	case <-ended:
		t.Fatal("the first call streamed nothing")
	}
	_, err := n.Call(t.Context(), supervisor.Call{
		AgentID: agentID, Tool: "notes", Input: json.RawMessage(`{}`), Timeout: time.Minute,
		OnStream: func(c supervisor.Chunk) { noting = append(noting, c.Channel) },
	})
	cancel()
	<-ended
	if err != nil || slices.Contains(waiting, wire.Log) || slices.Contains(noting, wire.Log) || len(noting) != 2 {
		t.Errorf("streamed %q and %q, %v", waiting, noting, err)
	}
}

func TestCancelAndTimeoutReachTheServer(t *testing.T) {
	requirements.Covers(t, "OS-4.4.1.4")
	n := serve(t, "calls", callTools...)
	for _, tt := range []struct {
		code  string
		limit time.Duration
	}{{wire.CodeTimeout, 3 * time.Second}, {wire.CodeCanceled, time.Minute}} {
		ctx, cancel := context.WithCancel(t.Context())
		id := make(chan string, 1)
		_, err := n.Call(ctx, supervisor.Call{
			AgentID: agentID, Tool: "wait", Input: json.RawMessage(`{}`), Timeout: tt.limit,
			OnStream: func(c supervisor.Chunk) {
				_, requestID, _ := strings.Cut(c.Text, ": ")
				id <- requestID
				if tt.code == wire.CodeCanceled {
					cancel()
				}
			},
		})
		cancel()
		if err == nil || !strings.HasPrefix(err.Error(), tt.code) {
			t.Fatalf("got %v, want %s", err, tt.code)
		}
		close(id)
		want, ok := <-id
		if !ok {
			t.Fatal("the call streamed nothing")
		}
		eventually(t, "the server is told", func() bool {
			return slices.Contains(strings.Fields(n.text(t, "canceled", `{}`)), want)
		})
	}
}

// The server gets neither a model nor a person nor folders.
func TestServerRequestsAreRefused(t *testing.T) {
	n := serve(t, "calls", callTools...)
	if hello := n.text(t, "hello", `{}`); !strings.Contains(hello, `"capabilities":{}`) {
		t.Errorf("the host introduces itself with %s", hello)
	}
	answers := strings.Split(n.text(t, "ask", `{}`), "\n")
	if len(answers) != 4 {
		t.Fatalf("answers %q", answers)
	}
	for i, a := range answers {
		var got struct {
			ID     string
			Result json.RawMessage
			Error  struct{ Code int }
		}
		err := json.Unmarshal([]byte(a), &got)
		if err != nil || got.ID != "q" || (i < 3) != (got.Error.Code == -32601) || (i == 3) != (string(got.Result) == "{}") {
			t.Errorf("answer %d: %s, %v", i, a, err)
		}
	}
}

func TestServerProcess(t *testing.T) {
	requirements.Covers(t, "OS-7.1.1")
	n := serve(t, "calls", callTools...)
	var got struct {
		PIDs   []int
		Leader bool
		Env    []string
		Sees   bool
	}
	if err := json.Unmarshal([]byte(n.text(t, "process", `{}`)), &got); err != nil {
		t.Fatal(err)
	}
	if !got.Leader {
		t.Error("the server has no process group of its own")
	}
	for _, kv := range got.Env {
		if name, _, _ := strings.Cut(kv, "="); name != "PATH" && name != "HOME" && name != "PASSED" {
			t.Errorf("the server has %s in its environment", name)
		}
	}
	if !slices.Contains(got.Env, "PASSED=yes") {
		t.Error("what --env names was not passed")
	}
	// Root may read what its user may not.
	if os.Geteuid() != 0 && got.Sees {
		t.Error("the server can read the agent's environment")
	}
	if err := n.StopAgent(t.Context(), agentID); err != nil {
		t.Fatal(err)
	}
	for _, pid := range got.PIDs {
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Errorf("process %d is still there: %v", pid, err)
		}
	}
}
