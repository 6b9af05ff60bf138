package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/model/scripted"
)

const (
	canary = "canary-7f3a9c51d0"
)

// deltas of a stream.
const (
	hi   = `{"choices":[{"index":0,"delta":{"content":"hi"}}]}`
	stop = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
)

func callDelta(index int, id string) string {
	return fmt.Sprintf(`{"choices":[{"delta":{"tool_calls":[{"index":%d,"id":%q,"function":{"name":"x","arguments":"1"}}]}}]}`, index, id)
}

// Every way in which an endpoint misbehaves has its error, holds no key and
// ends at its first attempt, since another would go no better.
func TestMisbehaviour(t *testing.T) {
	whole := func(message string) scripted.Step {
		return scripted.Raw("application/json", `{"choices":[{"finish_reason":"stop","message":`+message+`}]}`)
	}
	fn := `"type":"function","function":{"name":"x","arguments":"1"}`
	for name, test := range map[string]struct {
		step   scripted.Step
		stream bool
		want   error
	}{
		"no JSON":                   {scripted.Raw("application/json", `{"choices":[`), false, chat.ErrBadResponse},
		"empty":                     {scripted.Raw("application/json", ""), false, chat.ErrBadResponse},
		"wrong content type":        {scripted.Raw("text/html", `{"choices":[{"finish_reason":"stop","message":{"content":"x"}}]}`), false, chat.ErrBadResponse},
		"stream not asked for":      {scripted.Raw(mediaEvents, "data: "+hi+"\n\n"), false, chat.ErrBadResponse},
		"invalid UTF-8":             {whole("{\"content\":\"\xff\"}"), false, chat.ErrBadResponse},
		"lone surrogate":            {whole(`{"content":"\ud800"}`), false, chat.ErrBadResponse},
		"member twice":              {whole(`{"content":"a","content":"b"}`), false, chat.ErrBadResponse},
		"other case":                {whole(`{"Role":"system","Tool_Calls":3}`), false, nil},
		"role":                      {whole(`{"role":"system","content":"x"}`), false, chat.ErrBadResponse},
		"content no text":           {whole(`{"content":["x"]}`), false, chat.ErrBadResponse},
		"arguments no text":         {whole(`{"tool_calls":[{"id":"a","type":"function","function":{"name":"x","arguments":{}}}]}`), false, chat.ErrBadResponse},
		"ids twice":                 {whole(`{"tool_calls":[{"id":"a",` + fn + `},{"id":"a",` + fn + `}]}`), false, chat.ErrBadResponse},
		"calls without number":      {whole(`{"tool_calls":[` + strings.TrimSuffix(strings.Repeat(`{`+fn+`},`, chat.MaxToolCalls+1), ",") + `]}`), false, chat.ErrBadResponse},
		"no choice":                 {scripted.Raw("application/json", `{"choices":[]}`), false, chat.ErrBadResponse},
		"not finished":              {scripted.Raw("application/json", `{"choices":[{"message":{"content":"x"}}]}`), false, chat.ErrBadResponse},
		"tokens":                    {scripted.Raw("application/json", `{"choices":[{"finish_reason":"stop","message":{"content":"x"}}],"usage":{"prompt_tokens":-1}}`), false, chat.ErrBadResponse},
		"deep":                      {scripted.Raw("application/json", strings.Repeat("[", 1<<20)), false, chat.ErrBadResponse},
		"100 MB":                    {scripted.Endless("application/json", 100), false, chat.ErrTooLarge},
		"100 MB announced":          {scripted.Status(200, "{", "Content-Type: application/json", "Content-Length: 104857600"), false, chat.ErrTooLarge},
		"100 MB of error":           {scripted.Status(400, strings.Repeat("x", 1<<20)), false, chat.ErrRefused},
		"redirect":                  {scripted.Status(307, "", "Location: /elsewhere"), false, chat.ErrBadResponse},
		"nothing":                   {scripted.Status(204, ""), false, chat.ErrBadResponse},
		"unauthorized":              {scripted.Status(401, `{"error":{"message":"Incorrect API key: `+canary+`"}}`), false, chat.ErrUnauthorized},
		"refused":                   {scripted.Status(404, `{"error":{"message":"no such model, `+canary+"\\u001b[31m"+`"}}`), false, chat.ErrRefused},
		"stream: 100 MB":            {scripted.Endless(mediaEvents, 100), true, chat.ErrBadResponse}, // its first event is no JSON
		"stream: 100 MB comment":    {scripted.Raw(mediaEvents, strings.Repeat(": x\n", 5<<20)), true, chat.ErrTooLarge},
		"stream: long line":         {scripted.Raw(mediaEvents, "data: "+strings.Repeat("x", maxLine)), true, chat.ErrTooLarge},
		"stream: long event":        {scripted.Raw(mediaEvents, strings.Repeat("data: "+strings.Repeat("x", 1<<10)+"\n", 1<<11)), true, chat.ErrTooLarge},
		"stream: no JSON":           {scripted.Stream(hi, "{"), true, chat.ErrBadResponse},
		"stream: invalid UTF-8":     {scripted.Stream("{\"choices\":[{\"delta\":{\"content\":\"\xc3\"}}]}"), true, chat.ErrBadResponse},
		"stream: second choice":     {scripted.Stream(`{"choices":[{"index":1,"delta":{"content":"x"}}]}`, stop), true, chat.ErrBadResponse},
		"stream: role":              {scripted.Stream(`{"choices":[{"delta":{"role":"tool"}}]}`, stop), true, chat.ErrBadResponse},
		"stream: ids twice":         {scripted.Stream(callDelta(0, "a"), callDelta(1, "a"), stop), true, chat.ErrBadResponse},
		"stream: id changes":        {scripted.Stream(callDelta(0, "a"), callDelta(0, "b"), stop), true, chat.ErrBadResponse},
		"stream: gap":               {scripted.Stream(callDelta(1, "a"), stop), true, chat.ErrBadResponse},
		"stream: negative":          {scripted.Stream(callDelta(-1, "a"), stop), true, chat.ErrBadResponse},
		"stream: cut after output":  {scripted.Cut(hi), true, chat.ErrUnavailable},
		"stream: ends unfinished":   {scripted.Stream(hi), true, chat.ErrUnavailable},
		"stream: done unfinished":   {scripted.Stream(hi, "[DONE]"), true, chat.ErrBadResponse},
		"stream: error after hello": {scripted.Stream(hi, `{"error":{"message":"overloaded","code":502}}`), true, chat.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("MODEL_TEST_KEY", canary)
			var log bytes.Buffer
			c, script := endpoint(t, Config{KeyEnv: "MODEL_TEST_KEY", Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}, test.step)
			var onText func(string)
			if test.stream {
				onText = func(string) {}
			}
			_, err := c.Chat(t.Context(), hello(), onText)
			if !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			if test.want == nil {
				return
			}
			var failed *chat.Error
			if !errors.As(err, &failed) || failed.Attempts != 1 || len(script.Requests()) != 1 {
				t.Errorf("%+v after %d requests", failed, len(script.Requests()))
			}
			if s := fmt.Sprintf("%v %+v %#v", err, err, *failed); strings.Contains(s+log.String(), canary) || len(s) > 2000 || strings.ContainsRune(s, 0x1b) {
				t.Errorf("error %s, log %s", s, log.String())
			}
			if got := script.Requests()[0].Header.Get("Authorization"); got != "Bearer "+canary {
				t.Errorf("sent %q", got)
			}
		})
	}
}

