package supervisor

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A ^C on the node's terminal reaches neither guard nor agent, and the agent has
// no terminal: it leads a session of its own.
func TestTheTerminalIsTheNodesAlone(t *testing.T) {
	n := newNode(t, Config{})
	start(t, n, agentSpec("reference"))
	agent := n.Status()[0].PID
	guard := parent(t, agent)
	if group, err := unix.Getpgid(guard); err != nil || group != guard {
		t.Errorf("the guard %d is in group %d, %v", guard, group, err)
	}
	if session, err := unix.Getsid(agent); err != nil || session != agent {
		t.Errorf("the agent %d is in session %d, %v", agent, session, err)
	}
}
