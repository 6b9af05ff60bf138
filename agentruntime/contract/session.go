package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// sessionView is the state of the watches for one process of the agent. The goroutine of
// its player owns it.
type sessionView struct {
	all    *watch
	player *player

	saidIDs  map[string]bool // ids of the node's messages
	heardIDs map[string]bool // ids of the agent's messages
	calls    map[string]*callView
	cancels  map[string]bool // call ids
	greeted  bool
	tools    map[wire.ToolID]bool
	uptime   int64
}

// callView is the state of one call id.
type callView struct {
	requests []any // the messages that made it: usually one
	results  int
	seq      int64
	done     bool
}

// recordSent records a message of the node.
func (v *sessionView) recordSent(doc any) {
	if id := text(doc, "id"); id != "" {
		v.saidIDs[id] = true
	}

	id := text(doc, "payload", "call_id")
	switch wire.Type(text(doc, "type")) {
	case wire.TypeToolCall:
		if v.calls[id] == nil {
			v.calls[id] = &callView{}
		}
		v.calls[id].requests = append(v.calls[id].requests, doc)
	case wire.TypeToolCancel:
		v.cancels[id] = true
	}
}

// heard checks a message of the agent.
func (v *sessionView) heard(h *heard) {
	kind := wire.Type(text(h.doc, "type"))
	v.all.saw("frames")
	v.opening(kind, h)
	v.envelope(h)
	v.ids(h)
	v.errors(h)
	v.secrets(kind, h)

	switch kind {
	case wire.TypeRegister:
		v.register(h)
	case wire.TypeToolResult:
		v.result(h)
	case wire.TypeToolStream:
		v.stream(h)
	case wire.TypeHeartbeat:
		v.heartbeat(h)
	case wire.TypeCancelAck:
		v.cancelAck(h)
	}
}

func (v *sessionView) opening(kind wire.Type, h *heard) {
	if v.greeted {
		return
	}
	v.greeted = true
	v.all.saw("hello")
	if kind != wire.TypeHello {
		v.violate("hello", "the first message is %s", clip(string(h.raw)))
		return
	}
	if diff := match(map[string]any{
		"session_token": v.player.token, "agent_id": v.player.run.agent.ID, "agent_version": v.player.run.agent.Version,
		"protocol": map[string]any{"supported_versions": "$array", "capabilities": "$array"},
	}, member(h.doc, "payload"), "payload", vars{}); diff != "" {
		v.violate("hello", "%s", diff)
		return
	}

	versions, _ := member(h.doc, "payload", "protocol", "supported_versions").([]any)
	if !slices.Contains(versions, any(json.Number("1"))) {
		v.violate("hello", "supported_versions is %s", show(versions))
	}
}

// envelope leaves unknown types of the agent alone: the node ignores them.
func (v *sessionView) envelope(h *heard) {
	v.all.saw("envelope")
	_, err := wire.Decode(h.raw, wire.Agent)
	var bad *wire.DecodeError
	if errors.As(err, &bad) && bad.Code != wire.CodeUnknownType {
		v.violate("envelope", "%v: %s", err, clip(string(h.raw)))
	}
}

func (v *sessionView) ids(h *heard) {
	v.all.saw("message-ids")
	id, about := text(h.doc, "id"), text(h.doc, "in_reply_to")
	if v.heardIDs[id] {
		v.violate("message-ids", "id %q occurs twice", clip(id))
	}
	v.heardIDs[id] = true
	if about != "" && !v.saidIDs[about] {
		v.violate("message-ids", "in_reply_to %q is no message of the node", clip(about))
	}
}

// trace recognizes the stack traces of common languages.
var trace = regexp.MustCompile(`goroutine \d+ \[|Traceback \(most recent|File "[^"]+", line \d|\s+at .{1,200}:\d+:\d+|panicked at|\.go:\d+|at [\w.$]+\([\w.]+\.java:\d+\)`)

func (v *sessionView) errors(h *heard) {
	for _, e := range []any{member(h.doc, "error"), member(h.doc, "payload", "error")} {
		if e == nil {
			continue
		}
		v.all.saw("no-trace")
		if strings.Contains(text(e, "message"), "\n") || trace.MatchString(unescaped(e)) {
			v.violate("no-trace", "%s", show(e))
		}
		if member(e, "debug") != nil {
			v.violate("no-trace", "error.debug is there: %s", show(e))
		}
	}
}

// unescaped joins all strings of a value.
func unescaped(value any) string {
	switch x := value.(type) {
	case string:
		return x
	case []any:
		var b strings.Builder
		for _, item := range x {
			b.WriteString(unescaped(item) + "\n")
		}
		return b.String()
	case map[string]any:
		var b strings.Builder
		for _, item := range x {
			b.WriteString(unescaped(item) + "\n")
		}
		return b.String()
	}

	return ""
}

func (v *sessionView) secrets(kind wire.Type, h *heard) {
	v.all.saw("secret")
	if kind != wire.TypeHello && strings.Contains(string(h.raw), v.player.token) {
		v.violate("secret", "the session token is in %s", kind)
	}
}

// connected looks at the command lines of the process that was launched and of
// the one that connects.
func (v *sessionView) connected(proc *process, conn *net.UnixConn) {
	pids := []int{proc.cmd.Process.Pid}
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
				pids = append(pids, int(cred.Pid))
			}
		})
	}

	for _, pid := range pids {
		// A process that has ended has no command line to look at.
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.Contains(args, []byte(v.player.token)) {
			v.violate("secret", "the session token is on a command line")
		}
	}
}

// recordExit checks how the process ended.
func (v *sessionView) recordExit(proc *process, leaked bool) {
	v.all.saw("no-crash")
	if leaked {
		v.violate("secret", "the session token is in the output")
	}
	if proc.hasCrashed() {
		v.violate("no-crash", "the agent ends with %s", proc.cmd.ProcessState)
	}
}
