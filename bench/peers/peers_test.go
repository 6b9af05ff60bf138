// Package peers_test measures the agent runtime against other ways to call a
// child process: each starts this program again, which echoes a JSON document.
package peers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	// A guard of the supervisor is this program, too.
	_ "github.com/lightwork-market/lightwork/agentruntime/guard"
)

// echo sends a document to the child and returns what comes back.
type echo func(ctx context.Context, doc json.RawMessage) (json.RawMessage, error)

// peer is one way to call a child process.
type peer struct {
	name string
	// start launches the child and returns when it can be called.
	start func(tb testing.TB) (call echo, stop func())
	// serve is what the child does.
	serve func(ctx context.Context, args []string) error
}

var peers = []peer{
	{"lightwork", startLightwork, serveLightwork},
	{"ttrpc", startTTRPC, serveTTRPC},
	{"go-plugin", startPlugin, servePlugin},
	{"mcp", startMCP, serveMCP},
}

// childArgument and a peer's name make this program its child.
const childArgument = "peer-child"

func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != childArgument {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	i := slices.IndexFunc(peers, func(p peer) bool { return p.name == os.Args[2] })
	if i < 0 {
		os.Exit(2)
	}
	if err := peers[i].serve(ctx, os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child is the command line of a peer's child.
func child(tb testing.TB, name string, args ...string) []string {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return append([]string{self, childArgument, name}, args...)
}

// payloads are what is echoed.
var payloads = []struct {
	name string
	doc  json.RawMessage
}{
	{"small", json.RawMessage(`{"text":"hello"}`)},
	{"64KiB", json.RawMessage(`{"text":"` + strings.Repeat("x", 64<<10) + `"}`)},
}

// What is measured works, and does the same.
func TestEcho(t *testing.T) {
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			call, stop := p.start(t)
			defer stop()
			for _, load := range payloads {
				got, err := call(t.Context(), load.doc)
				if err != nil || !bytes.Equal(got, load.doc) {
					t.Errorf("%s: %.100s, %v", load.name, got, err)
				}
			}
		})
	}
}

// BenchmarkCall measures one call after the other, as the caller sees it.
func BenchmarkCall(b *testing.B) {
	for _, p := range peers {
		for _, load := range payloads {
			b.Run(p.name+"/"+load.name, func(b *testing.B) {
				call, stop := p.start(b)
				defer stop()
				var took []time.Duration
				for b.Loop() {
					begin := time.Now()
					if _, err := call(b.Context(), load.doc); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(begin))
				}
				report(b, took)
			})
		}
	}
}

// BenchmarkStart measures from the launch of the child until it can be called.
func BenchmarkStart(b *testing.B) {
	for _, p := range peers {
		b.Run(p.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				_, stop := p.start(b)
				took = append(took, time.Since(begin))
				b.StopTimer()
				stop()
				b.StartTimer()
			}
			report(b, took)
		})
	}
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	b.ReportMetric(us(took[len(took)/2]), "p50-us")
	b.ReportMetric(us(took[len(took)*95/100]), "p95-us")
}
