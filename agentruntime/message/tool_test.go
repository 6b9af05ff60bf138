package message

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/toolschema"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// asAgent makes this test binary an agent process.
const asAgent = "MESSAGE_TEST_AGENT"

// playAnalyst is the analyst as a process of its own.
func playAnalyst(ctx context.Context) error {
	return agent.Run(ctx, agent.Config{Version: "1.0.0", Tools: []agent.Tool{{
		Name: Tool, Description: "takes part", InputSchema: json.RawMessage(ToolInputSchema), OutputSchema: json.RawMessage(ToolOutputSchema),
		Handler: func(ctx context.Context, call *agent.Call) (any, error) {
			var in ToolInput
			if err := call.Decode(&in); err != nil {
				return nil, err
			}
			return analyse(ctx, in)
		},
	}}})
}

func analyse(ctx context.Context, in ToolInput) (out ToolOutput, err error) {
	m, err := Parse([]byte(in.Message))
	if err != nil {
		return out, err
	}
	origin := m
	if in.Origin != "" {
		if origin, err = Parse([]byte(in.Origin)); err != nil {
			return out, err
		}
	}
	action, err := (&world{clock: &clock{now: noon}}).askForData(ctx, m, origin)
	if err != nil {
		return out, err
	}
	doc, err := Encode(*action.m)
	if action.ask {
		return ToolOutput{Ask: string(doc)}, err
	}
	return ToolOutput{Answer: string(doc)}, err
}

// startAnalyst starts this binary as an agent and returns the call of its tool.
func startAnalyst(t *testing.T) func(ctx context.Context, input []byte) ([]byte, error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ye") // a short path, as a socket's must be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sup, err := supervisor.New(supervisor.Config{SocketDir: filepath.Join(dir, "run")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := sup.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	spec := supervisor.Spec{ID: analyst.AgentID, Command: []string{exe}, Env: []string{asAgent + "=1"}, Tools: []string{Tool}}
	if err := sup.Start(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, input []byte) ([]byte, error) {
		res, err := sup.Call(ctx, supervisor.Call{AgentID: analyst.AgentID, Tool: Tool, Input: input})
		var failed *supervisor.Error
		if errors.As(err, &failed) {
			return nil, FromOS(failed.Code, failed.Message)
		}
		return res.Output, err
	}
}

func TestAgentProcessTakesPart(t *testing.T) {
	requirements.Covers(t, "OS-9.3", "YE-O.3", "AP-A.3") // the same work, in this process and in another
	w := newWorld(t)
	w.analyse = ToolWork(startAnalyst(t))
	m := w.ask(t, example(t, "query"))
	if m.Type != TypeResponse || len(w.gave.chain.Sources) == 0 || !bytes.Equal(m.Evidence.Bytes(), w.gave.Bytes()) {
		t.Errorf("answer is %+v\n%s", m, w.logged)
	}
}

// answering is an agent process that answers every message like this.
func answering(output string) Work {
	return ToolWork(func(context.Context, []byte) ([]byte, error) { return []byte(output), nil })
}

func TestAgentProcessMisbehaves(t *testing.T) {
	q := parse(t, example(t, "query"))
	gap, err := json.Marshal(example(t, "gap"))
	if err != nil {
		t.Fatal(err)
	}
	for name, work := range map[string]Work{
		"no JSON":      answering("hello"),
		"no object":    answering("[]"),
		"neither":      answering(`{"reply":"{}"}`),
		"no message":   answering(`{"answer":"{}"}`),
		"an object":    answering(`{"answer":{}}`),
		"too long":     answering(`{"answer":"` + strings.Repeat("a", maxToolOutput) + `"}`),
		"not its own":  answering(`{"answer":` + string(gap) + `}`),
		"bad question": answering(`{"ask":"{}"}`),
		"use nothing":  answering(`{"use":{"tool":"","input":{}}}`),
		"use and ask":  answering(`{"use":{"tool":"bank","input":{}},"ask":"{}"}`),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.analyse = work
			wantFailure(t, w.ask(t, example(t, "query")), q, ValidationFailed)
		})
	}
	both := `{"answer":` + string(gap) + `,"ask":` + string(gap) + `}`
	if action, err := toolAction([]byte(both)); err == nil {
		t.Errorf("two things at once are %+v", action)
	}
	w := newWorld(t)
	w.analyse = ToolWork(func(context.Context, []byte) ([]byte, error) { return nil, &wire.Error{Code: wire.CodeUnavailable} })
	wantFailure(t, w.ask(t, example(t, "query")), q, SourceError)
	w.analyse = answering("{}")
	if m := w.ask(t, example(t, "query")); m != nil {
		t.Errorf("got %+v", m)
	}
}

func TestToolSchemasFit(t *testing.T) {
	for schema, docs := range map[string][2]string{
		ToolInputSchema:  {`{"message":"m","origin":"o"}`, `{"origin":"o"}`},
		ToolOutputSchema: {`{"answer":"a"}`, `{"answer":"a","ask":"b"}`},
	} {
		s, err := toolschema.Compile([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		if s.Validate([]byte(docs[0])) != nil || s.Validate([]byte(docs[1])) == nil {
			t.Errorf("%s", schema)
		}
	}
}
