package contract

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// faults are the broken agents by name.
var faults = map[string]fault{
	"no hello": {
		agent:  on(wire.TypeHello, drop),
		checks: []string{"handshake"}, line: "OS-4.1.1.1",
	},
	"something before hello": {
		agent: on(wire.TypeHello, func(_ *proxy, m message) []message {
			return []message{reply(wire.TypePong, map[string]any{}), m}
		}),
		checks: []string{"hello"}, line: "OS-4.1.1.1",
	},
	"wrong agent id": {
		agent:  edit(wire.TypeHello, func(p map[string]any) { p["agent_id"] = "com.example.other" }),
		checks: []string{"hello"}, line: "OS-4.1.1.3",
	},
	"wrong version": {
		agent:  edit(wire.TypeHello, func(p map[string]any) { p["agent_version"] = "9.9.9" }),
		checks: []string{"hello"}, line: "OS-4.1.1.4",
	},
	"no common version": {
		agent: edit(wire.TypeHello, func(p map[string]any) {
			p["protocol"].(map[string]any)["supported_versions"] = []any{2}
		}),
		checks: []string{"hello"}, line: "OS-6.1.1",
	},
	"registers early": {
		agent: on(wire.TypeHello, func(_ *proxy, m message) []message {
			return []message{m, reply(wire.TypeRegister, map[string]any{"tools": []any{}})}
		}),
		checks: []string{"welcome-first", "refused", "refused-version", "accepted-version"}, line: "OS-5.3.2",
	},
	"tool of another": {
		agent:  edit(wire.TypeRegister, func(p map[string]any) { firstTool(p)["tool_id"] = "com.example.other/hello_world" }),
		checks: []string{"tools"}, line: "OS-4.2.1.2",
	},
	"broken schema": {
		agent: edit(wire.TypeRegister, func(p map[string]any) {
			firstTool(p)["output_schema"] = map[string]any{"type": "objekt"}
		}),
		checks: []string{"tools"}, line: "OS-4.2.2.4",
	},
	"tool twice": {
		agent:  edit(wire.TypeRegister, func(p map[string]any) { p["tools"] = append(p["tools"].([]any), firstTool(p)) }),
		checks: []string{"tools"}, line: "OS-4.2.2.5",
	},
	"two results": {
		agent: on(wire.TypeToolResult, func(_ *proxy, m message) []message {
			again := reply(wire.TypeToolResult, m.payload())
			for _, name := range []string{"request_id", "correlation_id", "causation_id"} {
				if m[name] != nil {
					again[name] = m[name]
				}
			}
			return []message{m, again}
		}),
		checks: []string{"one-result"}, line: "OS-4.3.3.8",
	},
	"no heartbeat": {
		agent:  on(wire.TypeHeartbeat, drop),
		checks: []string{"heartbeat", "heartbeat-inflight"}, line: "OS-4.5.1.1",
	},
	"heartbeat of another session": {
		agent:  edit(wire.TypeHeartbeat, func(p map[string]any) { p["session_id"] = "x" }),
		checks: []string{"heartbeat-shape"}, line: "OS-4.5.1.2",
	},
	"heartbeat without calls": {
		agent:  edit(wire.TypeHeartbeat, func(p map[string]any) { p["inflight_calls"] = 0 }),
		checks: []string{"heartbeat-inflight"}, line: "OS-4.5.1.2",
	},
	"prints the token": {
		before: func() { fmt.Println("token", os.Getenv(agent.EnvToken)) },
		checks: []string{"secret"}, line: "OS-5.1.2",
	},
	"sends the token": {
		agent: func() func(*proxy, message) []message {
			token := os.Getenv(agent.EnvToken)
			return edit(wire.TypeHeartbeat, func(p map[string]any) { p["details"] = map[string]any{"t": token} })
		}(),
		checks: []string{"secret"}, line: "OS-7.1.1",
	},
	"seq from 0": {
		agent: edit(wire.TypeToolStream, func(p map[string]any) {
			n, _ := p["seq"].(json.Number).Int64()
			p["seq"] = n - 1
		}),
		// 0 is no seq at all, so the envelope's check sees it, too.
		checks: []string{"stream-order", "stream", "stream-two", "envelope"}, line: "OS-4.3.2.3",
	},
	"chunk after done": {
		agent: on(wire.TypeToolStream, func(_ *proxy, m message) []message {
			if m.payload()["done"] != true {
				return []message{m}
			}
			late := message{}
			for name, value := range m {
				late[name] = value
			}
			n, _ := m.payload()["seq"].(json.Number).Int64()
			late["id"] = wire.NewID()
			late["payload"] = map[string]any{"call_id": m.payload()["call_id"], "seq": n + 1, "channel": "stdout", "data": map[string]any{"text": "late"}}
			return []message{m, late}
		}),
		checks: []string{"stream-order"}, line: "OS-4.3.2.7",
	},
	"stack trace": {
		agent: edit(wire.TypeToolResult, func(p map[string]any) {
			if e, ok := p["error"].(map[string]any); ok {
				e["message"] = "Traceback (most recent call last): File \"a.py\", line 3, in f"
			}
		}),
		checks: []string{"no-trace"}, line: "OS-7.4.1",
	},
	"debug object": {
		agent: edit(wire.TypeToolResult, func(p map[string]any) {
			if e, ok := p["error"].(map[string]any); ok {
				e["debug"] = map[string]any{"a": 1}
			}
		}),
		checks: []string{"no-trace"}, line: "OS-3.3.7",
	},
	"no correlation": {
		agent: func(_ *proxy, m message) []message {
			delete(m, "correlation_id")
			return []message{m}
		},
		checks: []string{"echoed-ids", "echo", "stream"}, line: "OS-3.1.7",
	},
	"one message id": {
		agent:  func(_ *proxy, m message) []message { return m.with("id", "always") },
		checks: []string{"message-ids"}, line: "OS-3.0.4",
	},
	"local time": {
		agent:  func(_ *proxy, m message) []message { return m.with("ts", "2026-01-16 12:00:00") },
		checks: []string{"envelope"}, line: "OS-3.0.5",
	},
	"failure without error": {
		agent: edit(wire.TypeToolResult, func(p map[string]any) {
			if p["status"] == "canceled" {
				delete(p, "error")
			}
		}),
		checks: []string{"result-shape", "cancel"}, line: "OS-4.3.3.9",
	},
	"no validation": {
		agent: edit(wire.TypeToolResult, func(p map[string]any) {
			if e, ok := p["error"].(map[string]any); ok && e["code"] == wire.CodeInvalidInput {
				delete(p, "error")
				p["status"], p["output"] = "succeeded", map[string]any{}
			}
		}),
		checks: []string{"invalid-input", "call-refused"}, line: "OS-4.3.1.10",
	},
	"no agent.error": {
		agent:  on(wire.TypeAgentError, drop),
		checks: []string{"unknown-type-asked", "wrong-direction", "input-not-object"}, line: "OS-6.2.2",
	},
	"error loop": {
		core: on(wire.TypeCoreError, func(p *proxy, m message) []message {
			answer := reply(wire.TypeAgentError, map[string]any{})
			answer["in_reply_to"], answer["error"] = m["id"], map[string]any{"code": "protocol.invalid_message", "message": "m"}
			p.say(answer)
			return nil
		}),
		checks: []string{"no-error-loop", "unknown-fields"}, line: "K-15",
	},
	"waits for an oversize body": {
		bytes:  awaitBodies(),
		checks: []string{"frame-over-limit"}, line: "OS-2.2.8",
	},
	"ends a message at a newline": {
		bytes: func(data []byte) []byte {
			head, _, found := bytes.Cut(data, []byte("\t\n"))
			if !found {
				return data
			}
			return addLength(append([]byte("{}"), head[len(head):]...))
		},
		checks: []string{"newlines"}, line: "OS-2.1.4",
	},
	"reads one frame at a time": {
		bytes: func(data []byte) []byte {
			if bytes.Contains(data, []byte(`"call-100"`)) {
				return data[:4+int(data[2])*256+int(data[3])]
			}
			return data
		},
		checks: []string{"frames-together", "slow-reader", "inflight-256", "inflight-257"}, line: "OS-2.1.5",
	},
	"ignores cancel": {
		core:   on(wire.TypeToolCancel, func(p *proxy, m message) []message { return nil }),
		checks: []string{"cancel", "cancel-stream", "cancel-twice", "interleaved", "duplicate-call", "heartbeat-inflight", "inflight-257"},
		line:   "OS-4.4.1.4",
	},
	"accepts any cancel": {
		agent:  edit(wire.TypeCancelAck, func(p map[string]any) { p["accepted"] = true }),
		checks: []string{"cancel-acks"}, line: "OS-4.4.2.1",
	},
	"no idempotency": {
		core:   edit(wire.TypeToolCall, func(p map[string]any) { delete(p, "idempotency_key") }),
		checks: []string{"idempotency", "idempotency-running"}, line: "OS-4.3.1.6",
	},
	"no timeout": {
		core:   edit(wire.TypeToolCall, func(p map[string]any) { delete(p, "timeout_ms") }),
		checks: []string{"timeout"}, line: "OS-4.3.1.5",
	},
	"chokes on new fields": {
		core: func(p *proxy, m message) []message {
			if m.payload()["x_new"] != nil {
				p.node.Close()
			}
			return []message{m}
		},
		checks: []string{"unknown-fields"}, line: "OS-6.2.1",
	},
	"frame over its limit": {
		agent: edit(wire.TypeToolResult, func(p map[string]any) {
			if e, ok := p["error"].(map[string]any); ok && e["code"] == wire.CodeOutputTooLarge {
				p["output"] = map[string]any{"text": strings.Repeat("x", 70000)}
			}
		}),
		checks: []string{"frames", "output-too-large", "output-at-limit"}, line: "OS-2.2.3",
	},
	"dies of garbage": {
		core: func(_ *proxy, m message) []message {
			if m["v"] != json.Number("1") {
				// Go itself would not die of the signal.
				_ = syscall.Exec("/bin/sh", []string{"sh", "-c", "kill -SEGV $$"}, nil)
			}
			return []message{m}
		},
		checks: []string{"no-crash"}, line: "OSX-17",
	},
	"stays": {
		after: func() { select {} },
		checks: []string{
			"refused", "refused-version", "accepted-version", "hangup-in-handshake", "goodbye", "node-gone", "end-of-stream",
			"half-a-frame", "half-a-header", "terminate", "unknown-fields", "goodbye-busy", "node-gone-busy", "terminate-busy",
		},
		line: "OS-4.1.3.1",
	},
	"deaf": { // to SIGTERM
		checks: []string{"terminate", "terminate-busy"}, line: "OS-4.1.3.1",
	},
}

// awaitBodies passes on whole frames only, whatever length they announce.
func awaitBodies() func([]byte) []byte {
	var waiting []byte
	return func(data []byte) []byte {
		waiting = append(waiting, data...)
		var whole []byte
		for len(waiting) >= 4 {
			size := 4 + int(binary.BigEndian.Uint32(waiting))
			if len(waiting) < size {
				break
			}
			whole, waiting = append(whole, waiting[:size]...), waiting[size:]
		}
		return whole
	}
}
