package contract

import (
	"encoding/json"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/toolschema"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// register judges a registration tool by tool, as the node does.
func (v *sessionView) register(h *heard) {
	v.all.saw("tools")
	var msg struct{ Payload wire.Register }
	if err := json.Unmarshal(h.raw, &msg); err != nil {
		v.violate("tools", "%v", err)
		return
	}
	if msg.Payload.Replace || v.tools == nil {
		v.tools = map[wire.ToolID]bool{}
	}

	for _, t := range msg.Payload.Tools {
		agentID, name, ok := t.ToolID.Split()
		switch {
		case !ok || agentID != v.player.run.agent.ID:
			v.violate("tools", "tool_id %q is not %s/<name>", clip(string(t.ToolID)), v.player.run.agent.ID)
		case name != t.Name:
			v.violate("tools", "%s has the name %q", t.ToolID, clip(t.Name))
		case v.tools[t.ToolID]:
			v.violate("tools", "%s is registered twice", t.ToolID)
		}

		v.tools[t.ToolID] = true
		if _, err := toolschema.Compile(t.InputSchema); err != nil {
			v.violate("tools", "%s: input_schema: %v", t.ToolID, err)
		}
		if t.OutputSchema == nil {
			continue
		}
		if _, err := toolschema.Compile(t.OutputSchema); err != nil {
			v.violate("tools", "%s: output_schema: %v", t.ToolID, err)
		}
	}
}

func (v *sessionView) result(h *heard) {
	v.all.saw("one-result")
	v.all.saw("result-shape")
	v.resultShape(h)
	id := text(h.doc, "payload", "call_id")
	call := v.calls[id]
	if call == nil {
		v.violate("one-result", "a result for %q, which is no call: %s", clip(id), clip(string(h.raw)))
		return
	}
	v.echo(h, call)
	if call.results++; call.results > len(call.requests) {
		v.violate("one-result", "another result for %s: %s", id, clip(string(h.raw)))
	}
}

func (v *sessionView) resultShape(h *heard) {
	failure, output := member(h.doc, "payload", "error"), member(h.doc, "payload", "output")

	_, isObject := output.(map[string]any)
	status := wire.ResultStatus(text(h.doc, "payload", "status"))
	wrong := ""
	switch {
	case member(h.doc, "error") != nil:
		wrong = "the error of a tool belongs into the payload"
	case status == wire.Succeeded && failure != nil:
		wrong = "a success has an error"
	case status == wire.Succeeded && output != nil && !isObject:
		wrong = "the output is not an object"
	case status != wire.Succeeded && failure == nil:
		wrong = "no error says why"
	}

	if wrong != "" {
		v.violate("result-shape", "%s: %s", wrong, clip(string(h.raw)))
	}
}

func (v *sessionView) stream(h *heard) {
	v.all.saw("stream-order")
	id := text(h.doc, "payload", "call_id")
	call := v.calls[id]
	if call == nil {
		v.violate("stream-order", "a chunk for %q, which is no call", clip(id))
		return
	}
	v.echo(h, call)

	number, _ := member(h.doc, "payload", "seq").(json.Number)
	seq, err := number.Int64()
	switch {
	case err != nil || call.seq == 0 && seq != 1 || seq <= call.seq:
		v.violate("stream-order", "seq %s comes after %d", number, call.seq)
	case call.done:
		v.violate("stream-order", "a chunk comes after done")
	case call.results >= len(call.requests):
		v.violate("stream-order", "a chunk comes after the result")
	}

	call.seq = seq
	call.done = member(h.doc, "payload", "done") == true
}

// echo compares the ids of what is about a call with those of the call.
func (v *sessionView) echo(h *heard, call *callView) {
	v.all.saw("echoed-ids")

	for _, request := range call.requests {
		missing := ""
		for _, name := range []string{"request_id", "correlation_id", "causation_id"} {
			if want := text(request, name); want != "" && text(h.doc, name) != want {
				missing += " " + name
			}
		}

		if missing == "" {
			return
		}
		if len(call.requests) == 1 {
			v.violate("echoed-ids", "%s lacks%s of its call", text(h.doc, "type"), missing)
			return
		}
	}

	v.violate("echoed-ids", "%s has the ids of no call: %s", text(h.doc, "type"), clip(string(h.raw)))
}

func (v *sessionView) heartbeat(h *heard) {
	v.all.saw("heartbeat-shape")
	if diff := match(map[string]any{
		"session_id": v.player.vars["$SESSION"], "uptime_ms": "$int", "inflight_calls": "$int", "status": "~ok|degraded|unhealthy",
	}, member(h.doc, "payload"), "payload", vars{}); diff != "" {
		v.violate("heartbeat-shape", "%s", diff)
		return
	}
	uptime, _ := member(h.doc, "payload", "uptime_ms").(json.Number).Int64()
	inflight, _ := member(h.doc, "payload", "inflight_calls").(json.Number).Int64()
	made := 0
	for _, call := range v.calls {
		made += len(call.requests)
	}
	if uptime < v.uptime || inflight > int64(made) {
		v.violate("heartbeat-shape", "uptime_ms %d after %d, %d calls in flight of %d", uptime, v.uptime, inflight, made)
	}
	v.uptime = uptime
}

func (v *sessionView) cancelAck(h *heard) {
	v.all.saw("cancel-acks")
	id := text(h.doc, "payload", "call_id")
	switch {
	case !v.cancels[id]:
		v.violate("cancel-acks", "an ack for %q, which nobody cancels", clip(id))
	case v.calls[id] == nil && member(h.doc, "payload", "accepted") == true:
		v.violate("cancel-acks", "a cancel of a call that was never made is accepted")
	case strings.ContainsAny(text(h.doc, "payload", "note"), "\n\x1b"):
		v.violate("cancel-acks", "the note is not safe to show")
	}
}
