package typescript_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// call returns the output, or the code of the failure as "!code".
func (a *agent) call(ctx context.Context, c supervisor.Call) string {
	c.AgentID, c.Timeout = a.id, time.Minute
	r, err := a.Call(ctx, c)
	if failure := new(supervisor.Error); errors.As(err, &failure) {
		return "!" + failure.Code
	} else if err != nil {
		return err.Error()
	}
	return string(r.Output)
}

func input(format string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(format, args...))
}

func (a *agent) registers(t *testing.T) {
	infos, err := a.Tools(a.id)
	if err != nil || len(infos) != len(reference.InEveryLanguage) {
		t.Fatalf("%d tools, %v", len(infos), err)
	}
	for _, tool := range reference.Tools() {
		for _, info := range infos {
			if info.Name != tool.Name {
				continue
			}
			want := string(tool.InputSchema)
			if want == "" {
				want = `{"type":"object"}`
			}
			if info.Description != tool.Description || !sameJSON(string(info.InputSchema), want) || !sameJSON(string(info.OutputSchema), string(tool.OutputSchema)) {
				t.Errorf("%s: %q %s %s", tool.Name, info.Description, info.InputSchema, info.OutputSchema)
			}
		}
	}
}

func sameJSON(a, b string) bool {
	if a == "" || b == "" {
		return a == b
	}
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, errP := json.Marshal(x)
	q, errQ := json.Marshal(y)
	return errP == nil && errQ == nil && string(p) == string(q)
}

func (a *agent) outcomes(t *testing.T) {
	large := strings.Repeat("x", 3<<20)
	for _, tt := range []struct{ tool, input, want string }{
		{"hello_world", `{}`, `{"greeting":"Hello, world!"}`},
		{"hello_world", `{"name":"Zoë €"}`, `{"greeting":"Hello, Zoë €!"}`},
		{"hello_world", `{"name":""}`, "!" + wire.CodeInvalidInput},
		{"hello_world", `{"nom":"x"}`, "!" + wire.CodeInvalidInput},
		{"sleep", `{"ms":1}`, `{"slept_ms":1}`},
		{"sleep", `{"ms":"1"}`, "!" + wire.CodeInvalidInput},
		{"sleep", `{}`, "!" + wire.CodeInvalidInput},
		{"invalid_input", `{}`, "!" + wire.CodeInvalidInput},
		{"large_output", `{"bytes":0}`, `{"text":""}`},
		{"large_output", `{"bytes":3145728}`, `{"text":"` + large + `"}`},
		{"large_output", `{"bytes":4194304}`, "!" + wire.CodeOutputTooLarge},
	} {
		got := a.call(t.Context(), supervisor.Call{Tool: tt.tool, Input: json.RawMessage(tt.input)})
		if got != tt.want {
			t.Errorf("%s(%s): %.200s", tt.tool, tt.input, got)
		}
	}
}

func (a *agent) streams(t *testing.T) {
	var text strings.Builder
	chunks := 0
	got := a.call(t.Context(), supervisor.Call{Tool: "stream_counter", Input: input(`{"count":50}`), OnStream: func(c supervisor.Chunk) {
		if c.Channel == wire.Stdout {
			chunks++
			text.WriteString(c.Text)
		}
	}})
	want := ""
	for i := range 50 {
		want += fmt.Sprintln(i + 1)
	}
	if got != `{"count":50}` || text.String() != want || chunks != 50 {
		t.Errorf("%s, %d chunks: %q", got, chunks, text.String())
	}
}

func (a *agent) cancels(t *testing.T) {
	requirements.Covers(t, "OS-4.4.1.4")
	for tool, in := range map[string]string{"sleep": `{"ms":600000}`, "stream_counter": `{"count":9,"interval_ms":60000}`} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		began := time.Now()
		if got := a.call(ctx, supervisor.Call{Tool: tool, Input: json.RawMessage(in)}); got != "!"+wire.CodeCanceled {
			t.Errorf("%s: %s", tool, got)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s: canceled after %s", tool, took)
		}
	}
}

func (a *agent) writesFile(t *testing.T) {
	got := a.call(t.Context(), supervisor.Call{Tool: "large_output", Input: input(`{"bytes":5000000,"as_file":true}`)})
	var out struct {
		Path  string
		Bytes int
	}
	if err := json.Unmarshal([]byte(got), &out); err != nil || out.Bytes != 5_000_000 {
		t.Fatalf("%.200s", got)
	}
	if st, err := os.Stat(filepath.Join(a.dir, out.Path)); err != nil || st.Size() != 5_000_000 {
		t.Errorf("%s: %v %v", out.Path, st, err)
	}
}

func (a *agent) runsMany(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			name, chunks := fmt.Sprint("n", i), 0
			got := a.call(t.Context(), supervisor.Call{Tool: "hello_world", Input: input(`{"name":%q}`, name)})
			if want := fmt.Sprintf(`{"greeting":"Hello, %s!"}`, name); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			got = a.call(t.Context(), supervisor.Call{
				Tool: "stream_counter", Input: input(`{"count":%d}`, i),
				OnStream: func(supervisor.Chunk) { chunks++ },
			})
			if want := fmt.Sprintf(`{"count":%d}`, i); got != want || chunks != i+1 { // the last says done
				t.Errorf("%s and %d chunks, want %s", got, chunks, want)
			}
		})
	}
	wg.Wait()
}

func (a *agent) replays(t *testing.T) {
	requirements.Covers(t, "OS-4.3.1.6")
	c := supervisor.Call{Tool: "large_output", Input: input(`{"bytes":10,"as_file":true}`), IdempotencyKey: "k"}
	first, second := a.call(t.Context(), c), a.call(t.Context(), c)
	if first != second || strings.HasPrefix(first, "!") {
		t.Errorf("%s, then %s", first, second)
	}
}

// endsInTime: the agent must go at the goodbye, not at the SIGKILL after it.
func (a *agent) endsInTime(t *testing.T) {
	done := make(chan string, 1)
	go func() {
		done <- a.call(context.Background(), supervisor.Call{Tool: "sleep", Input: input(`{"ms":600000}`)})
	}()
	time.AfterFunc(50*time.Millisecond, func() { a.stop(t) })
	if got := <-done; !strings.HasPrefix(got, "!") {
		t.Errorf("the call in flight ends as %s", got)
	}
	if strings.Contains(a.logged(), "TOKEN") {
		t.Error("the log names the token")
	}
}
