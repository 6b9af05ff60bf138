package mcp

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// open starts a server without an agent and introduces the host to it.
func open(t *testing.T, server string, limit time.Duration) error {
	t.Helper()
	cfg := Config{Command: []string{self(t), serverArgument, server}, Logger: slog.New(slog.DiscardHandler)}
	p, err := startServer(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(p, cfg.Logger)
	h.limit = limit
	_, err = h.open(t.Context())
	h.close()
	if err := syscall.Kill(p.cmd.Process.Pid, 0); err != syscall.ESRCH {
		t.Errorf("the server is still there: %v", err)
	}
	return err
}

func TestServersThatDoNotComeUp(t *testing.T) {
	for _, tt := range []struct {
		server string
		limit  time.Duration
		want   error
		says   string
	}{
		{"silent", 200 * time.Millisecond, ErrNoAnswer, "within 200ms"},
		{"dead", startTimeout, ErrServerEnded, "exit status 7"},
		{"refusing", startTimeout, ErrRefused, "the server refused to initialize: no licence"},
		{"garbage", startTimeout, ErrMalformed, ""},
		{"noise", startTimeout, ErrMalformed, "no messages"},
		{"giant", startTimeout, ErrMessageTooLarge, ""},
	} {
		t.Run(tt.server, func(t *testing.T) {
			err := open(t, tt.server, tt.limit)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A child that the server leaves behind ends with it, also where no guard is.
func TestServerLeavesNothingBehind(t *testing.T) {
	log := new(lockedBuffer)
	err := Main(t.Context(), Config{
		Command: []string{"sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo child $! >&2"},
		Logger:  slog.New(slog.NewTextHandler(log, nil)),
	})
	if !errors.Is(err, ErrServerEnded) {
		t.Errorf("got %v", err)
	}
	_, after, _ := strings.Cut(log.String(), "child ")
	pid, err := strconv.Atoi(strings.TrimRight(strings.Fields(after + " x")[0], `"`))
	if err != nil {
		t.Fatalf("no child: %s", log)
	}
	// It is killed, and init or whoever adopted it reaps it in its own time.
	eventually(t, "the child ends", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

// lockedBuffer is written to by several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestStartIsCanceled(t *testing.T) {
	cfg := Config{Command: []string{self(t), serverArgument, "silent"}}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := Main(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestAgentNamesWhyItEnds(t *testing.T) {
	n, err := start(t, "dead")
	if err == nil {
		t.Fatal("the agent came up")
	}
	eventually(t, "the reason is logged", func() bool {
		return strings.Contains(n.log(), "agent ends: mcp: the server ended (exit status 7)")
	})
	if !strings.Contains(n.log(), "no config") {
		t.Error("the server's stderr is missing")
	}
}

func TestArguments(t *testing.T) {
	cfg, err := ParseArgs([]string{"--env", "A", "--env", "B", "--", "npx", "--env", "x"})
	if err != nil || strings.Join(cfg.Env, " ") != "A B" || strings.Join(cfg.Command, " ") != "npx --env x" {
		t.Errorf("%+v, %v", cfg, err)
	}
	for _, args := range []string{"", "--", "npx", "--env", "--env A", "--env A=b -- npx", "--env OPENSENTIENCE_SESSION_TOKEN -- npx", "--dir x -- npx"} {
		if _, err := ParseArgs(strings.Fields(args)); !errors.Is(err, ErrUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
	if err := Main(t.Context(), Config{}); !errors.Is(err, ErrUsage) {
		t.Errorf("no command: %v", err)
	}
	if err := Main(t.Context(), Config{Command: []string{"/nowhere/server"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing program: %v", err)
	}
}
