package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// polled is an agent that does all in one turn after the other: it waits until
// its socket can be read or written, never for one of them alone, and writes no
// more than the socket takes. Its socket takes little.
type polled struct {
	fd      int
	in, out []byte
}

// polledBuffer is what the kernel makes of it twice the size.
const polledBuffer = 32 << 10

func playPolled() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	p := &polled{fd: fd}
	if err := errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, polledBuffer),
		unix.Connect(fd, &unix.SockaddrUnix{Name: os.Getenv(agent.EnvSocketPath)}),
		unix.SetNonblock(fd, true),
	); err != nil {
		return err
	}
	p.say(&wire.Message{Payload: &wire.Hello{
		SessionToken: os.Getenv(agent.EnvToken), AgentID: os.Getenv(agent.EnvAgentID), AgentVersion: reference.Version,
		Protocol: wire.ProtocolInfo{SupportedVersions: []int{1}, Capabilities: []string{"tools"}},
	}})
	for {
		if err := p.turn(); err != nil {
			return err
		}
	}
}

func (p *polled) turn() error {
	waiting := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	if len(p.out) > 0 {
		waiting[0].Events |= unix.POLLOUT
	}
	if _, err := unix.Poll(waiting, -1); err != nil && !errors.Is(err, unix.EINTR) {
		return err
	}
	if waiting[0].Revents&unix.POLLOUT != 0 {
		n, err := unix.Write(p.fd, p.out)
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			return err
		}
		p.out = p.out[max(0, n):]
	}
	if waiting[0].Revents&(unix.POLLIN|unix.POLLHUP) == 0 {
		return nil
	}
	chunk := make([]byte, 64<<10)
	n, err := unix.Read(p.fd, chunk)
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		return err
	}
	if n == 0 {
		return errors.New("the node is gone")
	}
	p.in = append(p.in, chunk[:max(0, n)]...)
	return p.hear()
}

// hear takes the whole frames off what was read.
func (p *polled) hear() error {
	for {
		in := frame.NewReader(bytes.NewReader(p.in), 0)
		payload, err := in.Next()
		if err != nil {
			return nil // the rest of it comes
		}
		p.in = p.in[4+len(payload):]
		m, err := wire.Decode(payload, wire.Core)
		if err != nil {
			return err
		}
		switch heard := m.Payload.(type) {
		case *wire.Welcome:
			tools := []wire.Tool{}
			for _, t := range reference.Tools() {
				if t.Name == "large_output" {
					tools = append(tools, wire.Tool{ToolID: wire.JoinToolID(os.Getenv(agent.EnvAgentID), t.Name), Name: t.Name, Description: t.Description, InputSchema: t.InputSchema})
				}
			}
			p.say(&wire.Message{Payload: &wire.Register{Tools: tools}})
		case *wire.ToolCall:
			result := &wire.Message{Payload: answerPolled(heard)}
			result.Echo(m)
			p.say(result)
		case *wire.Ping:
			p.say(&wire.Message{InReplyTo: m.ID, Payload: &wire.Pong{}})
		}
	}
}

func answerPolled(call *wire.ToolCall) *wire.ToolResult {
	var in struct{ Bytes int }
	if _, name, _ := call.ToolID.Split(); name != "large_output" || json.Unmarshal(call.Input, &in) != nil {
		return &wire.ToolResult{CallID: call.CallID, Status: wire.Failed, Error: &wire.Error{Code: wire.CodeInvalidInput}}
	}
	return &wire.ToolResult{CallID: call.CallID, Status: wire.Succeeded, Output: fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", in.Bytes))}
}

// say queues a message for the turns to come.
func (p *polled) say(m *wire.Message) {
	var b bytes.Buffer
	if wire.EncodeFrame(&b, m, 0) == nil {
		p.out = append(p.out, b.Bytes()...)
	}
}

// TestPolledAgentPasses: results that nobody reads are asked of it no faster than
// its socket takes them.
func TestPolledAgentPasses(t *testing.T) {
	report, err := Run(t.Context(), roleAgent(t, "polled"), Options{Only: []string{opening, "slow-reader-large"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Status != Passed {
			t.Errorf("%s: %s: %s", r.Name, r.Status, r.Detail)
		}
	}
	if !report.OK() {
		t.Error("the report is not OK")
	}
}
