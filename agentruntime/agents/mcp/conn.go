package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
)

const (
	maxMessageBytes = frame.DefaultMaxBytes
	// writeTimeout bounds the write of one message to a server that does not read.
	writeTimeout = 5 * time.Second
	maxReplies   = 64   // queued answers to requests of the server
	maxStray     = 1000 // lines that are not messages, over the life of a connection
	strayLogged  = 10

	methodListChanged = "notifications/tools/list_changed"
)

// Ways in which a server breaks the connection.
var (
	ErrMessageTooLarge = fmt.Errorf("mcp: a message is larger than %d bytes", maxMessageBytes)
	ErrMalformed       = errors.New("mcp: malformed message")
	ErrFlood           = errors.New("mcp: the server asks faster than it reads answers")
	ErrNotReading      = errors.New("mcp: the server does not read")
)

// conn carries messages between the SDK and the server. The SDK alone would queue
// the server's messages without bound and decode numbers inexactly. So only
// responses and the notification that the tools changed reach the SDK; other
// notifications go to note, and requests are answered here.
type conn struct {
	in    *bufio.Scanner // used by the SDK's reading goroutine only, as is stray
	stray int
	note  func(method string, params json.RawMessage) // must not block
	log   *slog.Logger

	stdout  io.Closer
	replies chan []byte
	replied chan struct{} // closed when no more replies are written
	changed atomic.Bool   // the SDK is handling a list_changed

	writing sync.Mutex
	stdin   *os.File

	mu       sync.Mutex
	captures map[jsonrpc.ID]*capture
	closed   bool
	err      error         // why reading ended; set before ended is closed
	ended    chan struct{} // closed at the end of reading
}

func newConn(p *process, note func(string, json.RawMessage), log *slog.Logger) *conn {
	c := &conn{
		in: bufio.NewScanner(p.stdout), note: note, log: log,
		stdin: p.stdin, stdout: p.stdout,
		replies: make(chan []byte, maxReplies), replied: make(chan struct{}),
		captures: map[jsonrpc.ID]*capture{}, ended: make(chan struct{}),
	}
	// The scanner's limit includes the line end.
	c.in.Buffer(nil, maxMessageBytes+2)
	go c.writeReplies()
	return c
}

// Connect implements sdk.Transport.
func (c *conn) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID implements sdk.Connection.
func (c *conn) SessionID() string { return "" }

// Close implements sdk.Connection. It interrupts Read.
func (c *conn) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		close(c.replies)
		c.stdin.Close() // also ends the write of a reply
		c.stdout.Close()
	}
	<-c.replied
	return nil
}

// Read implements sdk.Connection.
func (c *conn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := c.next()
		if err != nil {
			c.fail(err)
			return nil, err
		}

		switch m := msg.(type) {
		case *jsonrpc.Response:
			c.deliver(m)
			return m, nil
		case *jsonrpc.Request:
			if m.IsCall() {
				if err := c.answer(m); err != nil {
					c.fail(err)
				}
			} else if m.Method != methodListChanged {
				c.note(m.Method, m.Params)
			} else if c.changed.CompareAndSwap(false, true) {
				return m, nil
			}
		}
	}
}

// fail records the first reason for the end of the connection and ends it: the next
// Read returns.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		close(c.ended)
	}
	c.stdout.Close()
}

// next reads one message. It skips lines that cannot be messages: many servers
// print a greeting on stdout, although they must not.
func (c *conn) next() (jsonrpc.Message, error) {
	for c.in.Scan() {
		line := c.in.Bytes()
		if len(line) == 0 {
			continue
		}
		if line[0] != '{' {
			if c.stray++; c.stray > maxStray {
				return nil, fmt.Errorf("%w: more than %d lines on stdout are no messages", ErrMalformed, maxStray)
			}
			if c.stray <= strayLogged {
				c.log.Warn("a line on the server's stdout is not a message", "bytes", len(line))
			}
			continue
		}

		// The decoder is more lenient: it accepts duplicate names, invalid UTF-8
		// and text after the message.
		if !jsontext.Value(line).IsValid() {
			return nil, fmt.Errorf("%w: not a JSON text", ErrMalformed)
		}

		// The decoder may keep references to its input.
		msg, err := jsonrpc.DecodeMessage(append([]byte(nil), line...))
		if err != nil {
			return nil, fmt.Errorf("%w: not a JSON-RPC 2.0 message", ErrMalformed)
		}
		return msg, nil
	}

	switch err := c.in.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, ErrMessageTooLarge
	case err != nil && !errors.Is(err, os.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded):
		return nil, err
	}
	return nil, io.EOF
}

// answer queues the reply to a request of the server. Only ping succeeds.
func (c *conn) answer(req *jsonrpc.Request) error {
	reply := &jsonrpc.Response{ID: req.ID}
	if req.Method == "ping" {
		reply.Result = json.RawMessage("{}")
	} else {
		reply.Error = &jsonrpc.Error{
			Code: jsonrpc.CodeMethodNotFound, Message: "this client offers no sampling, elicitation or roots",
		}
	}

	doc, err := jsonrpc.EncodeMessage(reply)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.closed {
		return nil
	}

	select {
	case c.replies <- doc:
		return nil
	default:
		return ErrFlood
	}
}

func (c *conn) writeReplies() {
	defer close(c.replied)
	for doc := range c.replies {
		// If this fails, the next call fails too.
		_ = c.writeLine(doc)
	}
}

func (c *conn) writeLine(doc []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()

	if err := c.stdin.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := c.stdin.Write(append(doc, '\n'))
	if err == nil {
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = ErrNotReading
	}

	// A part of the line may have been written, so nothing can follow it.
	c.stdin.Close()
	c.fail(err)
	return err
}

// Write implements sdk.Connection. ctx is that of the SDK's caller; a capture in it
// receives the response.
func (c *conn) Write(ctx context.Context, msg jsonrpc.Message) error {
	doc, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
		if want, ok := ctx.Value(captureKey{}).(*capture); ok {
			c.mu.Lock()
			want.id = req.ID
			c.captures[req.ID] = want
			c.mu.Unlock()
		}
	}
	return c.writeLine(doc)
}

// capture receives the result of one request as the server wrote it: the SDK
// decodes numbers as float64 and drops unknown members.
type capture struct {
	id     jsonrpc.ID
	result json.RawMessage // nil without a response; valid when the SDK's call has returned
}

type captureKey struct{}

// capturing returns a context with a capture for one request of the SDK.
func capturing(ctx context.Context) (context.Context, *capture) {
	want := new(capture)
	return context.WithValue(ctx, captureKey{}, want), want
}

func (c *conn) deliver(m *jsonrpc.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if want := c.captures[m.ID]; want != nil {
		want.result = m.Result
		delete(c.captures, m.ID)
	}
}

// forget ends a capture and returns its result.
func (c *conn) forget(want *capture) json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.captures, want.id)
	return want.result
}
