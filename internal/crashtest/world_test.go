package crashtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
)

// patience bounds one story; it is far more than one takes.
const patience = 2 * time.Minute

// world is what outlives every crash: a relay and a ledger. seller and
// customer are the lives that begin in it.
type world struct {
	ctx              context.Context
	ledger           *playnet.Ledger
	seller, customer life
	sellerKey        *relay.Key
	customerKey      *relay.Key
}

func newWorld(t *testing.T, mode receipts.Mode) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	dir := t.TempDir()
	host, ledger, ledgerURL := markettest.Services(t, ctx)
	w := &world{ctx: ctx, ledger: ledger}
	w.seller, w.sellerKey = w.born(t, dir, "provider")
	w.customer, w.customerKey = w.born(t, dir, "buyer")
	for _, l := range []*life{&w.seller, &w.customer} {
		l.Relay, l.Ledger = host, ledgerURL
		l.Seller, l.Mode = w.sellerKey.PublicKey(), mode
	}
	return w
}

// born makes a role's folder, key and wallet.
func (w *world) born(t *testing.T, dir, role string) (life, *relay.Key) {
	t.Helper()
	l := life{Role: role, Dir: filepath.Join(dir, role), Token: playnet.NewToken()}
	markettest.Check(t, os.Mkdir(l.Dir, 0o700))
	key, err := relay.GenerateKey()
	markettest.Check(t, err)
	markettest.Check(t, key.WriteFile(filepath.Join(l.Dir, "key")))
	_, err = w.ledger.OpenWallet(w.ctx, role, l.Token)
	markettest.Check(t, err)
	return l, key
}

// process is a life under way.
type process struct {
	role  string
	cmd   *exec.Cmd
	stdin io.Closer
	lines chan string   // of standard output
	done  chan struct{} // closed when it is dead
	end   error         // why, once done
}

// begin starts a life. It ends with the test at the latest.
func (w *world) begin(t *testing.T, l life) *process {
	t.Helper()
	raw, err := json.Marshal(l)
	markettest.Check(t, err)
	p := &process{role: l.Role, cmd: exec.Command(os.Args[0]), lines: make(chan string, 64), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), envLife+"="+string(raw))
	log, err := os.OpenFile(filepath.Join(l.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	markettest.Check(t, err)
	defer log.Close()
	p.cmd.Stderr = log
	p.stdin, err = p.cmd.StdinPipe()
	markettest.Check(t, err)
	out, err := p.cmd.StdoutPipe()
	markettest.Check(t, err)
	markettest.Check(t, p.cmd.Start())
	go func() {
		defer close(p.done)
		s := bufio.NewScanner(out)
		for s.Scan() {
			p.lines <- s.Text()
		}
		p.end = p.cmd.Wait()
		close(p.lines)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if text, _ := os.ReadFile(log.Name()); t.Failed() && len(text) > 0 {
			t.Logf("%s said:\n%s", l.Role, text)
		}
	})
	return p
}

// says waits until the process has said the line.
func (w *world) says(t *testing.T, p *process, want string) {
	t.Helper()
	var said []string
	for {
		select {
		case line, ok := <-p.lines:
			if line == want {
				return
			}
			if !ok {
				t.Fatalf("%s ended (%v) and never said %q, only %q", p.role, p.end, want, said)
			}
			said = append(said, line)
		case <-w.ctx.Done():
			t.Fatalf("%s does not say %q, only %q", p.role, want, said)
		}
	}
}

// dies waits for the process's end and reports whether it was killed.
func (w *world) dies(t *testing.T, p *process) (killed bool) {
	t.Helper()
	select {
	case <-p.done:
	case <-w.ctx.Done():
		t.Fatalf("%s lives on", p.role)
	}
	var exit *exec.ExitError
	if errors.As(p.end, &exit) {
		return exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	}
	markettest.Check(t, p.end)
	return false
}

// stop ends the process in good order.
func (w *world) stop(t *testing.T, p *process) {
	t.Helper()
	markettest.Check(t, p.stdin.Close())
	if w.dies(t, p) || p.end != nil {
		t.Fatalf("%s did not stop cleanly: %v", p.role, p.end)
	}
}

// killedAt is the step at which a life was ended, "" if none was.
func killedAt(t *testing.T, l life) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(l.Dir, killedFile))
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	markettest.Check(t, err)
	return strings.TrimSpace(string(raw))
}

// balances are the spendable msats of both, the books being in order and
// nothing on its way.
func (w *world) balances(t *testing.T) (seller, customer int64) {
	t.Helper()
	totals, err := w.ledger.Audit(w.ctx)
	markettest.Check(t, err)
	if totals.HeldMsats != 0 {
		t.Errorf("%d msats are still held", totals.HeldMsats)
	}
	read := func(token string) int64 {
		wallet, err := w.ledger.Wallet(w.ctx, token)
		markettest.Check(t, err)
		b, err := wallet.Balance(w.ctx)
		markettest.Check(t, err)
		return b.SpendableMsats
	}
	return read(w.seller.Token), read(w.customer.Token)
}

// inOrder checks that the steps first began in this order.
func inOrder(t *testing.T, trace []string, steps ...string) {
	t.Helper()
	at := -1
	for _, s := range steps {
		i := indexOf(trace, "before "+s)
		if i < 0 || i < at {
			t.Errorf("step %s is number %d, the one before it %d: %s", s, i, at, fmt.Sprint(trace))
			return
		}
		at = i
	}
}

func indexOf(list []string, s string) int {
	for i, e := range list {
		if e == s {
			return i
		}
	}
	return -1
}
