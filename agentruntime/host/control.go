package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/redact"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// The control socket speaks HTTP:
//
//	GET  /v1/agents                 []Status
//	POST /v1/agents/{id}/{action}   start, stop or restart
//	GET  /v1/tools                  []supervisor.ToolInfo
//	POST /v1/call                   CallRequest; answers CallEvents, one a line
//	POST /v1/ask                    AskRequest; answers CallEvents, one a line
//	POST /v1/node/{name}            what Config.Node[name] takes and gives
//
// Every request shows the key that the file beside the socket holds, as
// "Authorization: Bearer KEY". An error is {"code": ..., "message": ...} with a status of 400 and up.

// CallRequest asks for one call by a person.
type CallRequest struct {
	AgentID   string          `json:"agent_id"`
	Tool      string          `json:"tool"`
	Input     json.RawMessage `json:"input"`
	TimeoutMS int64           `json:"timeout_ms,omitempty"` // 0: the agent's own limit
	// Approve allows the call of a tool that needs a directive.
	Approve bool `json:"approve,omitempty"`
}

// AskRequest puts a need in natural language to the node's organism.
type AskRequest struct {
	Profile string `json:"profile"`
	// Listener is whom to ask; empty: whom the text fits best among those that
	// the profile reaches.
	Listener string `json:"listener,omitempty"`
	// Conversation goes on with what was said under this name before.
	Conversation string `json:"conversation,omitempty"`
	Text         string `json:"text"`
}

// CallEvent is one line of the answer to a call: chunks, then one end.
type CallEvent struct {
	Channel string          `json:"channel,omitempty"`
	Text    string          `json:"text,omitempty"`
	JSON    json.RawMessage `json:"json,omitempty"` // of a partial result
	Output  json.RawMessage `json:"output,omitempty"`
	Error   *CallError      `json:"error,omitempty"`
}

// CallError is how a call, or a request to the control socket, failed.
type CallError struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable,omitempty"`
}

func (e *CallError) Error() string { return e.Code + ": " + e.Message }

const (
	maxControlBody = 8 << 20
	maxInputBytes  = 4 << 20
)

// Serve answers the operator on a control socket, until ctx ends.
func (h *Host) Serve(ctx context.Context, socket string) error {
	return ServeControl(ctx, socket, h.Handler())
}

// ServeControl answers on a Unix socket that only the node's own user, and root, may use,
// until ctx ends. They also need the key beside it, which is made anew. The caller has
// made sure that no other node serves there.
func ServeControl(ctx context.Context, socket string, handler http.Handler) error {
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return fmt.Errorf("make control socket: %w", err)
	}
	if err := checkDir(filepath.Dir(socket)); err != nil {
		return err
	}

	// A socket that a killed node left cannot be bound again.
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("make control socket: %w", err)
	}

	key, err := MakeKey(socket)
	if err != nil {
		return err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return fmt.Errorf("make control socket: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		ln.Close()
		return fmt.Errorf("make control socket: %w", err)
	}

	server := &http.Server{
		Handler: Keyed(key, handler), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(stop) != nil {
			server.Close()
		}
	})
	err = server.Serve(ownOnly{ln})
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve control socket: %w", err)
	}
	wg.Wait()
	return nil
}

// ownOnly closes connections of other users, whatever the socket's mode says.
type ownOnly struct{ *net.UnixListener }

func (l ownOnly) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := peerUID(conn); err == nil && (uid == os.Geteuid() || uid == 0) {
			return conn, nil
		}
		conn.Close()
	}
}

func peerUID(conn syscall.Conn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}

// Handler is the control socket's HTTP side.
func (h *Host) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/agents", func(w http.ResponseWriter, _ *http.Request) { answer(w, h.List()) })
	mux.HandleFunc("GET /v1/tools", func(w http.ResponseWriter, _ *http.Request) { answer(w, h.Tools()) })

	for action, do := range map[string]func(context.Context, string) error{"start": h.Start, "stop": h.Stop, "restart": h.Restart} {
		mux.HandleFunc("POST /v1/agents/{id}/"+action, func(w http.ResponseWriter, r *http.Request) {
			if err := do(r.Context(), r.PathValue("id")); err != nil {
				refuse(w, http.StatusConflict, err)
				return
			}
			answer(w, struct{}{})
		})
	}

	mux.HandleFunc("POST /v1/call", func(w http.ResponseWriter, r *http.Request) { stream(w, r, h.Call) })
	mux.HandleFunc("POST /v1/ask", func(w http.ResponseWriter, r *http.Request) { stream(w, r, h.ask) })
	mux.HandleFunc("POST /v1/node/{name}", h.node)
	return mux
}

