package model

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/model/scripted"
)

// Both forms of an answer give the same response, and arguments are the bytes
// the model wrote: spaces, order, numbers and escapes as they were.
func TestChat(t *testing.T) {
	args := "{ \"b\":1.0,\t\"a\" : \"\\u00e9é<>&\",\"b\":2e400 }\n"
	temperature, seed := 0.2, int64(7)
	for name, m := range map[string]chat.Message{
		"text":      {Content: "Grüße \U0001f600 <&>"},
		"calls":     {ToolCalls: []chat.ToolCall{scripted.Call("1", "look", args), scripted.Call("2", "look", "")}},
		"text+call": {Content: "let me see", ToolCalls: []chat.ToolCall{scripted.Call("1", "look", "not json")}},
	} {
		for _, streamed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				c, script := endpoint(t, Config{}, scripted.Message(m, chat.FinishStop))
				r := hello()
				r.Tools = []chat.Tool{chat.Offer("look", "looks", json.RawMessage(`{"type":"object"}`))}
				r.ToolChoice = "auto"
				r.Sampling = chat.Sampling{MaxTokens: 50, Temperature: &temperature, Seed: &seed}
				var text string
				onText := func(s string) { text += s }
				if !streamed {
					onText = nil
				}
				got, err := c.Chat(t.Context(), r, onText)
				if err != nil {
					t.Fatal(err)
				}
				want := chat.Response{
					Model: "scripted-1", Message: m, FinishReason: chat.FinishStop, Usage: &chat.Usage{PromptTokens: 7, CompletionTokens: 3},
					Sampling: r.Sampling, SystemFingerprint: "fp", Attempts: 1,
				}
				want.Message.Role = chat.RoleAssistant
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				if streamed && text != m.Content {
					t.Errorf("streamed %q", text)
				}
				sent := script.Requests()[0]
				if sent.Path != "/v1/chat/completions" || sent.Header.Get("Authorization") != "" {
					t.Errorf("sent %+v", sent)
				}
				var body map[string]any
				if err := json.Unmarshal(sent.Body, &body); err != nil {
					t.Fatal(err)
				}
				for field, want := range map[string]any{"model": "configured", "max_tokens": 50.0, "temperature": 0.2, "seed": 7.0, "tool_choice": "auto"} {
					if body[field] != want {
						t.Errorf("%s is %v", field, body[field])
					}
				}
				if _, ok := body["top_p"]; ok || (body["stream"] == true) != streamed {
					t.Errorf("sent %s", sent.Body)
				}
			})
		}
	}
}

