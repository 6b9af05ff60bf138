package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

const (
	publishers = 32
	// window is how many events a publisher has under way.
	window = 32
)

// publish sends the documents on one connection, never more than window without
// an answer, and returns when all are accepted. It does no work besides, since
// the clients run on the relay's processors.
func publish(addr string, docs [][]byte) error {
	ctx := context.Background() // one that can end costs more than a message; patience ends the program
	ws, _, err := websocket.Dial(ctx, "ws://"+addr, nil)
	if err != nil {
		return err
	}
	defer ws.CloseNow()
	free := make(chan struct{}, window)
	accepted := make(chan error, 1)
	go func() {
		for range docs {
			_, doc, err := ws.Read(ctx)
			if err == nil && !bytes.Contains(doc, []byte(`",true,`)) {
				err = fmt.Errorf("refused: %s", doc)
			}
			if err != nil {
				accepted <- err
				return
			}
			<-free
		}
		accepted <- nil
	}()
	for _, doc := range docs {
		select {
		case free <- struct{}{}:
		case err := <-accepted:
			return err
		}
		if err := ws.Write(ctx, websocket.MessageText, doc); err != nil {
			return err
		}
	}
	return <-accepted
}

// ingest publishes the events from all publishers at once and returns how long
// it took until the last was accepted.
func ingest(tb testing.TB, addr string, docs [][]byte) time.Duration {
	tb.Helper()
	share := len(docs) / publishers
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range publishers {
		wg.Go(func() {
			if err := publish(addr, docs[i*share:(i+1)*share]); err != nil {
				tb.Error(err)
			}
		})
	}
	wg.Wait()
	return time.Since(begin)
}

// BenchmarkIngest measures durable events a second: both relays in turn, so that
// what else the machine does meets both.
func BenchmarkIngest(b *testing.B) {
	const n = 100 * publishers
	names := []string{"lightwork", "khatru-lmdb"}
	addrs, took := map[string]string{}, map[string]time.Duration{}
	for _, name := range names {
		addrs[name] = start(b, name)
	}
	for b.Loop() {
		for _, name := range names {
			b.StopTimer()
			docs := messages(notes(b, n))
			b.StartTimer()
			took[name] += ingest(b, addrs[name], docs)
		}
	}
	rate := func(name string) float64 { return float64(n*b.N) / took[name].Seconds() }
	for _, name := range names {
		b.ReportMetric(rate(name), name+"-events/s")
	}
	b.ReportMetric(rate(names[0])/rate(names[1]), "ratio")
}

// messages are the events as they are sent.
func messages(events []nostr.Event) [][]byte {
	docs := make([][]byte, len(events))
	for i := range events {
		docs[i] = nip01.AppendEventMessage(nil, &events[i])
	}
	return docs
}

// TestIngest: what is measured works.
func TestIngest(t *testing.T) {
	for name := range measured {
		ingest(t, start(t, name), messages(notes(t, 2*publishers)))
	}
}