// node answers a call that the node itself takes.
func (h *Host) node(w http.ResponseWriter, r *http.Request) {
	do := h.cfg.Node[r.PathValue("name")]
	if do == nil {
		refuse(w, http.StatusNotFound, fmt.Errorf("this node has no %s", r.PathValue("name")))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxControlBody))
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("read the call: %w", err))
		return
	}
	out, err := do(r.Context(), body)
	if err != nil {
		refuse(w, http.StatusConflict, err)
		return
	}
	answer(w, out)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone if this fails
}

func refuse(w http.ResponseWriter, status int, err error) {
	e := &CallError{Code: "node.refused", Message: wire.SafeText(err.Error())}
	if errors.Is(err, ErrUnknownAgent) {
		e.Code = wire.CodeRouteNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(e)
}

// stream reads a request and answers with events, the last of which is the end.
func stream[T any](w http.ResponseWriter, r *http.Request, do func(context.Context, T, func(CallEvent)) (json.RawMessage, *CallError)) {
	var req T
	if err := jsonv2.UnmarshalRead(http.MaxBytesReader(w, r.Body, maxControlBody), &req, jsonv2.RejectUnknownMembers(true)); err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("read the call: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	var mu sync.Mutex // chunks come from another goroutine than the end
	emit := func(e CallEvent) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(w).Encode(e)
		_ = http.NewResponseController(w).Flush()
	}
	output, err := do(r.Context(), req, emit)
	if err != nil {
		emit(CallEvent{Error: err})
		return
	}
	emit(CallEvent{Output: output})
}

func (h *Host) ask(ctx context.Context, req AskRequest, emit func(CallEvent)) (json.RawMessage, *CallError) {
	if h.cfg.Ask == nil {
		return nil, &CallError{Code: wire.CodeRouteNotFound, Message: "this node has no organism"}
	}

	out, err := h.cfg.Ask(ctx, req, emit)
	var failed *CallError
	switch {
	case errors.As(err, &failed):
		failed.Message = redact.Text(failed.Message)
		return nil, failed
	case err != nil:
		return nil, &CallError{Code: wire.CodeFailed, Message: redact.Text(wire.SafeText(err.Error()))}
	}

	return out, nil
}

// Call calls a tool for a person; emit gets its stream, with what looks like a
// secret masked (OS-4.3.2.9).
func (h *Host) Call(ctx context.Context, req CallRequest, emit func(CallEvent)) (json.RawMessage, *CallError) {
	if len(req.Input) > maxInputBytes || !isObject(req.Input) {
		return nil, &CallError{Code: wire.CodeInvalidInput, Message: "input must be a JSON object of at most 4 MiB"}
	}
	c := supervisor.Call{
		AgentID: req.AgentID, Tool: req.Tool, Input: req.Input, Timeout: time.Duration(req.TimeoutMS) * time.Millisecond,
		Actor:    &wire.Actor{Type: "human", ID: fmt.Sprintf("uid:%d", os.Geteuid())},
		OnStream: func(ch supervisor.Chunk) { emit(chunkEvent(ch)) },
	}
	if req.Approve && h.cfg.Directive != nil {
		id, err := h.cfg.Directive(ctx, req.AgentID, req.Tool)
		if err != nil {
			return nil, &CallError{Code: "node.refused", Message: wire.SafeText(err.Error())}
		}
		c.CausationID = id
	}

	res, err := h.cfg.Invoke(ctx, c)
	var failed *supervisor.Error
	switch {
	case errors.As(err, &failed):
		return nil, &CallError{Code: failed.Code, Message: redact.Text(failed.Message), Retryable: failed.Retryable}
	case err != nil:
		return nil, &CallError{Code: wire.CodeInternal, Message: wire.SafeText(err.Error())}
	}

	return res.Output, nil
}

func chunkEvent(c supervisor.Chunk) CallEvent {
	return CallEvent{Channel: string(c.Channel), Text: redact.Text(c.Text), JSON: c.JSON}
}

func isObject(raw json.RawMessage) bool {
	return json.Valid(raw) && bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{"))
}
