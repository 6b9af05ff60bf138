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
	// drainLimit is how long calls that run when the tools change may go on.
	drainLimit = 30 * time.Second
	// settle is for the results of ended calls to reach the node: the session
	// does not tell when it has sent them, and cancels what it has not.
	settle = 200 * time.Millisecond

	// modernProtocol is the first version in which a request carries what the
	// session has settled before.
	modernProtocol = "2026-07-28"
)

// host ties the server to the session with the node.
type host struct {
	log     *slog.Logger
	process *process
	conn    *conn
	client  *sdk.ClientSession
	modern  bool
	limit   time.Duration // of open
	offered []byte        // what was registered, to see whether it changed
	changed chan struct{} // the server says that its tools changed
	files   artifacts

	mu     sync.Mutex
	calls  map[string]*running // by progress token
	next   int64               // last token
	ending bool                // no call starts any more
	idle   chan struct{}       // closed when ending and no call runs
}

func newHost(p *process, log *slog.Logger) *host {
	h := &host{
		log: log, process: p, limit: startTimeout, changed: make(chan struct{}, 1),
		calls: map[string]*running{}, idle: make(chan struct{}),
	}
	h.conn = newConn(p, h.note, log)
	return h
}

// open introduces the host to the server and returns the server's tools.
func (h *host) open(ctx context.Context) ([]agent.Tool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.limit, ErrNoAnswer)
	defer cancel()

	client := sdk.NewClient(&sdk.Implementation{Name: "lightwork", Version: Version}, &sdk.ClientOptions{
		// Empty, not nil: nil would offer roots.
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

// explain names the first cause. The SDK closes the connection after any of
// them, so that its end is the last to look for.
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

// serverEnded says how; conn.ended is closed.
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

// close ends the server and all that waits for it.
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

// watch returns why the agent must end, nil if ctx ended first. By then, calls
// that were running have told the node how they ended.
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

// toolsChanged runs on the SDK's goroutine, once for every value of
// conn.changed.
func (h *host) toolsChanged(context.Context, *sdk.ToolListChangedRequest) {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// toolsDiffer asks the server: many announce a change that is none.
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

// fingerprint is all that the node is told about tools.
func fingerprint(tools []agent.Tool) []byte {
	var all []any
	for _, t := range tools {
		all = append(all, t.Name, t.Description, t.InputSchema, t.OutputSchema, t.SideEffects)
	}
	doc, _ := json.Marshal(all) // texts and checked documents
	return doc
}

// drain lets no new call start and waits for the running ones.
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

// wait returns at the first of the three.
func wait(ctx context.Context, done <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-done:
	case <-timer.C:
	}
}
