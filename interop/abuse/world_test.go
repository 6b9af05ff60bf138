package abuse_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/payments/playnet"
)

const (
	rerank = "oa.retrieval_rerank.v1"
	price  = 2000          // msats, of any job of the world's provider
	faucet = 1_000_000_000 // msats, what a new play wallet has
	ranked = `{"user_task":"which fruit is yellow","candidates":[{"id":"sky","content":"the sky is blue"},` +
		`{"id":"fruit","content":"the banana is a yellow fruit"}],"k":1,"verification":{"mode":"subjective"}}`
)

// world is a node in a folder of its own: configuration, relay and ledger run.
type world struct {
	dir    string
	relay  string   // ws://...
	ledger string   // http://...
	server *process // the relay
	node   *process // the provider
}

// newWorld starts relay and ledger; the provider offers ranking for 2000 msats.
// change may alter the configuration.
func newWorld(t *testing.T, change ...string) *world {
	t.Helper()
	relay, ledger := freeAddress(t), freeAddress(t)
	w := &world{dir: t.TempDir(), relay: "ws://" + relay, ledger: "http://" + ledger}
	if out, err := w.lightwork("init", "--relay", w.relay).CombinedOutput(); err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	config := w.read(t, "lightwork.yaml")
	before, _, ok := strings.Cut(config, "  offers:")
	_, after, ok2 := strings.Cut(config, "  # Kinds of request")
	if !ok || !ok2 {
		t.Fatal("lightwork.yaml has another form")
	}
	offers := "  offers:\n    - schema: " + rerank + "\n      modes: [prepay, hold, postpay, free]\n      base_msats: 2000\n" +
		"    - schema: oa.sandbox_run.v1\n      modes: [hold, postpay]\n      base_msats: 2000\n      per_minute_msats: 0\n"
	text := strings.NewReplacer("127.0.0.1:7447", relay, "127.0.0.1:7448", ledger, "[hold, postpay, free]", "[hold, prepay, postpay, free]").
		Replace(before + offers + "  # Kinds of request" + after)
	w.write(t, "lightwork.yaml", strings.NewReplacer(change...).Replace(text))
	w.write(t, "job.json", ranked)
	w.server = w.start(t, "relay")
	w.start(t, "wallet", "play-serve")
	reachable(t, relay)
	reachable(t, ledger)
	return w
}

// sell starts the provider, waits until it is listed and returns its key.
func (w *world) sell(t *testing.T) (key string) {
	t.Helper()
	w.node = w.start(t, "provider", "run")
	w.node.says(t, "announced on")
	for end := time.Now().Add(patience); ; { // there may be relays that took it sooner than ours
		for _, l := range w.listings(t) {
			if l.Name != attackerName {
				return l.Provider
			}
		}
		if time.Now().After(end) {
			t.Fatal("the provider is not listed")
		}
	}
}

type listing struct{ Provider, Name string }

func (w *world) listings(t *testing.T) (list []listing) {
	t.Helper()
	doc, err := w.lightwork("buyer", "discover", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(doc, &list); err != nil {
		t.Fatalf("%v: %s", err, doc)
	}
	return list
}

// buy runs the buyer on the usual job.
func (w *world) buy(t *testing.T, provider, mode string, more ...string) *process {
	t.Helper()
	return w.start(t, append([]string{
		"buyer", "submit", "--provider", provider, "--schema", rerank,
		"--input", "job.json", "--mode", mode, "--max-msats", "10000", "--json",
	}, more...)...)
}

// spendable is what is in the wallet of a role of the node, msats.
func (w *world) spendable(t *testing.T, role string) int64 {
	t.Helper()
	wallet, err := playnet.Dial(w.ledger, strings.TrimSpace(w.read(t, "keys/play-"+role+".token")))
	if err != nil {
		t.Fatal(err)
	}
	defer wallet.Close()
	b, err := wallet.Balance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b.SpendableMsats
}

func (w *world) lightwork(args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = w.dir
	return cmd
}

func (w *world) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (w *world) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
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
