package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
)

// subscription is one connection that waits for live events.
type subscription struct {
	ws  *websocket.Conn
	got chan time.Time // when each event came
}

func subscribe(addr string) (*subscription, error) {
	ctx := context.Background()
	ws, _, err := websocket.Dial(ctx, "ws://"+addr, nil)
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(1 << 20)
	s := &subscription{ws, make(chan time.Time, 1)}
	if err := ws.Write(ctx, websocket.MessageText, []byte(`["REQ","s",{"kinds":[1],"#t":["bench"],"limit":0}]`)); err != nil {
		return nil, err
	}
	if _, doc, err := ws.Read(ctx); err != nil || !bytes.HasPrefix(doc, []byte(`["EOSE"`)) {
		return nil, fmt.Errorf("subscribe: %s, %v", doc, err)
	}
	go func() {
		defer close(s.got)
		for {
			if _, _, err := ws.Read(ctx); err != nil {
				return
			}
			s.got <- time.Now()
		}
	}()
	return s, nil
}

// audience is a relay with its subscribers and a publisher.
type audience struct {
	publisher *websocket.Conn
	subs      []*subscription
	took      []time.Duration // of every delivery
}

func gather(tb testing.TB, name string, subscribers int) *audience {
	tb.Helper()
	addr := start(tb, name)
	a := &audience{}
	for range subscribers {
		s, err := subscribe(addr)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = s.ws.CloseNow() })
		a.subs = append(a.subs, s)
	}
	ws, _, err := websocket.Dial(context.Background(), "ws://"+addr, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = ws.CloseNow() })
	a.publisher = ws
	return a
}

// spread publishes an event and waits until every subscriber has it and the
// relay has accepted it.
func (a *audience) spread(tb testing.TB, doc []byte) {
	begin := time.Now()
	if err := a.publisher.Write(context.Background(), websocket.MessageText, doc); err != nil {
		tb.Fatal(err)
	}
	var (
		mu sync.Mutex
		wg sync.WaitGroup
	)
	for _, s := range a.subs {
		wg.Go(func() {
			at, ok := <-s.got
			if !ok {
				tb.Error("an event did not arrive")
				return
			}
			mu.Lock()
			defer mu.Unlock()
			a.took = append(a.took, at.Sub(begin))
		})
	}
	wg.Wait()
	if _, _, err := a.publisher.Read(context.Background()); err != nil {
		tb.Fatal(err)
	}
}

func (a *audience) percentile(p int) float64 {
	slices.Sort(a.took)
	return float64(a.took[(len(a.took)-1)*p/100].Microseconds())
}

// BenchmarkFanOut measures from the sending of an event until a subscriber has
// it, one event at a time, both relays in turn. Events of one relay are durable
// before they spread, of the other they are in memory alone.
func BenchmarkFanOut(b *testing.B) {
	for _, subscribers := range []int{100, 500} {
		b.Run(fmt.Sprint(subscribers), func(b *testing.B) {
			ours, theirs := gather(b, "lightwork", subscribers), gather(b, "khatru-memory", subscribers)
			docs := messages(notes(b, b.N))
			b.ResetTimer()
			for _, doc := range docs {
				ours.spread(b, doc)
				theirs.spread(b, doc)
			}
			b.StopTimer()
			for name, a := range map[string]*audience{"lightwork": ours, "khatru": theirs} {
				b.ReportMetric(a.percentile(50), name+"-p50-us")
				b.ReportMetric(a.percentile(95), name+"-p95-us")
			}
			b.ReportMetric(ours.percentile(50)/theirs.percentile(50), "p50-ratio")
		})
	}
}

// TestFanOut: what is measured works.
func TestFanOut(t *testing.T) {
	for name := range measured {
		a := gather(t, name, 10)
		for _, doc := range messages([]nostr.Event{notes(t, 1)[0], notes(t, 1)[0]}) {
			a.spread(t, doc)
		}
	}
}