// A redirect is not followed, so the key goes nowhere else.
func TestRedirectKeepsKey(t *testing.T) {
	var reached atomic.Bool
	other := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	for _, code := range []int{301, 302, 303, 307, 308} {
		c, _ := endpoint(t, Config{}, scripted.Status(code, "", "Location: "+other))
		if _, err := c.Chat(t.Context(), hello(), nil); !errors.Is(err, chat.ErrBadResponse) {
			t.Errorf("%d: %v", code, err)
		}
	}
	if reached.Load() {
		t.Error("the client went on to the other host")
	}
}

func TestCancelled(t *testing.T) {
	for _, streamed := range []bool{true, false} {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		c, _ := endpoint(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
			scripted.Stream(hi)(w, r)
			cancel(enough)
			<-r.Context().Done()
		})
		var onText func(string)
		if streamed {
			onText = func(string) {}
		}
		if _, err := c.Chat(ctx, hello(), onText); !errors.Is(err, enough) {
			t.Errorf("streamed %v: %v", streamed, err)
		}
	}
}

func TestKey(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("MODEL_TEST_KEY", canary)
	t.Setenv("MODEL_TEST_BAD", canary+"\nX-Evil: 1")
	for name, test := range map[string]struct {
		cfg Config
		ok  bool
	}{
		"file":           {Config{KeyFile: file("good", canary+"\n", 0o600)}, true},
		"read only":      {Config{KeyFile: file("readonly", canary, 0o400)}, true},
		"environment":    {Config{KeyEnv: "MODEL_TEST_KEY"}, true},
		"both":           {Config{KeyFile: file("both", canary, 0o600), KeyEnv: "MODEL_TEST_KEY"}, false},
		"group may read": {Config{KeyFile: file("group", canary, 0o640)}, false},
		"all may read":   {Config{KeyFile: file("all", canary, 0o604)}, false},
		"folder":         {Config{KeyFile: dir}, false},
		"missing":        {Config{KeyFile: filepath.Join(dir, "none")}, false},
		"empty":          {Config{KeyFile: file("empty", "\n", 0o600)}, false},
		"long":           {Config{KeyFile: file("long", strings.Repeat(canary, 1000), 0o600)}, false},
		"two lines":      {Config{KeyFile: file("lines", canary+"\n"+canary, 0o600)}, false},
		"header":         {Config{KeyEnv: "MODEL_TEST_BAD"}, false},
		"not set":        {Config{KeyEnv: "MODEL_TEST_NONE"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			script := scripted.New(scripted.Text("x"))
			test.cfg.BaseURL, test.cfg.Model = serve(t, script), "m"
			c, err := New(test.cfg)
			if (err == nil) != test.ok {
				t.Fatal(err)
			}
			if strings.Contains(fmt.Sprintf("%v %+v %#v %v", c, c, c, err), canary) {
				t.Errorf("printed: %+v %v", c, err)
			}
			if !test.ok {
				return
			}
			defer c.Close()
			if _, err := c.Chat(t.Context(), hello(), nil); err != nil || script.Requests()[0].Header.Get("Authorization") != "Bearer "+canary {
				t.Errorf("%v, sent %v", err, script.Requests()[0].Header)
			}
		})
	}
}

func TestBaseURL(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://api.example.com/v1": true, "https://api.example.com/v1/": true, "http://127.0.0.1:8080/v1": true, "http://[::1]/v1": true, "http://localhost:1/v1": true,
		"http://api.example.com/v1": false, "http://127.0.0.1.example.com": false, "http://localhost.example.com": false, "": false, "api.example.com": false,
		"https://user:" + canary + "@api.example.com": false, "https://api.example.com?key=" + canary: false, "https://api.example.com#x": false, "file:///etc/passwd": false, "ftp://127.0.0.1": false,
		"https://%zz" + canary: false,
	} {
		if _, err := New(Config{BaseURL: url}); (err == nil) != ok || err != nil && strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := New(Config{BaseURL: "http://api.example.com", AllowHTTP: true}); err != nil {
		t.Error(err)
	}
}
