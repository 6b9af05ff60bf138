//go:build lnd

package crashmatrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/internal/devnet"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/payments/lnd"
	"github.com/lightwork-market/lightwork/relay"
)

const (
	seller   = "provider"
	customer = "buyer"

	priceMsats = 20_000 // of a job that may take a minute
	maxMsats   = 60_000 // what a purchase may cost
	dayMsats   = 500_000_000

	// patience bounds what one cell waits for; it is far more than one takes.
	patience = 3 * time.Minute
)

// world is a market on two real lnd nodes: the provider's wallet is Alice, the
// buyer's is Bob. A proxy is before each wallet and before each side's relay.
type world struct {
	*devnet.Network
	root   *testing.T // and its context: the nodes outlive a cell
	ctx    context.Context
	dir    string
	trap   *trap
	wires  map[string]*wire
	links  map[string]*link
	second *link // the provider's second relay
	relays [2]string
	keys   map[string]*relay.Key

	selling *process
	broken  bool   // lnd does not come back: no cell after this one can be played
	disk    string // the provider's own small disk; "" if none can be mounted here
}

func newWorld(t *testing.T, ctx context.Context) *world {
	t.Helper()
	network, err := devnet.Start(ctx, devnet.Config{Dir: filepath.Join(t.TempDir(), "net")})
	check(t, err)
	t.Cleanup(network.Stop)
	w := &world{
		Network: network, root: t, ctx: ctx, dir: t.TempDir(), trap: &trap{},
		wires: map[string]*wire{}, links: map[string]*link{}, keys: map[string]*relay.Key{},
	}
	for i := range w.relays {
		w.relays[i] = w.startRelay(t, fmt.Sprintf("relay%d", i+1))
	}
	w.second = newLink(t, "spare", w.trap, w.relays[1])
	w.setUp(t, seller, network.Alice, lnd.Payee)
	w.setUp(t, customer, network.Bob, lnd.Payer)
	// The first purchase would make it; some stories look before.
	k, err := store.Open(ctx, w.dataDir(customer), store.Options{})
	check(t, err)
	check(t, k.Close())
	w.mountDisk(t)
	w.sell(t)
	w.await(t, "the buyer finds the provider", func() bool {
		out, _ := w.as(customer, "buyer", "discover").Output()
		return strings.Contains(string(out), "npub1")
	})
	return w
}

// mountDisk gives the provider's data a disk that can be filled, where the
// system permits it.
func (w *world) mountDisk(t *testing.T) {
	t.Helper()
	dir := w.dataDir(seller)
	check(t, os.MkdirAll(dir, 0o700))
	if unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", diskBytes)) != nil {
		return
	}
	w.disk = dir
	t.Cleanup(func() { check(t, unix.Unmount(dir, 0)) })
}

func (w *world) lightwork(args ...string) *exec.Cmd {
	return exec.CommandContext(w.ctx, filepath.Join(binDir, "lightwork"), args...)
}

// as is a command of one side's node.
func (w *world) as(role string, args ...string) *exec.Cmd {
	return w.lightwork(append([]string{"-c", w.config(role)}, args...)...)
}

func (w *world) config(role string) string  { return filepath.Join(w.dir, role, "lightwork.yaml") }
func (w *world) dataDir(role string) string { return filepath.Join(w.dir, role, "data", role) }

func (w *world) startRelay(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(w.dir, name)
	check(t, w.lightwork("init", "--dir", dir).Run())
	w.openBlobs(t, name)
	l := listen(t)
	address := l.address()
	l.Close() // to be the relay's
	w.begin(t, w.lightwork("-c", filepath.Join(dir, "lightwork.yaml"), "relay", "--listen", address), name)
	return address
}

// openBlobs has a relay take the blobs of the provider, which is another node's.
func (w *world) openBlobs(t *testing.T, name string) {
	t.Helper()
	w.edit(t, name, "\nrelay:\n", "\nrelay:\n  uploaders: [\"*\"]\n")
}

