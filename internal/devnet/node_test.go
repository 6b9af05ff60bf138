package devnet

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// restNode is a node whose REST port is handler and whose process is a sleep.
func restNode(t *testing.T, handler http.HandlerFunc) *Node {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	n, err := newNode("alice", "", t.TempDir(), &btcd{})
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(n.TLSCertFile(), cert, 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := tlsClient(n.TLSCertFile())
	if err != nil {
		t.Fatal(err)
	}
	n.rest.http, n.rest.address = client, server.Listener.Addr().String()
	if n.proc, err = startProcess("/bin/sleep", n.LogFile(), "1000"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Kill)
	return n
}

// The configuration holds a password, so it is the owner's alone, and names
// loopback addresses only.
func TestNodeConfig(t *testing.T) {
	n, err := newNode("alice", "", t.TempDir(), &btcd{address: "127.0.0.1:1", pass: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(n.dir, "lnd.conf")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", info.Mode(), err)
	}
	conf, _ := os.ReadFile(path)
	for _, option := range []string{"listen", "rpclisten", "restlisten", "btcd.rpchost"} {
		if !strings.Contains(string(conf), "\n"+option+"=127.0.0.1:") {
			t.Errorf("%s is not on loopback:\n%s", option, conf)
		}
	}
	if !strings.Contains(string(conf), "store-final-htlc-resolutions=true") {
		t.Error("final HTLC resolutions are not stored")
	}
}

func TestBakeMacaroon(t *testing.T) {
	n := restNode(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		want := `{"permissions":[{"entity":"uri","action":"/a/B"},{"entity":"uri","action":"/c/D"}]}`
		if r.URL.Path != "/v1/macaroon" || string(body) != want {
			t.Errorf("asked %s %s", r.URL.Path, body)
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"macaroon": "0201"})
	})
	path := filepath.Join(t.TempDir(), "m")
	if err := n.BakeMacaroon(t.Context(), path, []string{"/a/B", "/c/D"}); err != nil {
		t.Fatal(err)
	}
	if content, _ := os.ReadFile(path); string(content) != "\x02\x01" {
		t.Errorf("wrote %x", content)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// A channel counts as known when both ends have told their fees.
func TestWaitGossip(t *testing.T) {
	asked := 0
	n := restNode(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		second := `null`
		if asked > 2 {
			second = `{}`
		}
		_, _ = io.WriteString(w, `{"edges":[{"node1_policy":{},"node2_policy":`+second+`}]}`)
	})
	if err := n.WaitGossip(t.Context(), n); err != nil || asked != 3 {
		t.Errorf("%v after %d questions, want 3", err, asked)
	}
}

// A node's "not yet" is asked again and told when time is up; a dead node is
// not waited for.
func TestPollEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := restNode(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"message":"still syncing"}`)
	})
	asked := 0
	err := n.poll(ctx, "balance", func(ctx context.Context) (bool, error) {
		if asked++; asked == 3 {
			defer cancel()
		}
		return false, n.rest.call(ctx, http.MethodGet, "/v1/balance/blockchain", nil, nil)
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "still syncing") || asked < 3 {
		t.Errorf("%v after %d questions", err, asked)
	}
	n.Kill()
	if err := n.WaitGossip(t.Context(), n); !errors.Is(err, ErrStopped) {
		t.Errorf("a dead node: %v, want ErrStopped", err)
	}
	n.close()
	if err := n.Start(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("a stopped network's node starts: %v, want ErrStopped", err)
	}
}

func TestStartStopsWhatItStarted(t *testing.T) {
	dir := t.TempDir()
	// Programs that end at once are no network.
	bin := t.TempDir()
	for name := range lightningPrograms().programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho out of order\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Start(t.Context(), Config{Dir: dir, BinDir: bin})
	if !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("got %v, want ErrStopped with the program's words", err)
	}
}
