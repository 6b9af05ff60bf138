package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/observe"
)

// maxState bounds what a node tells of itself.
const maxState = 16 << 20

func notRunning() error {
	return advice.Hint(errors.New("no provider runs on this data folder"), advice.RunProvider+" starts one; "+advice.ListJobs+" shows what there was")
}

// LookAt asks the node at a socket how it is.
func LookAt(socket string) func(context.Context) ([]byte, observe.State, error) {
	client := &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
	}
	return func(ctx context.Context) (raw []byte, s observe.State, err error) {
		key, err := host.ReadKey(socket) // a node that was started again has another
		if errors.Is(err, fs.ErrNotExist) {
			return nil, s, notRunning()
		}
		if err != nil {
			return nil, s, err
		}

		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/state", nil)
		if err != nil {
			return nil, s, err
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := client.Do(req)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			return nil, s, notRunning()
		}
		if err != nil {
			return nil, s, fmt.Errorf("ask the node: %w", err)
		}

		defer resp.Body.Close()
		if raw, err = io.ReadAll(io.LimitReader(resp.Body, maxState)); err != nil {
			return nil, s, fmt.Errorf("ask the node: %w", err)
		}
		if resp.StatusCode != http.StatusOK {
			return nil, s, fmt.Errorf("ask the node: %s: %s", resp.Status, bytes.TrimSpace(raw[:min(len(raw), 200)]))
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, s, fmt.Errorf("ask the node: %w", err)
		}

		return raw, s, nil
	}
}
