package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// message is one JSON message as a fault sees it.
type message map[string]any

func (m message) typ() string { s, _ := m["type"].(string); return s }

// payload may be changed.
func (m message) payload() map[string]any { p, _ := m["payload"].(map[string]any); return p }

// fault is one way to break the protocol: the reference agent runs behind a
// proxy that changes what it says or hears.
type fault struct {
	// agent and core return what to pass on for a message; nil passes all.
	agent, core func(p *proxy, m message) []message
	// bytes returns what to pass on of what the node writes; nil passes all.
	bytes  func(data []byte) []byte
	before func() // called at the start
	after  func() // called when the session is over
	// checks must fail, and no other.
	checks []string
	// line is one that a failed check must name.
	line string
}

// proxy stands between the node and a reference agent in this process.
type proxy struct {
	fault
	node net.Conn
	mu   sync.Mutex // one write to the node at a time
}

// playFault runs the reference agent with a fault until it ends.
func playFault(ctx context.Context, f fault) error {
	if f.before != nil {
		f.before()
	}
	// An abstract address leaves no file when the agent is killed.
	ln, err := net.Listen("unix", "@lightwork-"+wire.NewID())
	if err != nil {
		return err
	}
	node, err := net.Dial("unix", os.Getenv(agent.EnvSocketPath))
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		done <- agent.Run(ctx, agent.Config{SocketPath: ln.Addr().String(), Version: reference.Version, Tools: reference.Tools()})
	}()
	behind, err := ln.Accept()
	if err != nil {
		return err
	}
	p := &proxy{fault: f, node: node}
	go p.fromNode(behind)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		p.fromAgent(behind)
		node.Close()
	}()
	err = <-done
	<-sent // the agent has closed: what it said last is passed on
	if f.after != nil {
		f.after()
	}
	return err
}

func (p *proxy) fromNode(behind net.Conn) {
	defer behind.Close()
	switch {
	case p.core != nil:
		for in := frame.NewReader(p.node, 0); ; {
			m, err := readMessage(in)
			if err != nil {
				return
			}
			for _, out := range p.core(p, m) {
				if _, err := behind.Write(encodeMessage(out)); err != nil {
					return
				}
			}
		}
	case p.bytes != nil:
		for buf := make([]byte, 1<<20); ; {
			n, err := p.node.Read(buf)
			if err != nil {
				return
			}
			if _, err := behind.Write(p.bytes(buf[:n])); err != nil {
				return
			}
		}
	}
	_, _ = io.Copy(behind, p.node)
}

func (p *proxy) fromAgent(behind net.Conn) {
	for in := frame.NewReader(behind, 0); ; {
		m, err := readMessage(in)
		if err != nil {
			return
		}
		out := []message{m}
		if p.agent != nil {
			out = p.agent(p, m)
		}
		for _, m := range out {
			p.say(m)
		}
	}
}

// say sends m to the node, whatever its size.
func (p *proxy) say(m message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.node.Write(encodeMessage(m))
}

func readMessage(in *frame.Reader) (message, error) {
	payload, err := in.Next()
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	var m message
	return m, d.Decode(&m)
}

func encodeMessage(m message) []byte { return addLength([]byte(compact(m))) }

func (m message) with(name string, value any) []message {
	m[name] = value
	return []message{m}
}

// on makes a fault of messages of one type only.
func on(typ wire.Type, change func(p *proxy, m message) []message) func(*proxy, message) []message {
	return func(p *proxy, m message) []message {
		if m.typ() != string(typ) {
			return []message{m}
		}
		return change(p, m)
	}
}

// edit makes a fault that changes the payload of one type.
func edit(typ wire.Type, change func(payload map[string]any)) func(*proxy, message) []message {
	return on(typ, func(_ *proxy, m message) []message {
		change(m.payload())
		return []message{m}
	})
}

func drop(*proxy, message) []message { return nil }

// reply makes a message of the agent.
func reply(typ wire.Type, payload map[string]any) message {
	return message{"v": 1, "type": typ, "id": wire.NewID(), "ts": "2026-01-16T12:00:00Z", "payload": payload}
}

// firstTool is the first tool of a registration.
func firstTool(payload map[string]any) map[string]any {
	return payload["tools"].([]any)[0].(map[string]any)
}

func playRole(role string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	f, isFault := faults[role]
	var err error
	switch {
	case role == "reference":
		err = reference.Run(ctx, nil)
	case role == "plain":
		stop() // it leaves SIGTERM to the system
		err = playPlain()
	case role == "polled":
		stop()
		err = playPolled()
	case role == "deaf":
		stop()
		signal.Ignore(syscall.SIGTERM)
		err = playFault(context.Background(), f)
	case isFault:
		err = playFault(ctx, f)
	default:
		err = errors.New("unknown")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "role", role, "ends:", err)
		return 1
	}
	return 0
}
