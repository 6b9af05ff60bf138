package outside

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/internal/port"
)

// World is a node in a folder of its own, with relay and ledger running.
type World struct {
	Dir    string
	Relay  string // ws://...
	Ledger string // http://...
	Server *Process

	program string
}

// Main builds the real lightwork into *program, runs the tests and returns the
// exit code. No goroutine may be left.
func Main(m *testing.M, program *string) int {
	dir, err := os.MkdirTemp("", "lightwork-interop-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)

	*program = filepath.Join(dir, "lightwork")
	build := exec.Command("go", "build", "-o", *program, "github.com/lightwork-market/lightwork/cmd/lightwork")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build lightwork: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// NewWorld makes a node that has the given offers (YAML, indented by four), and
// starts relay and ledger. change may alter the configuration, as of
// strings.NewReplacer.
func NewWorld(t *testing.T, program, offers string, change ...string) *World {
	t.Helper()
	relay, ledger := port.Reserve(t), port.Reserve(t)
	w := &World{Dir: t.TempDir(), Relay: "ws://" + relay, Ledger: "http://" + ledger, program: program}
	if out, err := w.Lightwork("init", "--relay", w.Relay).CombinedOutput(); err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	config := w.Read(t, "lightwork.yaml")
	before, _, ok := strings.Cut(config, "  offers:")
	_, after, ok2 := strings.Cut(config, "  # Kinds of request")
	if !ok || !ok2 {
		t.Fatal("lightwork.yaml has another form")
	}
	text := strings.NewReplacer("127.0.0.1:7447", relay, "127.0.0.1:7448", ledger, "[hold, postpay, free]", "[hold, prepay, postpay, free]").
		Replace(before + "  offers:\n" + offers + "  # Kinds of request" + after)
	w.Write(t, "lightwork.yaml", strings.NewReplacer(change...).Replace(text))
	w.Server = w.Start(t, "relay")
	w.Start(t, "wallet", "play-serve")
	reachable(t, relay)
	reachable(t, ledger)
	return w
}

// Sell starts the provider and waits until it is announced.
func (w *World) Sell(t *testing.T) *Process {
	t.Helper()
	p := w.Start(t, "provider", "run")
	p.Await(t, &p.Errs, "announced on")
	return p
}

// Start runs a command of lightwork until the test ends.
func (w *World) Start(t *testing.T, args ...string) *Process {
	t.Helper()
	return Start(t, w.Lightwork(args...))
}

// Lightwork is a command in the node's folder.
func (w *World) Lightwork(args ...string) *exec.Cmd {
	cmd := exec.Command(w.program, args...)
	cmd.Dir = w.Dir
	return cmd
}

// Move brings the market to another relay; blobs stay on our own.
func (w *World) Move(t *testing.T, relay string) {
	t.Helper()
	blobs := "blobs:\n  - " + strings.Replace(w.Relay, "ws://", "http://", 1)
	w.Write(t, "lightwork.yaml", strings.NewReplacer(w.Relay, relay, "# blobs:\n#   - https://blobs.example.com", blobs).Replace(w.Read(t, "lightwork.yaml")))
	w.Relay = relay
}

// Read returns a file of the node's folder.
func (w *World) Read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Write writes a file of the node's folder.
func (w *World) Write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Options are those of a script in this world.
func (w *World) Options(more ...string) map[string]string {
	o := map[string]string{"relay": w.Relay, "ledger": w.Ledger}
	for i := 0; i+1 < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	return o
}

// reachable waits until something listens on addr.
func reachable(t *testing.T, addr string) {
	t.Helper()

	for end := time.Now().Add(Patience); ; {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // between two attempts, not as a guess
	}
}
