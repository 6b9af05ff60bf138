package mcp

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// feed gives a host what a server writes, reads it to its end, and returns the
// messages for the SDK and the host's answers.
func feed(t *testing.T, written string) (h *host, messages []jsonrpc.Message, answers string) {
	t.Helper()
	var files []*os.File
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, r, w)
	}
	defer closeAll(files)
	h = newHost(&process{stdin: files[1], stdout: files[2]}, slog.New(slog.DiscardHandler))
	h.begin()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = files[3].WriteString(written) // it may be too much for the host
		files[3].Close()
	}()
	got := make(chan string)
	go func() {
		buf := new(strings.Builder)
		_, _ = files[0].WriteTo(buf) // ends with the pipe
		got <- buf.String()
	}()
	for {
		m, err := h.conn.Read(t.Context())
		if err != nil {
			break
		}
		messages = append(messages, m)
	}
	files[2].Close()
	<-done
	// What has been queued is answered before the connection closes.
	close(h.conn.replies)
	<-h.conn.replied
	h.conn.closed = true
	files[1].Close()
	return h, messages, <-got
}

func TestConnPassesOnlyWhatTheSDKNeeds(t *testing.T) {
	h, messages, answers := feed(t, strings.Join([]string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"call-1","progress":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		`{"jsonrpc":"2.0","id":"p","method":"ping"}`,
		`{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage"}`,
		"", "\r", "[1]", `{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"m"}}` + "\r",
	}, "\n"))
	if len(messages) != 3 {
		t.Errorf("%d messages: %v", len(messages), messages)
	}
	if run := h.calls["call-1"]; len(run.notes) != 1 {
		t.Errorf("%d notes", len(run.notes))
	}
	if lines := strings.Split(strings.TrimSpace(answers), "\n"); len(lines) != 2 || !strings.Contains(lines[0], `"result":{}`) || !strings.Contains(lines[1], "-32601") {
		t.Errorf("answers %q", answers)
	}
}

func FuzzConn(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}` + "\n")
	f.Add(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"a":[1]}}}` + "\nx\n{")
	f.Add(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"call-1","progress":1e400}}`)
	f.Add(`{"jsonrpc":"2.0","id":{},"method":"ping"}`)
	f.Fuzz(func(t *testing.T, written string) {
		_, _, answers := feed(t, written)
		for line := range strings.Lines(answers) {
			if !jsontext.Value(line).IsValid() {
				t.Errorf("the host answers %q", line)
			}
		}
	})
}

// FuzzResult takes whatever a server answers a call with.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"t"},{"type":"resource","resource":{"uri":"u","blob":"AA=="}}],"structuredContent":{}}`), true)
	f.Add([]byte(`{"content":[{"type":"resource"}],"isError":true}`), false)
	f.Add([]byte(`null`), true)
	h := &host{log: slog.New(slog.DiscardHandler)}
	f.Fuzz(func(_ *testing.T, raw []byte, structured bool) {
		if !jsontext.Value(raw).IsValid() || len(raw) > largePart {
			return // the connection lets nothing else through
		}
		tool := new(remoteTool)
		if structured {
			tool.OutputSchema = jsontext.Value(`{"type":"object"}`)
		}
		if out, err := h.result(tool, raw); (out == nil) == (err == nil) {
			panic("neither or both")
		}
	})
}
