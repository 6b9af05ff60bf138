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

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// Client talks to a running node.
type Client struct {
	http *http.Client
	key  string
}

// ErrNoNode: nothing listens on the control socket.
var ErrNoNode = errors.New("no node is running here")

// Dial checks that a node answers on the socket. ErrForeignDir: it may be
// somebody else who does.
func Dial(ctx context.Context, socket string) (*Client, error) {
	key, err := ReadKey(socket)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%w: %w", ErrNoNode, err)
	case err != nil:
		return nil, err
	}

	c := &Client{key: key, http: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}}
	if _, err := c.Agents(ctx); err != nil {
		var refused *CallError
		if errors.As(err, &refused) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", ErrNoNode, err)
	}

	return c, nil
}

// Agents lists the node's agents.
func (c *Client) Agents(ctx context.Context) (list []Status, err error) {
	return list, c.do(ctx, http.MethodGet, "/v1/agents", nil, &list)
}

// Tools lists the tools of the agents that run.
func (c *Client) Tools(ctx context.Context) (list []supervisor.ToolInfo, err error) {
	return list, c.do(ctx, http.MethodGet, "/v1/tools", nil, &list)
}

// Steer starts, stops or restarts an agent.
func (c *Client) Steer(ctx context.Context, id, action string) error {
	if !wire.ValidAgentID(id) {
		return fmt.Errorf("agent %q: %w", id, ErrUnknownAgent)
	}
	return c.do(ctx, http.MethodPost, "/v1/agents/"+id+"/"+action, nil, &struct{}{})
}

// Call calls a tool; emit gets its chunks. A failed call is a *CallError.
func (c *Client) Call(ctx context.Context, req CallRequest, emit func(CallEvent)) (json.RawMessage, error) {
	return c.stream(ctx, "/v1/call", req, emit)
}

// Ask puts a need to the node's organism; likewise.
func (c *Client) Ask(ctx context.Context, req AskRequest, emit func(CallEvent)) (json.RawMessage, error) {
	return c.stream(ctx, "/v1/ask", req, emit)
}

// Node asks the node itself; into gets its answer. A refusal is a *CallError.
func (c *Client) Node(ctx context.Context, name string, req, into any) error {
	body, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("encode the call: %w", err)
	}
	return c.do(ctx, http.MethodPost, "/v1/node/"+name, body, into)
}

func (c *Client) stream(ctx context.Context, path string, req any, emit func(CallEvent)) (json.RawMessage, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("encode the call: %w", err)
	}
	res, err := c.send(ctx, http.MethodPost, path, body)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()

	for dec := json.NewDecoder(res.Body); ; {
		var e CallEvent
		if err := dec.Decode(&e); err != nil {
			return nil, fmt.Errorf("the node went away during the call: %w", err)
		}
		switch {
		case e.Error != nil:
			return nil, e.Error
		case e.Output != nil:
			return e.Output, nil
		}
		emit(e)
	}
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, into any) error {
	res, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, 64<<20)).Decode(into); err != nil {
		return fmt.Errorf("read the node's answer: %w", err)
	}
	return nil
}

func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://node"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 400 {
		return res, nil
	}

	defer res.Body.Close()
	refused := &CallError{}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(refused); err != nil {
		return nil, fmt.Errorf("the node answered %s", res.Status)
	}
	return nil, refused
}
