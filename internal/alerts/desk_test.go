package alerts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ear is a channel that hears, unless it is deaf.
type ear struct {
	mu    sync.Mutex
	deaf  bool
	heard []string
}

func (e *ear) Send(_ context.Context, m Message) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.deaf {
		return errors.New("deaf")
	}
	e.heard = append(e.heard, strings.TrimSpace(fmt.Sprintf("%s %s %s", m.State, m.Kind, m.Of)))
	return nil
}

func (e *ear) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.heard, ", ")
}

// looks gives a desk one answer after the other; the last one stays.
func looks(all ...[]Condition) func(context.Context) ([]Condition, []Kind) {
	return func(context.Context) ([]Condition, []Kind) {
		now := all[0]
		if len(all) > 1 {
			all = all[1:]
		}
		return now, []Kind{Debts, RelayGone, DiskFull}
	}
}

// run serves a desk for so long by the test's own clock.
func run(t *testing.T, file string, e *ear, d time.Duration, look func(context.Context) ([]Condition, []Kind)) {
	t.Helper()
	desk := New(Config{File: file, Node: "n", Channels: []Channel{{"ear", e.Send}}, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := desk.Serve(ctx, look); err != nil {
		t.Error(err)
	}
}

func TestConditions(t *testing.T) {
	debt, disk := Condition{Kind: Debts, Text: "owed"}, Condition{Kind: DiskFull, Text: "full"}
	one, two := Condition{Kind: RelayGone, Of: "wss://one"}, Condition{Kind: RelayGone, Of: "wss://two"}
	second := Condition{Kind: SecondNode} // of a kind that is not looked at here
	none := []Condition{}
	for name, tt := range map[string]struct {
		looks [][]Condition
		want  string
		list  int
	}{
		"nothing":                       {[][]Condition{none}, "", 0},
		"one that stays is told once":   {[][]Condition{{debt}}, "raised debts", 1},
		"its end is told":               {[][]Condition{{debt}, none}, "raised debts, ended debts", 0},
		"two kinds":                     {[][]Condition{{debt, disk}, {disk}}, "raised debts, raised disk_full, ended debts", 1},
		"a relay that comes and goes":   {[][]Condition{{one}, none, {one}, none}, "", 0},
		"a relay that is gone":          {[][]Condition{{one}, {one}, {one}}, "raised relay_gone wss://one", 1},
		"one of two relays comes back":  {[][]Condition{{one, two}, {one, two}, {two}}, "raised relay_gone wss://one, raised relay_gone wss://two, ended relay_gone wss://one", 1},
		"what was not looked at":        {[][]Condition{{second, debt}}, "raised debts", 1},
		"one that flickers is spaced":   {[][]Condition{{debt}, none, {debt}, none}, "raised debts, ended debts", 0},
		"and told once the pause is up": {[][]Condition{{debt}, none, {debt}}, "raised debts, ended debts, raised debts", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file, e := filepath.Join(t.TempDir(), "alerts.json"), &ear{}
				run(t, file, e, 10*time.Minute, looks(tt.looks...))
				if e.text() != tt.want {
					t.Errorf("heard %q, want %q", e.text(), tt.want)
				}
				if list, err := List(file); err != nil || len(list) != tt.list {
					t.Errorf("%v, %v", list, err)
				}
			})
		})
	}
}

// TestAlertsOutliveTheProcess: what was raised is not raised again, what waits for a channel
// is told later, and a condition that ended meanwhile is ended.
func TestAlertsOutliveTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file, debt := filepath.Join(t.TempDir(), "alerts.json"), []Condition{{Kind: Debts, Text: "owed"}}
		e := &ear{deaf: true}
		run(t, file, e, 3*time.Hour, looks(debt))
		if e.text() != "" {
			t.Errorf("heard %q", e.text())
		}
		e.deaf = false
		run(t, file, e, time.Minute, looks(debt))
		run(t, file, e, time.Minute, looks(debt))
		if e.text() != "raised debts" {
			t.Errorf("heard %q", e.text())
		}
		run(t, file, e, time.Minute, looks([]Condition{}))
		if e.text() != "raised debts, ended debts" {
			t.Errorf("heard %q", e.text())
		}
	})
}

