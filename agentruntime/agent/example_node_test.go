package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// node is the other end of an example's agent. It calls the agent's tools as the
// node does that starts agents.
type node struct {
	conn  net.Conn
	in    *frame.Reader
	close func()
}

// serve runs an agent with these tools, and returns a node that it is registered at.
func serve(tools ...agent.Tool) *node {
	dir, err := os.MkdirTemp("", "lightwork-example-")
	check(err)
	path := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", path)
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- agent.Run(ctx, agent.Config{ID: "com.example.agent", Version: "1.0.0", SocketPath: path, Token: "secret", Tools: tools})
	}()
	conn, err := ln.Accept()
	check(err)
	n := &node{conn: conn, in: frame.NewReader(conn, 0), close: func() {
		stop()
		check(<-ended)
		conn.Close()
		ln.Close()
		os.RemoveAll(dir)
	}}

	n.next() // hello
	n.send(&wire.Welcome{AcceptedVersion: 1, SessionID: "s1", HeartbeatIntervalMS: time.Hour.Milliseconds(), MaxFrameBytes: frame.DefaultMaxBytes})
	n.next() // its tools
	n.send(&wire.Registered{Registered: []wire.ToolID{}})
	n.next() // heartbeat
	return n
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func (n *node) send(p wire.Payload) {
	var buf bytes.Buffer
	check(wire.EncodeFrame(&buf, &wire.Message{Payload: p}, 0))
	_, err := n.conn.Write(buf.Bytes())
	check(err)
}

// next is what the agent says next.
func (n *node) next() wire.Payload {
	doc, err := n.in.Next()
	check(err)
	m, err := wire.Decode(doc, wire.Agent)
	check(err)
	return m.Payload
}

func (n *node) call(tool, input string) {
	n.send(&wire.ToolCall{CallID: tool, ToolID: wire.JoinToolID("com.example.agent", tool), Input: json.RawMessage(input)})
}

// result waits for a call's result; chunk gets what is streamed before.
func (n *node) result(chunk func(*wire.ToolStream)) *wire.ToolResult {
	for {
		switch p := n.next().(type) {
		case *wire.ToolStream:
			chunk(p)
		case *wire.ToolResult:
			return p
		}
	}
}
