package mcp

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// Whatever a server does in a call, the call ends with a code, the agent's log
// names the reason, and the node has a working server again.
func TestServersThatBreakDuringACall(t *testing.T) {
	requirements.Covers(t, "M-16")
	for _, tt := range []struct{ tool, logged string }{
		{"die", "exit status 3"},
		{"garbage", ErrMalformed.Error()},
		{"giant", ErrMessageTooLarge.Error()},
		{"flood", ErrFlood.Error()},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			n := serve(t, "hostile", "pid", tt.tool)
			before := n.text(t, "pid", `{}`)
			if e := n.failure(t, tt.tool, `{}`); e.Code != wire.CodeUnavailable || e.Retryable {
				t.Errorf("got %+v", e)
			}
			eventually(t, "another server", func() bool {
				r, err := n.Call(t.Context(), supervisor.Call{AgentID: agentID, Tool: "pid", Input: json.RawMessage(`{}`)})
				return err == nil && !strings.Contains(string(r.Output), `"`+before+`"`)
			})
			if !strings.Contains(n.log(), "agent ends: mcp: the server ended") || !strings.Contains(n.log(), tt.logged) {
				t.Errorf("%s is not in the log", tt.logged)
			}
		})
	}
}

// A call that its caller made repeatable may be repeated.
func TestLostCallWithKeyIsRetryable(t *testing.T) {
	requirements.Covers(t, "M-16")
	n := serve(t, "hostile", "die")
	_, err := n.Call(t.Context(), supervisor.Call{AgentID: agentID, Tool: "die", Input: json.RawMessage(`{}`), IdempotencyKey: "k"})
	if e, ok := err.(*supervisor.Error); !ok || e.Code != wire.CodeUnavailable || !e.Retryable {
		t.Errorf("got %v", err)
	}
}

// A server that stops reading is given up, and until then holds up no caller.
func TestServerThatDoesNotRead(t *testing.T) {
	n := serve(t, "hostile", "deaf", "pid")
	large := json.RawMessage(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)
	givenUp := func() bool { return strings.Contains(n.log(), ErrNotReading.Error()) }
	for _, tool := range []string{"deaf", "pid"} {
		_, err := n.Call(t.Context(), supervisor.Call{AgentID: agentID, Tool: tool, Input: large, Timeout: 200 * time.Millisecond})
		if e, ok := err.(*supervisor.Error); (!ok || e.Code != wire.CodeTimeout) && !givenUp() {
			t.Errorf("%s: %v", tool, err)
		}
	}
	eventually(t, "the server is given up", givenUp)
	eventually(t, "another server", func() bool {
		_, err := n.Call(t.Context(), supervisor.Call{AgentID: agentID, Tool: "pid", Input: json.RawMessage(`{}`)})
		return err == nil
	})
}

// Notifications, announcements and stderr without end cost the server its
// notifications, and nothing else.
func TestStorm(t *testing.T) {
	begin := time.Now()
	n := serve(t, "hostile", "storm", "pid")
	var last string
	_, err := n.Call(t.Context(), supervisor.Call{
		AgentID: agentID, Tool: "storm", Input: json.RawMessage(`{}`), Timeout: time.Minute,
		OnStream: func(c supervisor.Chunk) { last = c.Text },
	})
	if err != nil {
		t.Fatal(err)
	}
	if last != "progress 1" && !strings.HasSuffix(last, " notifications dropped") {
		t.Errorf("streamed at last: %q", last)
	}
	n.text(t, "pid", `{}`)
	most := (2 + int(time.Since(begin)/stderrWindow)) * stderrPerWindow // of 20 MB
	if size := len(n.log()); size > most {
		t.Errorf("%d bytes of stderr passed, want %d at most", size, most)
	}
}

func TestChangedToolsAreRegistered(t *testing.T) {
	n := serve(t, "changing", "announce", "new")
	before := n.text(t, "announce", `{}`)
	// Announced, and not true: the server stays. The second announcement is.
	if again := n.text(t, "announce", `{}`); again != before {
		t.Errorf("the server changed from %s to %s", before, again)
	}
	eventually(t, "the new tool", func() bool {
		r, err := n.Call(t.Context(), supervisor.Call{AgentID: agentID, Tool: "new", Input: json.RawMessage(`{}`)})
		return err == nil && strings.Contains(string(r.Output), "new")
	})
	if !strings.Contains(n.log(), ErrToolsChanged.Error()) {
		t.Error("the reason is not in the log")
	}
}
