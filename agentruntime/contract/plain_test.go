package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// plain is an agent that does no more than it must: one tool, no SDK, no pong,
// no cancel_ack, no streams, no in_reply_to.
type plain struct {
	conn net.Conn
	mu   sync.Mutex
}

func playPlain() error {
	conn, err := net.Dial("unix", os.Getenv(agent.EnvSocketPath))
	if err != nil {
		return err
	}
	p := &plain{conn: conn}
	in := frame.NewReader(conn, 0)
	p.say(&wire.Message{Payload: &wire.Hello{
		SessionToken: os.Getenv(agent.EnvToken), AgentID: os.Getenv(agent.EnvAgentID), AgentVersion: reference.Version,
		Protocol: wire.ProtocolInfo{SupportedVersions: []int{1}, Capabilities: []string{"tools"}},
	}})
	payload, err := in.Next()
	if err != nil {
		return err
	}
	m, err := wire.Decode(payload, wire.Core)
	if err != nil {
		return err
	}
	welcome, ok := m.Payload.(*wire.Welcome)
	if !ok || m.Error != nil || welcome.AcceptedVersion != 1 {
		return errors.New("refused")
	}
	p.say(&wire.Message{Payload: &wire.Register{Tools: []wire.Tool{{
		ToolID: wire.JoinToolID(os.Getenv(agent.EnvAgentID), "greet"), Name: "greet",
		InputSchema: json.RawMessage(`{"type":"object","required":["name"]}`),
	}}}})
	go func() {
		for range time.Tick(time.Duration(welcome.HeartbeatIntervalMS) * time.Millisecond) {
			p.say(&wire.Message{Payload: &wire.Heartbeat{SessionID: welcome.SessionID, Status: wire.OK}})
		}
	}()
	for {
		payload, err := in.Next()
		if err != nil {
			return err
		}
		p.answer(wire.Decode(payload, wire.Core))
	}
}

func (p *plain) answer(m *wire.Message, err error) {
	if bad := (*wire.DecodeError)(nil); errors.As(err, &bad) {
		if bad.ExpectsReply() {
			p.say(&wire.Message{InReplyTo: bad.ID, RequestID: bad.RequestID, Error: bad.Reply("plain"), Payload: &wire.AgentError{}})
		}
		return
	}
	call, ok := m.Payload.(*wire.ToolCall)
	if !ok {
		return
	}
	code := wire.CodeInvalidInput
	if _, name, _ := call.ToolID.Split(); name != "greet" {
		code = "plain.no_such_tool"
	}
	result := &wire.Message{Payload: &wire.ToolResult{CallID: call.CallID, Status: wire.Failed, Error: &wire.Error{Code: code}}}
	result.Echo(m)
	p.say(result)
}

func (p *plain) say(m *wire.Message) {
	var buf bytes.Buffer
	if wire.EncodeFrame(&buf, m, 0) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.conn.Write(buf.Bytes()) // the reader sees a lost connection
}

// TestPlainAgentPasses: nothing is asked of an agent that it may leave out.
func TestPlainAgentPasses(t *testing.T) {
	report, err := Run(t.Context(), roleAgent(t, "plain"), Options{StepTimeout: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	may := []string{"ping", "cancel-acks", "stream-order"}
	for _, r := range report.Results {
		want := Passed
		if len(r.Needs) > 0 || slices.Contains(may, r.Name) {
			want = Skipped
		}
		if r.Status != want {
			t.Errorf("%s: %s, want %s: %s", r.Name, r.Status, want, r.Detail)
		}
	}
	if !report.OK() {
		t.Error("the report is not OK")
	}
}