// TestSpacing: a condition that comes and goes all day is told ever more seldom, and anew
// after a calm day.
func TestSpacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file, e := filepath.Join(t.TempDir(), "alerts.json"), &ear{}
		n := 0
		flicker := func(context.Context) ([]Condition, []Kind) {
			if n++; n%2 == 0 {
				return nil, []Kind{Debts}
			}
			return []Condition{{Kind: Debts}}, []Kind{Debts}
		}
		run(t, file, e, 6*time.Hour, flicker)
		if raised := strings.Count(e.text(), "raised"); raised < 5 || raised > 14 {
			t.Errorf("told %d times in six hours", raised)
		}
		run(t, file, e, 25*time.Hour, looks([]Condition{}))
		before := strings.Count(e.text(), "raised")
		run(t, file, e, time.Minute, looks([]Condition{{Kind: Debts}}))
		if strings.Count(e.text(), "raised") != before+1 {
			t.Error("not told after a calm day")
		}
	})
}

// TestDeafChannelHoldsUpNobody: the other channel hears all, and of what waits too long the
// oldest is left out and counted.
func TestDeafChannelHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf, e := &ear{deaf: true}, &ear{}
		hangs := func(ctx context.Context, _ Message) error { <-ctx.Done(); return ctx.Err() }
		file := filepath.Join(t.TempDir(), "alerts.json")
		d := New(Config{File: file, Channels: []Channel{{"hangs", hangs}, {"deaf", deaf.Send}, {"ear", e.Send}}, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		n := 0
		if err := d.Serve(ctx, func(context.Context) ([]Condition, []Kind) {
			n++
			return []Condition{{Kind: DiskFull, Of: fmt.Sprint(n % maxRaised)}}, []Kind{DiskFull}
		}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(e.text(), ","); got < 2*maxQueue {
			t.Errorf("heard %d messages", got)
		}
		q := d.queue["deaf"]
		if len(q) != maxQueue || q[0].Dropped == 0 || len(d.queue["hangs"]) != maxQueue {
			t.Errorf("%d wait, %d were left out", len(q), q[0].Dropped)
		}
		if fi, err := os.Stat(file); err != nil || fi.Size() > maxFile {
			t.Errorf("%v", err)
		}
	})
}

// TestWordsOfOthers: what strangers say is one short line that controls nothing.
func TestWordsOfOthers(t *testing.T) {
	c := Condition{Kind: RelayGone, Of: "wss://" + strings.Repeat("x", 5000), Text: "no\x1b[2J\nroute\u202e" + strings.Repeat("y", 5000)}.bounded()
	if len(c.Of) > maxOf+4 || len(c.Text) > maxText+4 || strings.ContainsAny(c.Text, "\x1b\n\u202e") {
		t.Errorf("%q", c)
	}
	m := Message{State: Ended, Node: "n", At: time.Unix(100, 0), Dropped: 3, Alert: Alert{Kind: Debts, Text: "owed", Since: time.Unix(10, 0)}}
	if got := m.Line(); got != "lightwork n: ended after 1m30s, debts: owed (3 messages before it were left out)" {
		t.Error(got)
	}
}

// TestSpoiltFile: a file that nobody can read is begun anew, and a disk that takes nothing
// keeps nobody from being told.
func TestSpoiltFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file, e := filepath.Join(dir, "alerts.json"), &ear{}
		for _, text := range []string{"", "{", `{"known":[{"kind":5}]}`} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := List(file); err == nil {
				t.Errorf("%q was read", text)
			}
			e.heard = nil
			run(t, file, e, time.Minute, looks([]Condition{{Kind: Debts}}))
			if e.text() != "raised debts" {
				t.Errorf("%q: heard %q", text, e.text())
			}
		}

		e.heard = nil
		run(t, filepath.Join(dir, "none", "alerts.json"), e, time.Minute, looks([]Condition{{Kind: Debts}}))
		if e.text() != "raised debts" {
			t.Errorf("heard %q", e.text())
		}
	})
}
