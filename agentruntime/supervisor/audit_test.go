package supervisor

import (
	"context"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestAuditNames: what upstream has a name for is in the trail under that name,
// when it happens.
func TestAuditNames(t *testing.T) {
	requirements.Covers(t, "OSX-14")
	type names = []string
	happens := func(n *node, all names) func() bool {
		return func() bool {
			for _, name := range all {
				if len(n.audited(name)) == 0 {
					return false
				}
			}
			return true
		}
	}
	call := func(tool string) func(*node) {
		return func(n *node) {
			_, _ = n.Call(t.Context(), Call{AgentID: reference.ID, Tool: tool, Input: []byte(`{}`)})
		}
	}
	for role, c := range map[string]struct {
		do   func(*node)
		want names
	}{
		"reference": {call("hello_world"), names{"agent.run_started", "agent.connected", "tool.call_routed", "tool.call_completed"}},
		"tools":     {call("no_such_tool"), names{"security.denied"}},
		"crash":     {func(*node) {}, names{"agent.run_crashed"}},
		"exit":      {func(*node) {}, names{"agent.handshake_failed"}},
		"mute":      {func(*node) {}, names{"agent.heartbeat_missed", "agent.marked_unhealthy"}},
		"family": {func(n *node) {
			ctx, stop := context.WithTimeout(t.Context(), patience)
			defer stop()
			if err := n.StopAgent(ctx, reference.ID); err != nil {
				t.Error(err)
			}
		}, names{"agent.run_stopped"}},
	} {
		t.Run(role, func(t *testing.T) {
			var cfg Config
			if role == "mute" { // the others are to be healthy on a slow machine too
				cfg.HeartbeatInterval = 20 * time.Millisecond
			}
			n := newNode(t, cfg)
			_ = n.Start(t.Context(), agentSpec(role)) // some of them never join
			c.do(n)
			eventually(t, "the trail has all of it", happens(n, c.want))
		})
	}
}
