package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	agentsandbox "github.com/lightwork-market/lightwork/agentruntime/agents/sandbox"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node/roles"
	"github.com/lightwork-market/lightwork/internal/port"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay"
)

// lines is a writer that lets a test wait for a line.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

func newLines() *lines { return &lines{more: make(chan struct{}, 64)} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	select {
	case l.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (l *lines) await(t *testing.T, pattern string) {
	t.Helper()
	want := regexp.MustCompile(pattern)
	end := time.After(2 * time.Minute)
	for {
		l.mu.Lock()
		text := l.text.String()
		l.mu.Unlock()
		if want.MatchString(text) {
			return
		}
		select {
		case <-l.more:
		case <-end:
			t.Fatalf("no %q in %q", pattern, text)
		}
	}
}

// TestTellerTellsOfRelays: a relay that nobody runs is told of, and not twice.
func TestTellerTellsOfRelays(t *testing.T) {
	addr := port.Reserve(t)
	pool, err := relay.NewPool(relay.Config{URLs: []string{"ws://" + addr}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	out := newLines()
	tell := NewSaleLog(slog.New(slog.NewTextHandler(out, nil)), pageWords, nil)
	running.Go(func() { _ = pool.Serve(ctx) })
	running.Go(func() { _ = tell.watchRelays(ctx, pool) })
	out.await(t, `msg="not connected to ws://`+addr+`, retrying: .*connection refused`)
	cancel()
	running.Wait()

	told := map[string]relay.State{}
	var buf bytes.Buffer
	tell = NewSaleLog(slog.New(slog.NewTextHandler(&buf, nil)), pageWords, nil)
	for _, state := range []relay.State{
		relay.StateConnecting, relay.StateWaiting, relay.StateConnecting, relay.StateWaiting, relay.StateConnected, relay.StateConnecting, relay.StateConnected,
	} {
		tell.relay(told, relay.Status{URL: "ws://r", State: state, Error: "why"})
	}
	if got := withoutTime(buf.String()); got != "msg=\"not connected to ws://r, retrying: why\"\nmsg=\"connected to ws://r\"\n" {
		t.Errorf("told %q", got)
	}
}

// withoutTime takes off what each line of the log begins with.
func withoutTime(text string) string {
	return regexp.MustCompile(`(?m)^time=\d{4}-\d\d-\d\dT\S+ level=INFO `).ReplaceAllString(text, "")
}

// TestTellerTellsOfJobs: one line a job that ended.
func TestTellerTellsOfJobs(t *testing.T) {
	var buf bytes.Buffer
	NewSaleLog(slog.New(slog.NewTextHandler(&buf, nil)), pageWords, nil).event(provider.EndEvent{
		RequestID: "0123456789abcdef", State: provider.StateFailed,
		Reason: provider.Reason{Code: provider.CodeDeadline, Detail: "late\x1b[2J"}, Owed: &provider.Credit{Msats: 7000},
	})
	if got := withoutTime(buf.String()); got != "msg=\"job 0123456789ab failed, 0 sat: deadline: late\ufffd[2J; 7 sat are owed to the buyer, as credit\"\n" {
		t.Errorf("told %q", got)
	}
}

// pageWords are those of a door that has buttons.
func pageWords(text string) string {
	return advice.Say(text, map[string]string{advice.Resume: "the button Resume", advice.Check: "the page Health"})
}

// TestTellerUsesTheWordsOfItsDoor: what can be done is said as it is done where it is read.
func TestTellerUsesTheWordsOfItsDoor(t *testing.T) {
	var buf bytes.Buffer
	tell := NewSaleLog(slog.New(slog.NewTextHandler(&buf, nil)), pageWords, nil)
	c := New(config.In(t.TempDir()), "test", slog.New(slog.DiscardHandler))
	if err := c.Admission().Set(provider.AdmissionDraining, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := endOfDrain(c, tell, provider.ErrDrained); !errors.As(err, new(*roles.Finished)) {
		t.Fatal(err)
	}
	if got := withoutTime(buf.String()); got != "msg=\"drained: every job has ended; the button Resume takes jobs again at the next run\"\n" {
		t.Errorf("told %q", got)
	}
	if got := c.Admission().Word(); got != provider.AdmissionPaused {
		t.Errorf("after a drain the node is %s", got)
	}

	loose := &stock{tell: tell, loose: true, routes: map[string]route{"a": {agent: agentsandbox.ID}}}
	if why, unfit := loose.tool("a"); unfit || !strings.Contains(why, "the page Health says what is missing") {
		t.Errorf("withdrawn because %q", why)
	}
}
