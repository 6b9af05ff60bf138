package dvm_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

const (
	kindRequest = 5050
	kindResult  = 6050
)

// buyer sends requests over one connection and takes their results. It runs on
// the processors of those it measures, so it does no more than a buyer must.
type buyer struct {
	ws      *websocket.Conn
	ended   chan struct{} // closed with the connection
	secret  string
	key     string
	serial  int // of the next request, so that no two are alike
	refused chan string

	mu      sync.Mutex
	waiting map[string]chan nostr.Event // by request
	results map[string]int              // that came, by request
}

func connect(tb testing.TB, w world) *buyer {
	tb.Helper()
	ctx := w.ctx // patience ends a run
	ws, _, err := websocket.Dial(ctx, w.url, nil)
	if err != nil {
		tb.Fatal(err)
	}
	ws.SetReadLimit(1 << 20)
	b := &buyer{
		ws: ws, ended: make(chan struct{}), secret: nostr.GeneratePrivateKey(), refused: make(chan string, 1),
		waiting: map[string]chan nostr.Event{}, results: map[string]int{},
	}
	if b.key, err = nostr.GetPublicKey(b.secret); err != nil {
		tb.Fatal(err)
	}
	live := make(chan struct{})
	go func() { defer close(b.ended); b.read(ctx, live) }()
	tb.Cleanup(func() { _ = ws.CloseNow(); <-b.ended })
	req := nip01.AppendReq(nil, "results", []nostr.Filter{{Kinds: []int{kindResult}, Tags: nostr.TagMap{"p": {b.key}}}})
	if err := ws.Write(ctx, websocket.MessageText, req); err != nil {
		tb.Fatal(err)
	}
	select {
	case <-live:
	case <-b.ended:
		tb.Fatal("the relay has gone away")
	case <-time.After(patience):
		tb.Fatalf("the relay has not opened a subscription within %s", patience)
	}
	return b
}

// read hands every result to who waits for it, until the connection ends. What
// comes unasked for, or again, is counted all the same.
func (b *buyer) read(ctx context.Context, live chan struct{}) {
	for {
		_, doc, err := b.ws.Read(ctx)
		if err != nil {
			return
		}
		m, err := nip01.ParseRelay(doc, nip01.Limits{})
		switch {
		case err != nil || m.Label == "OK" && !m.Accepted || m.Label == "CLOSED":
			select {
			case b.refused <- fmt.Sprintf("%.300s, %v", doc, err):
			default:
			}
		case m.Label == "EOSE":
			close(live)
		case m.Label == nip01.LabelEvent:
			b.came(m.Event)
		}
	}
}

func (b *buyer) came(ev nostr.Event) {
	of := ev.Tags.Find("e")
	if of == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.results[of[1]]++
	if to, ok := b.waiting[of[1]]; ok {
		delete(b.waiting, of[1])
		to <- ev
	}
}

// requests are signed beforehand: signing them is not what is measured.
func (b *buyer) requests(tb testing.TB, s seller, n int) []nostr.Event {
	tb.Helper()
	list := make([]nostr.Event, n)
	for i := range list {
		b.serial++
		list[i] = nostr.Event{
			Kind: kindRequest, CreatedAt: nostr.Now(),
			Tags: nostr.Tags{{"i", fmt.Sprint("echo ", b.serial), "text"}, {"output", "text/plain"}, {"p", s.key}},
		}
		if err := list[i].Sign(b.secret); err != nil {
			tb.Fatal(err)
		}
	}
	return list
}

// buy has s do n jobs, inFlight of them at once, and returns how long each took
// and all of them together.
func (b *buyer) buy(tb testing.TB, s seller, n, inFlight int) (took []time.Duration, elapsed time.Duration) {
	tb.Helper()
	list := b.requests(tb, s, n)
	took = make([]time.Duration, n)
	var (
		next atomic.Int64
		wg   sync.WaitGroup
	)
	late := make(chan struct{})
	timer := time.AfterFunc(patience, func() { close(late) })
	defer timer.Stop()
	begin := time.Now()
	for range inFlight {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				at := time.Now()
				if err := b.job(&list[i], s.key, late); err != nil {
					tb.Errorf("%s, job %d of %d: %v", s.name, i+1, n, err)
					return
				}
				took[i] = time.Since(at)
			}
		})
	}
	wg.Wait()
	elapsed = time.Since(begin)
	if tb.Failed() {
		tb.FailNow()
	}
	return took, elapsed
}

// job publishes a request and checks its result.
func (b *buyer) job(req *nostr.Event, seller string, late chan struct{}) error {
	result := make(chan nostr.Event, 1)
	b.mu.Lock()
	b.waiting[req.ID] = result
	b.mu.Unlock()
	if err := b.ws.Write(context.Background(), websocket.MessageText, nip01.AppendEventMessage(nil, req)); err != nil {
		return err
	}
	select {
	case ev := <-result:
		if ev.Kind != kindResult || ev.PubKey != seller || ev.Content != req.Tags[0][1] {
			return fmt.Errorf("result %s", ev)
		}
		return nip01.Verify(&ev)
	case why := <-b.refused:
		return fmt.Errorf("the relay says %s", why)
	case <-b.ended:
		return errors.New("the relay has gone away")
	case <-late:
		return fmt.Errorf("no result within %s", patience)
	}
}

// once wants exactly one result of every request so far.
func (b *buyer) once(tb testing.TB) {
	tb.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.results) != b.serial {
		tb.Errorf("results of %d requests, want %d", len(b.results), b.serial)
	}
	for id, n := range b.results {
		if n != 1 {
			tb.Errorf("%d results of %s", n, id)
		}
	}
}
