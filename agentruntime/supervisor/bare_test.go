package supervisor

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// bare speaks the protocol with nothing but a socket, a length and JSON.
type bare struct {
	conn net.Conn
	sent int
}

type object = map[string]any

func (b *bare) say(typ string, payload object, also object) error {
	b.sent++
	m := object{"v": 1, "type": typ, "id": fmt.Sprintf("bare-%d", b.sent), "ts": time.Now().UTC().Format(time.RFC3339Nano), "payload": payload}
	for k, v := range also {
		m[k] = v
	}
	doc, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = b.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(doc))), doc...))
	return err
}

// hear waits for a message of a type.
func (b *bare) hear(typ string) (object, error) {
	for {
		var size [4]byte
		if _, err := io.ReadFull(b.conn, size[:]); err != nil {
			return nil, err
		}
		doc := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(b.conn, doc); err != nil {
			return nil, err
		}
		var m object
		if err := json.Unmarshal(doc, &m); err != nil {
			return nil, err
		}
		if m["type"] == typ {
			return m, nil
		}
	}
}

// pubsub are messages that a bus would have.
var pubsub = []string{"agent.subscribe", "agent.publish", "agent.event", "agent.events.subscribe", "agent.event.publish", "agent.topic.subscribe", "agent.signal.emit"}

// playBare joins, and when it is called tries to use core as a bus. Its output is
// what came of that.
func playBare(context.Context, string) error {
	conn, err := net.Dial("unix", os.Getenv("OPENSENTIENCE_SOCKET_PATH"))
	if err != nil {
		return err
	}
	defer conn.Close()
	b := &bare{conn: conn}
	id := os.Getenv("OPENSENTIENCE_AGENT_ID")
	if err := b.say("agent.hello", object{
		"session_token": os.Getenv("OPENSENTIENCE_SESSION_TOKEN"), "agent_id": id, "agent_version": reference.Version,
		"protocol": object{"supported_versions": []int{1}, "capabilities": []string{"tools"}},
	}, nil); err != nil {
		return err
	}
	if _, err := b.hear("core.welcome"); err != nil {
		return err
	}
	if err := b.say("agent.tools.register", object{"tools": []object{{
		"tool_id": id + "/try", "name": "try", "description": "tries", "input_schema": object{"type": "object"},
	}}}, nil); err != nil {
		return err
	}
	call, err := b.hear("core.tool.call")
	if err != nil {
		return err
	}
	codes := []any{}
	for _, typ := range pubsub {
		if err := b.say(typ, object{"topic": "jobs", "event": object{}}, object{"request_id": "bus"}); err != nil {
			return err
		}
		answer, err := b.hear("core.error")
		if err != nil {
			return err
		}
		codes = append(codes, answer["error"].(object)["code"])
	}
	if err := b.say("agent.tool.result", object{
		"call_id": call["payload"].(object)["call_id"], "status": "succeeded", "output": object{"codes": codes},
	}, object{"in_reply_to": call["id"]}); err != nil {
		return err
	}
	_, err = b.hear("core.goodbye")
	return err
}

// TestBareAgent: a socket and the token are enough, what goes over it is JSON as
// it stands, and there is no bus on it.
func TestBareAgent(t *testing.T) {
	requirements.Covers(t, "OS-0.11", "OS-0.12")
	n := newNode(t, Config{})
	spec := agentSpec("bare")
	spec.Tools = []string{"try"}
	start(t, n, spec)
	res, err := n.Call(t.Context(), Call{AgentID: reference.ID, Tool: "try", Input: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	var out struct{ Codes []string }
	if err := json.Unmarshal(res.Output, &out); err != nil || len(out.Codes) != len(pubsub) {
		t.Fatalf("%s, %v", res.Output, err)
	}
	if i := slices.IndexFunc(out.Codes, func(code string) bool { return code != wire.CodeUnknownType }); i >= 0 {
		t.Errorf("%s is answered with %s", pubsub[i], out.Codes[i])
	}
}
