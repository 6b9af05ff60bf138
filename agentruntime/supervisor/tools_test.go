package supervisor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// TestSchemasOfASession: a tool is rejected whose schemas are too much beside those
// of the others, and taken when one of those has gone.
func TestSchemasOfASession(t *testing.T) {
	s := &session{spec: &Spec{ID: fakeID}, schemaPace: rate.NewLimiter(0, 1<<30)}
	tool := func(name string, parts int) wire.Tool {
		schema := `{"allOf":[` + strings.Repeat("{},", parts) + `{}]}`
		return wire.Tool{ToolID: wire.JoinToolID(fakeID, name), Name: name, InputSchema: []byte(schema), OutputSchema: []byte(schema)}
	}
	register := func(replace bool, taken int, tools ...wire.Tool) {
		t.Helper()
		got := s.register(&wire.Register{Replace: replace, Tools: tools})
		var names []wire.ToolID
		for _, tool := range tools[:taken] {
			names = append(names, tool.ToolID)
		}
		if !slices.Equal(got.Registered, names) || len(got.Rejected) != len(tools)-taken {
			t.Fatalf("registered %v, rejected %v", got.Registered, got.Rejected)
		}
		for _, r := range got.Rejected {
			if r.Error.Code != wire.CodeInvalidTool || !strings.Contains(r.Error.Message, "too many beside the schemas of the other tools") {
				t.Errorf("rejected: %v", r.Error)
			}
		}
	}
	// Of 100,000, these take 2*(8000+21333), 2*(4000+5333), 2*(5000+8333).
	register(false, 2, tool("a", 7998), tool("b", 3998), tool("c", 4998))
	register(false, 1, tool("small", 100))
	register(false, 0, tool("c", 4998))
	s.unregister(&wire.Unregister{ToolIDs: []wire.ToolID{wire.JoinToolID(fakeID, "a")}})
	register(false, 1, tool("c", 4998))
	register(true, 1, tool("a", 7998))
}

// Compiling schemas costs us far more than sending them costs an agent: what one
// session may ask for in a minute is bounded.
func TestRegisteringAgainAndAgainIsPaced(t *testing.T) {
	f := newFake(t, Config{HeartbeatInterval: time.Hour}, Spec{})
	f.join("x")
	f.core.schemaPace = rate.NewLimiter(0, 10)
	register := func() *wire.Registered {
		f.send(&wire.Message{Payload: &wire.Register{Replace: true, Tools: []wire.Tool{{ToolID: fakeID + "/x", Name: "x", InputSchema: []byte(anyTool)}}}})
		return f.recv().Payload.(*wire.Registered)
	}
	for n := range 10 {
		if got := register(); len(got.Registered) != 1 {
			t.Fatalf("registration %d: %+v", n+1, got.Rejected[0].Error)
		}
	}
	got := register()
	if len(got.Rejected) != 1 || !got.Rejected[0].Error.Retryable || !strings.Contains(got.Rejected[0].Error.Message, "try again") {
		t.Errorf("beyond its pace: %+v", got)
	}
}
