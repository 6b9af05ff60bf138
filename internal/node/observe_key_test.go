package node

import (
	"context"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/internal/observe"
	"github.com/lightwork-market/lightwork/relay"
)

// TestSocketWantsItsKey: every agent under the node's user can connect to the
// socket; what the node earns is for those who can read the key beside it.
func TestSocketWantsItsKey(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "observe")
	key, err := host.MakeKey(socket)
	if err != nil {
		t.Fatal(err)
	}
	node := observe.NewNode(observe.Config{
		Version: "v", Dir: t.TempDir(), Board: observe.NewBoard(),
		Relays: func() []relay.Status { return nil }, Agents: func() []supervisor.AgentStatus { return nil },
		Outbox: func(context.Context) (int, error) { return 0, nil },
		Offers: func() []observe.Offer { return nil },
	})
	o := &observed{node: node, key: key, log: slog.New(slog.DiscardHandler)}
	for network, addr := range map[string]string{"unix": socket, "tcp": "127.0.0.1:0"} {
		if err := o.listen(network, addr); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return o.serve(ctx) })
	defer func() {
		stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}()
	ask := func(ln net.Listener, key string) int {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, ln.Addr().Network(), ln.Addr().String())
		}}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/state", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for _, ln := range o.listeners {
		without := map[string]int{"unix": http.StatusForbidden, "tcp": http.StatusOK}[ln.Addr().Network()]
		if a, b, c := ask(ln, ""), ask(ln, strings.Repeat("0", len(key))), ask(ln, key); a != without || b != without || c != http.StatusOK {
			t.Errorf("%s: %d without a key, %d with another, %d with its own", ln.Addr().Network(), a, b, c)
		}
	}
	if st, err := os.Stat(socket + ".key"); err != nil || st.Mode() != fs.FileMode(0o600) {
		t.Errorf("the key's file: %v, %v", st, err)
	}
	if _, state, err := LookAt(socket)(t.Context()); err != nil || state.Version != "v" {
		t.Errorf("who can read it: %+v, %v", state, err)
	}
	if err := os.WriteFile(socket+".key", []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := LookAt(socket)(t.Context()); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("with another key: %v", err)
	}
}
