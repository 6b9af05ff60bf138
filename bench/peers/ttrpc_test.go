package peers_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	echoService = "lightwork.bench.Echo"
	echoMethod  = "Echo"
)

// startTTRPC dials the child's socket once it listens.
func startTTRPC(tb testing.TB) (echo, func()) {
	dir, err := os.MkdirTemp("", "lw")
	if err != nil {
		tb.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(child(tb, "ttrpc"), socket)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		tb.Fatal(err)
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		tb.Fatal(err)
	}
	client := ttrpc.NewClient(conn)
	call := func(ctx context.Context, doc json.RawMessage) (json.RawMessage, error) {
		var out wrapperspb.BytesValue
		err := client.Call(ctx, echoService, echoMethod, &wrapperspb.BytesValue{Value: doc}, &out)
		return out.Value, err
	}
	return call, func() {
		client.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		os.RemoveAll(dir)
	}
}