// What endpoints are known to leave out or to repeat.
func TestChatLenient(t *testing.T) {
	delta := func(d string) string { return `{"choices":[{"delta":` + d + `}]}` }
	end := `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`
	for name, step := range map[string]scripted.Step{
		"no index": scripted.Stream(
			delta(`{"tool_calls":[{"id":"a","function":{"name":"x","arguments":"1"}}]}`), delta(`{"tool_calls":[{"function":{"arguments":"2"}}]}`),
			delta(`{"tool_calls":[{"id":"b","function":{"name":"y","arguments":"34"}}]}`), end),
		"id repeated": scripted.Stream(
			delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"1"}},{"index":1,"id":"b","type":"function","function":{"name":"y","arguments":"3"}}]}`),
			delta(`{"tool_calls":[{"index":1,"id":"b","function":{"name":"y","arguments":"4"}},{"index":0,"id":"a","function":{"arguments":"2"}}]}`), end, "[DONE]", "never read"),
		"whole": scripted.Raw("application/json", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":null,"tool_calls":[`+
			`{"id":"a","function":{"name":"x","arguments":"12"}},{"id":"b","function":{"name":"y","arguments":"34"}}]}}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := endpoint(t, Config{}, step)
			got, err := c.Chat(t.Context(), hello(), func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			fn := func(name, args string) chat.FunctionCall { return chat.FunctionCall{Name: name, Arguments: args} }
			want := []chat.ToolCall{{ID: "a", Type: "function", Function: fn("x", "12")}, {ID: "b", Type: "function", Function: fn("y", "34")}}
			if diff := cmp.Diff(want, got.Message.ToolCalls); diff != "" || got.Usage != nil || got.Model != "configured" {
				t.Errorf("%s %+v", diff, got)
			}
		})
	}
	t.Run("ids missing", func(t *testing.T) {
		calls := []chat.ToolCall{scripted.Call("", "x", ""), scripted.Call("", "x", "")}
		calls[0].ID, calls[1].ID = "", ""
		c, _ := endpoint(t, Config{}, scripted.Calls(calls...))
		got, err := c.Chat(t.Context(), hello(), nil)
		if err != nil || got.Message.ToolCalls[0].ID == got.Message.ToolCalls[1].ID {
			t.Errorf("%+v %v", got, err)
		}
	})
	t.Run("does not stream", func(t *testing.T) {
		c, _ := endpoint(t, Config{}, scripted.Raw("application/json", `{"choices":[{"finish_reason":"stop","message":{"content":"whole"}}]}`))
		var text []string
		if _, err := c.Chat(t.Context(), hello(), func(s string) { text = append(text, s) }); err != nil || !slices.Equal(text, []string{"whole"}) {
			t.Errorf("%q %v", text, err)
		}
	})
}

func TestChatRefusesRequest(t *testing.T) {
	c, script := endpoint(t, Config{}, scripted.Text("x"))
	high := 3.0
	for name, change := range map[string]func(*chat.Request){
		"no messages":       func(r *chat.Request) { r.Messages = nil },
		"unknown role":      func(r *chat.Request) { r.Messages[0].Role = "root" },
		"no UTF-8":          func(r *chat.Request) { r.Messages[0].Content = "\xff" },
		"answer to nothing": func(r *chat.Request) { r.Messages[0].Role = chat.RoleTool },
		"user calls a tool": func(r *chat.Request) { r.Messages[0].ToolCalls = []chat.ToolCall{scripted.Call("1", "x", "")} },
		"tool name":         func(r *chat.Request) { r.Tools = []chat.Tool{chat.Offer("a b", "", nil)} },
		"tool twice":        func(r *chat.Request) { r.Tools = []chat.Tool{chat.Offer("a", "", nil), chat.Offer("a", "", nil)} },
		"tool schema":       func(r *chat.Request) { r.Tools = []chat.Tool{chat.Offer("a", "", json.RawMessage("{"))} },
		"tool choice":       func(r *chat.Request) { r.ToolChoice = "shell" },
		"temperature":       func(r *chat.Request) { r.Temperature = &high },
		"top_p":             func(r *chat.Request) { r.TopP = &high },
		"max_tokens":        func(r *chat.Request) { r.MaxTokens = -1 },
		"format":            func(r *chat.Request) { r.ResponseFormat = json.RawMessage("json") },
	} {
		r := hello()
		change(&r)
		if _, err := c.Chat(t.Context(), r, nil); err == nil || errors.As(err, new(*chat.Error)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(script.Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestEmbed(t *testing.T) {
	c, script := endpoint(t, Config{}, scripted.Raw("application/json", `{"object":"list","model":"e-1","data":[{"object":"embedding","index":1,"embedding":[0.5,-1e-3]},{"index":0,"embedding":[1,2]}],"usage":{"prompt_tokens":4,"total_tokens":4}}`))
	got, err := c.Embed(t.Context(), "", []string{"a", "b"})
	want := Embedding{"e-1", [][]float32{{1, 2}, {0.5, -1e-3}}, &chat.Usage{PromptTokens: 4}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	if r := script.Requests()[0]; r.Path != "/v1/embeddings" || string(r.Body) != `{"model":"configured","input":["a","b"],"encoding_format":"float"}` {
		t.Errorf("%s %s", r.Path, r.Body)
	}
	for _, bad := range []string{
		`{"data":[]}`, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`,
		`{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}`, `{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}`,
		`{"data":[{"index":0,"embedding":[1e39]},{"index":1,"embedding":[1]}]}`, `{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}`,
		`{"data":[{"index":0,"embedding":[null]},{"index":1,"embedding":"AAAA"}]}`,
	} {
		c, _ := endpoint(t, Config{}, scripted.Raw("application/json", bad))
		if _, err := c.Embed(t.Context(), "m", []string{"a", "b"}); !errors.Is(err, chat.ErrBadResponse) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, texts := range [][]string{nil, {""}, {"\xff"}, slices.Repeat([]string{"x"}, maxEmbedTexts+1)} {
		if _, err := c.Embed(t.Context(), "m", texts); err == nil || strings.Contains(err.Error(), "endpoint") {
			t.Errorf("%d texts: %v", len(texts), err)
		}
	}
}
