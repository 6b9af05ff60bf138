// Package typescript_test builds the TypeScript SDK from its sources and runs
// its reference agent under the supervisor, as a node would.
package typescript_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/interop/outside"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// build compiles the sources in a folder of the test's own.
func build(t *testing.T) string {
	t.Helper()
	return outside.Compile(t, ".", "src", "test", "reference")
}

// agent is the reference agent under a supervisor.
type agent struct {
	*supervisor.Supervisor
	id  string
	dir string // its working directory

	mu  sync.Mutex
	log strings.Builder
}

func launch(t *testing.T, root string) *agent {
	t.Helper()
	a := &agent{dir: filepath.Join(root, "reference")}
	m, err := manifest.Read(filepath.Join(a.dir, manifest.FileName))
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "ts") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	a.id = m.ID
	a.Supervisor, err = supervisor.New(supervisor.Config{SocketDir: sockets, OnLog: func(l supervisor.LogLine) {
		a.mu.Lock()
		defer a.mu.Unlock()
		fmt.Fprintln(&a.log, l.Stream, l.Text)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.stop(t) })
	err = a.Start(t.Context(), supervisor.Spec{
		ID: m.ID, Version: m.Version, Command: m.Command(), Dir: a.dir,
		Tools: reference.InEveryLanguage, Restart: supervisor.RestartPolicy{Never: true},
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, a.logged())
	}
	return a
}

func (a *agent) stop(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := a.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	if t.Failed() {
		t.Log(a.logged())
	}
}

func (a *agent) logged() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.log.String()
}

func TestSDK(t *testing.T) {
	requirements.Covers(t, "OSX-18")
	dir := build(t)
	t.Run("its own tests", func(t *testing.T) { outside.NPM(t, dir, "test") })
	t.Run("refusal", func(t *testing.T) { refusalIsOneLine(t, dir) })
	t.Run("contract", func(t *testing.T) { passesContract(t, dir) })
	t.Run("reference agent", func(t *testing.T) {
		a := launch(t, dir)
		t.Run("registers what the Go one does", a.registers)
		t.Run("outcomes", a.outcomes)
		t.Run("stream", a.streams)
		t.Run("cancel", a.cancels)
		t.Run("file", a.writesFile)
		t.Run("64 calls at once", a.runsMany)
		t.Run("one key, one outcome", a.replays)
		t.Run("ends in time", a.endsInTime)
	})
}
