package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func goodbye(reason string) *Message { return &Message{Payload: &Goodbye{Reason: reason}} }

func TestOutboxKeepsOrder(t *testing.T) {
	ours, theirs := net.Pipe()
	o := NewOutbox(ours, 0, 8)
	served := make(chan error, 1)
	go func() { served <- o.Serve(); ours.Close() }()
	const n = 500
	go func() {
		for i := range n {
			// A big one now and then does not fit into a batch.
			reason := strconv.Itoa(i)
			if i%50 == 0 {
				reason += strings.Repeat(" ", 200)
			}
			if err := o.Send(context.Background(), goodbye(reason)); err != nil {
				t.Error(err)
			}
		}
		o.Close()
		o.Close() // twice is fine
	}()
	r := frame.NewReader(theirs, 0)
	for i := range n {
		p, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		m, err := Decode(p, Core)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, _ := strings.Cut(m.Payload.(*Goodbye).Reason, " "); got != strconv.Itoa(i) {
			t.Fatalf("message %d is %q", i, got)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("end is %v", err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := o.TrySend(goodbye("late")); !errors.Is(err, ErrOutboxClosed) {
		t.Errorf("after close: %v", err)
	}
	if o.bytes != 0 {
		t.Errorf("%d bytes are still counted", o.bytes)
	}
}

func TestOutboxOfAPeerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		o := NewOutbox(ours, 0, 4)
		served := make(chan error, 1)
		go func() { served <- o.Serve() }()
		var full bool
		for range 10 {
			if err := o.TrySend(goodbye("x")); errors.Is(err, ErrOutboxFull) {
				full = true
			} else if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if !full {
			t.Error("the queue has no end")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var err error
		for range 5 {
			err = errors.Join(err, o.Send(ctx, goodbye("x")))
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("send: %v", err)
		}
		begin := time.Now()
		if err := <-served; err == nil || time.Since(begin) > writeTimeout {
			t.Errorf("serve ends with %v after %s", err, time.Since(begin))
		}
		if err := o.Send(t.Context(), goodbye("x")); !errors.Is(err, ErrOutboxClosed) {
			t.Errorf("send after the end: %v", err)
		}
	})
}

func TestUrgentMessagesOvertakeAStream(t *testing.T) {
	ours, theirs := net.Pipe()
	o := NewOutbox(ours, 0, 8)
	for range 5 {
		if err := o.Send(t.Context(), goodbye("stream")); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.TrySend(goodbye("urgent")); err != nil {
		t.Fatal(err)
	}
	o.Close()
	go func() { _ = o.Serve(); ours.Close() }()
	r := frame.NewReader(theirs, 0)
	for i := range 6 {
		p, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		m, err := Decode(p, Core)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Payload.(*Goodbye).Reason; (got == "urgent") != (i == 0) {
			t.Errorf("message %d is %s", i, got)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("end is %v", err)
	}
}

func TestOutboxFromManySenders(t *testing.T) {
	var sink lockedBuffer
	o := NewOutbox(&sink, 0, 16)
	served := make(chan error, 1)
	go func() { served <- o.Serve() }()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if err := o.Send(context.Background(), goodbye(strings.Repeat("y", 100))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	o.Close()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	r := frame.NewReader(&sink.Buffer, 0)
	n := 0
	for {
		p, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(p, Core); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 800 {
		t.Errorf("%d messages arrived, want 800", n)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}
