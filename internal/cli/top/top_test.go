package top

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/internal/observe"
	"github.com/lightwork-market/lightwork/internal/testclass"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay"
)

func busyNode() observe.State {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := observe.State{
		Version: "v1", PubKey: strings.Repeat("a", 64), At: at, StartedAt: at.Add(-50 * time.Hour), HeldMsats: 1500,
		Checks: []observe.Check{{Name: "wallet", Detail: "refuses \x1b[2J everything"}},
		Totals: observe.Totals{Succeeded: 3, Failed: 1},
		Relays: []relay.Status{{URL: "wss://relay.example.com", State: relay.StateWaiting, Error: "connect: no\x07\nready"}},
		Agents: []observe.Agent{{ID: "com.example.summaries", State: supervisor.StateDown, Restarts: 5, Reason: "it crashed"}},
	}
	for range 100 {
		s.Open = append(s.Open, observe.OpenJob{
			RequestID: strings.Repeat("b", 64), State: provider.StateRunning, Schema: "oa.sandbox_run.v1", Mode: "hold",
			PriceMsats: 20000, AddedAt: at.Add(-90 * time.Second), StateAt: at.Add(-5 * time.Second),
		})
	}
	return s
}

// TestTopFits: no line is wider and no page longer than the screen, nothing
// steers the terminal, and without colour nothing but text is written.
func TestTopFits(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {20, 10}, {1, 3}, {200, 0}, {40, 4}} {
		page := drawing{width: size[0], height: size[1]}
		text := page.draw(busyNode())
		if strings.ContainsAny(text, "\x1b\x07") {
			t.Errorf("%v: control characters in %q", size, text)
		}
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if size[1] > 0 && len(lines) >= size[1] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		if slices.Contains(lines, "ready") {
			t.Errorf("%v: a relay wrote a line of its own", size)
		}
		for _, l := range lines {
			if utf8.RuneCountInString(l) > size[0] {
				t.Errorf("%v: %q is too wide", size, l)
			}
		}
	}
	page := drawing{width: 100, height: 24, colour: true}
	if text := page.draw(busyNode()); !strings.Contains(text, "\x1b[31mNOT READY\x1b[0m") || strings.Contains(text, "[2J\x1b") {
		t.Errorf("in colour: %q", text)
	}
}

// TestTopIsLeftByKey: q and Ctrl-C end it, other keys and a pipe do not, and the
// terminal is as it was afterwards.
func TestTopIsLeftByKey(t *testing.T) {
	for _, keys := range []string{"xq", "Q", "\x1b[A\x03"} {
		keyboard, tty := testclass.Terminal(t)
		before, err := term.GetState(int(tty.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		ctx, restore := leftByKey(t.Context(), tty)
		if _, err := keyboard.WriteString(keys); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Minute):
			t.Errorf("%q: still there", keys)
		}
		restore()
		if after, err := term.GetState(int(tty.Fd())); err != nil || !reflect.DeepEqual(after, before) {
			t.Errorf("%q: the terminal is %+v, was %+v, %v", keys, after, before, err)
		}
	}
	ctx, restore := leftByKey(t.Context(), strings.NewReader("q"))
	if ctx.Err() != nil {
		t.Error("what is no terminal has a key")
	}
	if restore(); ctx.Err() == nil {
		t.Error("it is not over")
	}
}

func TestTopSays(t *testing.T) {
	page := drawing{width: 120}
	text := page.draw(busyNode())
	for _, want := range []string{
		"NOT READY  up 2d02h", "wallet    refuses", "100 open, 3 succeeded, 1 failed", "held 1500 msats", "waiting    wss://relay.example.com",
		"connect: no", "down       com.example.summaries  0 calls under way, 5 restarts  it crashed", "bbbbbbbbbbbb running         5s   1m30s  hold 20 sat",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}
