package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

const (
	// drainLimit is how long running calls may continue when the tools change.
	drainLimit = 30 * time.Second
	// settle is how long the results of ended calls may take to reach the node: the
	// session does not report that it has sent them, and its end discards unsent
	// ones.
	settle = 200 * time.Millisecond

	// modernProtocol is the first protocol version in which each request repeats
	// the settings of the session.
	modernProtocol = "2026-07-28"
)

// host connects the server with the node's session.
type host struct {
	log     *slog.Logger
	process *process
	conn    *conn
	client  *sdk.ClientSession
	modern  bool
	limit   time.Duration // of open
	offered []byte        // the registered tools, to detect changes
	changed chan struct{} // the server says that its tools changed
	files   artifacts

	mu     sync.Mutex
	calls  map[string]*activeCall // by progress token
	next   int64                  // last token
	ending bool                   // new calls are refused
	idle   chan struct{}          // closed when ending is set and no call runs
}

func newHost(p *process, log *slog.Logger) *host {
	h := &host{
		log: log, process: p, limit: startTimeout, changed: make(chan struct{}, 1),
		calls: map[string]*activeCall{}, idle: make(chan struct{}),
	}
	h.conn = newConn(p, h.note, log)
	return h
}

// open initializes the session with the server and returns the server's tools.
func (h *host) open(ctx context.Context) ([]agent.Tool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.limit, ErrNoAnswer)
	defer cancel()

	client := sdk.NewClient(&sdk.Implementation{Name: "lightwork", Version: Version}, &sdk.ClientOptions{
		// An empty value; nil would announce roots.
		Capabilities:           &sdk.ClientCapabilities{},
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: h.toolsChanged,
	})
	var err error
	if h.client, err = client.Connect(ctx, h.conn, nil); err != nil {
		return nil, h.explain(ctx, fmt.Errorf("initialize: %w", err))
	}
	hello := h.client.InitializeResult()
	h.modern = hello.ProtocolVersion >= modernProtocol
	h.askForLogs(ctx, hello)
	tools, err := h.list(ctx)
	if err != nil {
		return nil, h.explain(ctx, err)
	}
	h.offered = fingerprint(tools)
	h.log.Info("server ready", "protocol", wire.SafeText(hello.ProtocolVersion), "tools", len(tools))
	return tools, nil
}

func (h *host) list(ctx context.Context) ([]agent.Tool, error) {
	remote, err := listTools(ctx, h.client, h.conn, h.log)
	if err != nil {
		return nil, err
	}
	return offer(remote, h.log, h.handler), nil
}

// explain returns the root cause of an error. The SDK closes the connection after
// any failure, so that an ended connection is the last cause to consider.
func (h *host) explain(ctx context.Context, err error) error {
	var refused *jsonrpc.Error
	switch {
	case errors.Is(context.Cause(ctx), ErrNoAnswer):
		return fmt.Errorf("%w within %s", ErrNoAnswer, h.limit)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &refused):
		return fmt.Errorf("%w: %s", ErrRefused, wire.SafeText(refused.Message))
	}

	select {
	case <-h.conn.ended:
		return h.serverEnded()
	default:
		return errors.New(wire.SafeText(err.Error()))
	}
}

// serverEnded says how the server ended. It must be called after conn.ended is
// closed.
func (h *host) serverEnded() error {
	timer := time.NewTimer(settle)
	defer timer.Stop()
	select {
	case <-h.process.exited:
		return fmt.Errorf("%w (%s): %w", ErrServerEnded, h.process.status, h.conn.err)
	case <-timer.C:
		return fmt.Errorf("%w: %w", ErrServerEnded, h.conn.err)
	}
}

// close stops the server and everything that waits for it.
func (h *host) close() {
	h.process.stop()
	if h.client != nil {
		_ = h.client.Close()
	}
	_ = h.conn.Close()
}

// serve runs calls until the node or the server ends it.
func (h *host) serve(ctx context.Context, session *agent.Session) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	cause := make(chan error, 1)
	go func() {
		defer cancel()
		cause <- h.watch(ctx)
	}()
	err := session.Serve(ctx)
	cancel()
	if why := <-cause; why != nil {
		return why
	}
	if g := new(agent.Goodbye); errors.As(err, &g) {
		return nil
	}

	return err
}

// watch returns why the agent must end, nil if ctx ended first. Before it returns,
// running calls have reported their end to the node.
func (h *host) watch(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.conn.ended:
			why := h.serverEnded()
			h.log.Error("server lost", "err", why)
			h.drain(ctx, settle) // they fail by themselves
			return why
		case <-h.changed:
			h.conn.changed.Store(false)
			if !h.toolsDiffer(ctx) {
				continue
			}
			h.log.Warn("the server's tools changed; ending to register them anew")
			h.drain(ctx, drainLimit)
			return ErrToolsChanged
		}
	}
}

// toolsChanged runs on the SDK's goroutine, once for each time that conn.changed is
// set.
func (h *host) toolsChanged(context.Context, *sdk.ToolListChangedRequest) {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// toolsDiffer asks the server for its tools: many servers announce a change when
// nothing changed.
func (h *host) toolsDiffer(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tools, err := h.list(ctx)
	if err != nil {
		h.log.Warn("list the changed tools", "err", wire.SafeText(err.Error()))
		return false
	}
	return !bytes.Equal(fingerprint(tools), h.offered)
}

// fingerprint covers everything that the node is told about the tools.
func fingerprint(tools []agent.Tool) []byte {
	var all []any
	for _, t := range tools {
		all = append(all, t.Name, t.Description, t.InputSchema, t.OutputSchema, t.SideEffects)
	}
	doc, _ := json.Marshal(all) // only strings and checked documents
	return doc
}

// drain refuses new calls and waits for the running ones.
func (h *host) drain(ctx context.Context, limit time.Duration) {
	h.mu.Lock()
	h.ending = true
	if len(h.calls) == 0 {
		close(h.idle)
	}
	h.mu.Unlock()
	wait(ctx, h.idle, limit)
	wait(ctx, nil, settle)
}

// wait returns when ctx ends, done is closed or the limit has passed.
func wait(ctx context.Context, done <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-done:
	case <-timer.C:
	}
}
