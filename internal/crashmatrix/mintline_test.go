//go:build lnd

package crashmatrix

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// mintLine is a proxy before a mint: it names each question and each answer, and
// can stop there. Who asks is known by the process that the connection belongs
// to, since a mint has one name for all.
type mintLine struct {
	trap   *trap
	mint   string // host:port
	line   *line
	seller atomic.Int64 // the provider's process
}

func newMintLine(t *testing.T, trap *trap, mint string) *mintLine {
	t.Helper()
	m := &mintLine{trap: trap, mint: mint, line: listen(t)}
	server := &http.Server{Handler: m}
	go func() { _ = server.Serve(m.line) }()
	t.Cleanup(func() { _ = server.Close(); m.line.hangUp() })
	return m
}

func (m *mintLine) address() string { return m.line.address() }

// ServeHTTP implements http.Handler.
func (m *mintLine) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	who := customer
	if m.bySeller(r.RemoteAddr) {
		who = seller
	}
	question, err := io.ReadAll(r.Body)
	if err != nil || m.trap.see(moment(who+" asks "+r.URL.Path)) == drop {
		panic(http.ErrAbortHandler)
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+m.mint+r.URL.Path, bytes.NewReader(question))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(http.ErrAbortHandler) // the mint is down
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || m.trap.see(moment(who+" hears "+r.URL.Path)) == drop {
		panic(http.ErrAbortHandler)
	}
	rw.WriteHeader(res.StatusCode)
	_, _ = rw.Write(answer)
}

// bySeller reports whether the other end of a connection is the provider's.
func (m *mintLine) bySeller(remote string) bool {
	_, theirs, _ := net.SplitHostPort(remote)
	_, ours, _ := net.SplitHostPort(m.address())
	inode := socketInode(theirs, ours)
	if inode == "" {
		return false
	}
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", m.seller.Load()))
	for _, fd := range fds {
		if target, _ := os.Readlink(fd); target == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}

// socketInode is that of the connection from one port of this machine to
// another, as the kernel lists it; "" if there is none.
func socketInode(from, to string) string {
	list, err := os.Open("/proc/net/tcp")
	if err != nil {
		return ""
	}
	defer list.Close()
	for lines := bufio.NewScanner(list); lines.Scan(); {
		// sl local_address rem_address st queues timer retransmits uid timeout inode
		f := strings.Fields(lines.Text())
		if len(f) > 9 && strings.HasSuffix(f[1], hexPort(from)) && strings.HasSuffix(f[2], hexPort(to)) {
			return f[9]
		}
	}
	return ""
}

func hexPort(port string) string {
	var n int
	_, _ = fmt.Sscan(port, &n)
	return fmt.Sprintf(":%04X", n)
}
