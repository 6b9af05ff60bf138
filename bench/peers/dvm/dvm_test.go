// Package dvm_test measures whole jobs: the node beside the smallest useful
// DVM of NDK, of nostr-tools and of go-nostr, all on one relay. A job is an
// ordinary request of NIP-90, kind 5050, for the text that it brings.
package dvm_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	// A guard of the supervisor is this program, too.
	_ "github.com/lightwork-market/lightwork/agentruntime/guard"
	"github.com/lightwork-market/lightwork/bench/peers/relays"
)

// childArgument, a name of children and an argument make this program that child.
const childArgument = "dvm-child"

var children = map[string]func(ctx context.Context, arg string) error{
	"relay-lightwork": onOwn(relays.Lightwork),
	"relay-khatru":    onOwn(relays.KhatruMemory),
	"go-nostr":        serveGoNostr,
	"agent":           serveAgent,
}

func TestMain(m *testing.M) {
	if len(os.Args) != 4 || os.Args[1] != childArgument {
		os.Exit(run(m))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := children[os.Args[2]](ctx, os.Args[3]); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// program is the lightwork that is measured.
var program string

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lightwork-bench-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "lightwork")
	if err := build(program); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// A seller is a DVM that runs.
type seller struct {
	name, key string // the public key, hex
	*process
}

// sellers start one of each kind, in the order in which they take turns.
var sellers = []func(tb testing.TB, w world) seller{
	startLightwork, startGoNostr,
	func(tb testing.TB, w world) seller { return startNode(tb, w, "nostr-tools") },
	func(tb testing.TB, w world) seller { return startNode(tb, w, "ndk") },
}

// grounds are the relays that they are measured on: the embedded relay, durable, and as a
// control a khatru that keeps events in memory.
var grounds = []string{"lightwork", "khatru"}

// What is measured works: each seller gives one result for each request, on each relay.
func TestEcho(t *testing.T) {
	for _, relay := range grounds {
		t.Run(relay, func(t *testing.T) {
			w := open(t, relay)
			b := connect(t, w)
			for _, start := range sellers {
				s := start(t, w)
				b.buy(t, s, 24, 8)
				b.buy(t, s, 2, 1)
			}
			b.once(t)
		})
	}
}

const (
	rounds   = 3
	inFlight = 32
	warm     = 200 // jobs, for the compilers of JavaScript
	many     = 1000
	alone    = 200
)

// BenchmarkEcho has all sellers take turns, rounds times, and tells of each the
// medians. One iteration is all that it needs: -benchtime 1x.
func BenchmarkEcho(b *testing.B) {
	for _, relay := range grounds {
		b.Run(relay, func(b *testing.B) {
			w := open(b, relay)
			buyer := connect(b, w)
			var all []seller
			for _, start := range sellers {
				s := start(b, w)
				buyer.buy(b, s, warm, inFlight)
				all = append(all, s)
			}
			b.ResetTimer()
			for b.Loop() {
				crowd, single := map[string][]figures{}, map[string][]figures{}
				for range rounds {
					for _, s := range all {
						crowd[s.name] = append(crowd[s.name], measure(b, w, buyer, s, many, inFlight))
						single[s.name] = append(single[s.name], measure(b, w, buyer, s, alone, 1))
					}
				}
				tell(b, all, crowd, single)
			}
			b.StopTimer()
			buyer.once(b)
		})
	}
}
