package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

type nowhere struct{}

func (nowhere) Append(context.Context, ...Entry) error { return nil }
func (nowhere) Reject(context.Context, Reject)         {}

// benchPipeline bounces a small JSON message to and fro: each Submit is one
// request and one reply, both validated.
func benchPipeline(b *testing.B) *Pipeline {
	b.Helper()
	check := func(doc []byte) error { var v struct{ N int }; return json.Unmarshal(doc, &v) }
	p, err := New(Config{
		Handlers: []Handler{{
			Name: "echo", Description: "answers", Tags: []string{"Ping"}, Outputs: []string{"Pong"}, Tool: true,
			Handle: func(_ context.Context, p Payload, _ Context) (Response, error) { return Reply("Pong", p.Bytes), nil },
		}},
		Schemas:  map[string]Validate{"Ping": check, "Pong": check},
		Profiles: []Profile{{Name: "main", Handlers: []string{"echo"}}},
		Journal:  nowhere{}, Audit: nowhere{},
	})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

var benchIngress = Ingress{Namespace: "urn:bench:v1", Tag: "Ping", Payload: []byte(`{"n":1}`), Sender: "outside"}

// BenchmarkHop is one message through all stages and its answer back, with a
// journal that costs nothing.
func BenchmarkHop(b *testing.B) {
	p := benchPipeline(b)
	t, err := p.Open("root", "main")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	hops(b, t)
}

// BenchmarkHopAmongThreads is the same with so many threads beside or above it.
func BenchmarkHopAmongThreads(b *testing.B) {
	for _, n := range []int{1, 1_000, 100_000} {
		b.Run(fmt.Sprintf("wide=%d", n), func(b *testing.B) {
			p := benchPipeline(b)
			var t *Thread
			for i := range n {
				var err error
				if t, err = p.Open(ThreadID(fmt.Sprintf("root.t-%d", i)), "main"); err != nil {
					b.Fatal(err)
				}
			}
			hops(b, t)
		})
	}
	for _, n := range []int{1, 1_000, 100_000} {
		b.Run(fmt.Sprintf("deep=%d", n), func(b *testing.B) {
			p := benchPipeline(b)
			// A path of this depth, without the threads above: their ids alone
			// would be gigabytes.
			t, err := p.Open(ThreadID("root"+strings.Repeat(".t", n-1)), "main")
			if err != nil {
				b.Fatal(err)
			}
			hops(b, t)
		})
	}
}

// hops reports the processor time too: a machine that does other things makes
// the time by the clock say little.
func hops(b *testing.B, t *Thread) {
	b.Helper()
	before := cpu(b)
	for b.Loop() {
		if _, err := t.Submit(context.Background(), benchIngress); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/1000/float64(b.N), "cpu-us/op")
}

// cpu is the processor time of this process so far.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
