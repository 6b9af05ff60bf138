package nostr_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// world is a node in a folder of its own: configuration, relay and ledger run.
type world struct {
	dir    string
	relay  string // ws://...
	ledger string // http://...
}

// newWorld starts relay and ledger; the provider offers ranking for 2000 msats.
func newWorld(t *testing.T) *world {
	t.Helper()
	relay, ledger := freeAddress(t), freeAddress(t)
	w := &world{dir: t.TempDir(), relay: "ws://" + relay, ledger: "http://" + ledger}
	if out, err := w.lightwork("init", "--relay", w.relay).CombinedOutput(); err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	config, err := os.ReadFile(filepath.Join(w.dir, "lightwork.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	before, _, ok := strings.Cut(string(config), "  offers:")
	_, after, ok2 := strings.Cut(string(config), "  # What strangers can take")
	if !ok || !ok2 {
		t.Fatal("lightwork.yaml has another form")
	}
	offers := "  offers:\n    - schema: oa.retrieval_rerank.v1\n      modes: [prepay, free]\n      base_msats: 2000\n"
	text := strings.NewReplacer("127.0.0.1:7447", relay, "127.0.0.1:7448", ledger, "[hold, postpay, free]", "[hold, prepay, postpay, free]").
		Replace(before + offers + "  # What strangers can take" + after)
	w.write(t, "lightwork.yaml", text)
	w.start(t, "relay")
	w.start(t, "wallet", "play-serve")
	reachable(t, relay)
	reachable(t, ledger)
	return w
}

// sell starts the provider and waits until it is announced.
func (w *world) sell(t *testing.T) *process {
	t.Helper()
	p := w.start(t, "provider", "run")
	p.await(t, &p.errs, "announced on")
	return p
}

func (w *world) start(t *testing.T, args ...string) *process {
	t.Helper()
	return start(t, w.dir, w.lightwork(args...))
}

func (w *world) lightwork(args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = w.dir
	return cmd
}

// move brings the market to another relay; blobs stay on our own.
func (w *world) move(t *testing.T, relay string) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(w.dir, "lightwork.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	blobs := "blobs:\n  - " + strings.Replace(w.relay, "ws://", "http://", 1)
	w.write(t, "lightwork.yaml", strings.NewReplacer(w.relay, relay, "# blobs:\n#   - https://blobs.example.com", blobs).Replace(string(config)))
	w.relay = relay
}

func (w *world) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// options are those of an outside program in this world.
func (w *world) options(more ...string) map[string]string {
	o := map[string]string{"relay": w.relay, "ledger": w.ledger}
	for i := 0; i+1 < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	return o
}

func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// reachable waits until something listens on addr.
func reachable(t *testing.T, addr string) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
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