// setUp makes a side's node as an operator would: init, a macaroon of its role
// alone, and the certificate of what is at lnd's address, here the proxy.
func (w *world) setUp(t *testing.T, role string, node *devnet.Node, permissions lnd.Role) {
	t.Helper()
	dir := filepath.Join(w.dir, role)
	w.links[role] = newLink(t, role, w.trap, w.relays[0])
	out, err := w.lightwork("init", "--dir", dir, "--role", role, "--wallet", "lnd", "--relay", w.links[role].url()).CombinedOutput()
	if err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	check(t, os.MkdirAll(filepath.Join(dir, "lnd"), 0o700))
	check(t, node.BakeMacaroon(w.ctx, filepath.Join(dir, "lnd", role+".macaroon"), lnd.PermissionURIs(permissions)))
	w.wires[role] = newWire(t, role, w.trap, node.Address(), node.TLSCertFile(), filepath.Join(dir, "lnd", "tls.cert"))
	w.edit(t, role, "address: 127.0.0.1:10009", "address: "+w.wires[role].line.address())
	if role == seller {
		w.edit(t, role, "relays:\n", "relays:\n  - "+w.second.url()+"\n")
		w.edit(t, role, "modes: [hold, prepay]", "modes: [hold, prepay, postpay]")
		w.edit(t, role, "unpaid_per_buyer: 8", "unpaid_per_buyer: 256") // a crash leaves quotes that nobody pays
	} else {
		w.edit(t, role, "modes: [hold, postpay, free]", "modes: [hold, prepay, postpay, free]")
		w.edit(t, role, "max_msats_per_day: 1000000", fmt.Sprintf("max_msats_per_day: %d", dayMsats))
		w.edit(t, role, "max_msats_per_provider_and_day: 500000", "max_msats_per_provider_and_day: 0")
	}
	w.keys[role], err = relay.LoadKey(filepath.Join(dir, "keys", role+".key"))
	check(t, err)
}

// edit changes a node's configuration.
func (w *world) edit(t *testing.T, role, old, to string) {
	t.Helper()
	text, err := os.ReadFile(w.config(role))
	check(t, err)
	if !strings.Contains(string(text), old) {
		t.Fatalf("no %q in the configuration of the %s", old, role)
	}
	check(t, os.WriteFile(w.config(role), []byte(strings.Replace(string(text), old, to, 1)), 0o600))
}

// sell starts the provider and waits until a relay serves it: then it announces.
func (w *world) sell(t *testing.T) {
	t.Helper()
	log := filepath.Join(w.dir, seller+".log")
	before, _ := os.ReadFile(log)
	w.selling = w.begin(t, w.as(seller, "--log-level", "info", "provider", "run"), seller)
	w.await(t, "the provider announces", func() bool {
		if w.selling.dead() {
			t.Fatalf("the provider ended: %s", w.selling.tail())
		}
		text, _ := os.ReadFile(log)
		return strings.Contains(string(text[len(before):]), "announced on")
	})
}

// process is a program under way; its output goes to a file.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	err  error // once done
}

func (w *world) begin(t *testing.T, cmd *exec.Cmd, name string) *process {
	t.Helper()
	p := &process{cmd: cmd, log: filepath.Join(w.dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check(t, err)
	defer log.Close()
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	cmd.Stderr = log
	check(t, cmd.Start())
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	w.root.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(15 * time.Second):
			p.kill()
		}
	})
	return p
}

// kill ends the process as a crash would, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) dead() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) tail() string {
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-6000):])
}

func (w *world) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	for !done() {
		if time.Now().After(end) || w.ctx.Err() != nil {
			t.Fatalf("not in %v: %s", patience, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// buy begins a purchase.
func (w *world) buy(t *testing.T, args ...string) *process {
	t.Helper()
	cmd := w.as(customer, append([]string{"buyer", "submit", "--json", "--max-msats", fmt.Sprint(maxMsats)}, args...)...)
	return w.begin(t, cmd, customer)
}

// resume goes on with a purchase until it has ended.
func (w *world) resume(t *testing.T, requestID string) {
	t.Helper()
	w.await(t, "the purchase ends", func() bool {
		cmd := w.as(customer, "buyer", "resume", requestID)
		p := w.begin(t, cmd, customer)
		<-p.done
		exit := new(exec.ExitError)
		return p.err == nil || !errors.As(p.err, &exit) || exit.ExitCode() != exitOpen
	})
}

// exitOpen is the exit code of a purchase that goes on.
const exitOpen = 3

func (w *world) json(t *testing.T, to any, cmd *exec.Cmd) {
	t.Helper()
	doc, err := cmd.Output()
	check(t, err)
	check(t, json.Unmarshal(doc, to))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
