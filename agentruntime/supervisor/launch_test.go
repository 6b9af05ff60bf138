package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

func TestStartFails(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
		spec func() Spec
		want error
	}{
		{"no such program", Config{}, func() Spec { s := agentSpec(""); s.Command = []string{"/none"}; return s }, os.ErrNotExist},
		{"not executable", Config{}, func() Spec { s := agentSpec(""); s.Command = []string{"/etc/passwd"}; return s }, os.ErrPermission},
		{"no such directory", Config{}, func() Spec { s := agentSpec("reference"); s.Dir = "/none"; return s }, nil},
		{"exits", Config{}, func() Spec { return agentSpec("exit") }, errExited},
		{"says nothing", Config{HandshakeTimeout: 5 * time.Second}, func() Spec { return agentSpec("silent") }, errHandshakeTimeout},
		{"expired token", Config{TokenTTL: 1, HandshakeTimeout: patience}, func() Spec { return agentSpec("reference") }, errExited},
		{"other version", Config{}, func() Spec { s := agentSpec("reference"); s.Version = "2.0.0"; return s }, errExited},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, tt.cfg)
			err := n.Start(t.Context(), tt.spec())
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if len(n.Status()) != 0 {
				t.Errorf("left %v", n.Status())
			}
			if left, err := os.ReadDir(n.cfg.SocketDir); err != nil || len(left) != 0 {
				t.Errorf("socket directory holds %v, %v", left, err)
			}
		})
	}
}

func TestStartTwiceAndCanceled(t *testing.T) {
	n := newNode(t, Config{})
	start(t, n, agentSpec("reference"))
	if err := n.Start(t.Context(), agentSpec("reference")); !errors.Is(err, ErrExists) {
		t.Errorf("second start: %v", err)
	}
	other := agentSpec("silent")
	other.ID = "com.example.silent"
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := n.Start(ctx, other); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("canceled start: %v", err)
	}
	if err := n.Restart("nobody"); !errors.Is(err, ErrNoAgent) {
		t.Errorf("restart: %v", err)
	}
}

func TestAnotherUser(t *testing.T) {
	requirements.Covers(t, "OS-1.1.2", "AP-8.2.1")
	if os.Geteuid() != 0 {
		testclass.Unavailable(t, "only root starts an agent under another account")
	}
	// The test binary is in a directory that only we can enter.
	dir, err := os.MkdirTemp("/tmp", "lw")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	spec := agentSpec("reference")
	binary, err := os.ReadFile(spec.Command[0])
	if err != nil {
		t.Fatal(err)
	}
	spec.Command[0] = filepath.Join(dir, "agent")
	if err := os.WriteFile(spec.Command[0], binary, 0o755); err != nil {
		t.Fatal(err)
	}
	spec.UID, spec.GID, spec.Dir = 65534, 65534, "/"
	n := newNode(t, Config{SocketDir: filepath.Join(dir, "run")})
	start(t, n, spec)
	if _, err := n.Call(t.Context(), helloCall()); err != nil {
		t.Error(err)
	}
	sockets, err := filepath.Glob(filepath.Join(dir, "run", "*", socketName))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets %v, %v", sockets, err)
	}
	for uid, want := range map[int]bool{65533: false, spec.UID: true} {
		look := exec.CommandContext(t.Context(), "ls", sockets[0])
		look.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		if err := look.Run(); (err == nil) != want {
			t.Errorf("uid %d at the socket: %v", uid, err)
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.Status()[0].PID))
	if err != nil || !strings.Contains(string(status), "Uid:\t65534\t65534\t65534\t65534") || !strings.Contains(string(status), "Groups:\t \n") {
		t.Errorf("the agent runs as %v\n%s", err, status)
	}
	for _, set := range []string{"CapPrm", "CapEff", "CapAmb"} {
		if !strings.Contains(string(status), set+":\t0000000000000000\n") {
			t.Errorf("the agent has capabilities:\n%s", status)
		}
	}
}
