package cli

import (
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// forward NAME ADDRESS is a proxy before ADDRESS until the script ends; its own
// address is put into the environment variable.
func forward(ts *testscript.TestScript, _ bool, args []string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], ln.Addr().String())
	var all sync.WaitGroup
	ts.Defer(func() {
		ln.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { joined(in, args[1]) })
		}
	})
}

// joined copies both ways until one side ends.
func joined(in net.Conn, address string) {
	defer in.Close()
	out, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer out.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(in, out)
		in.Close()
	})
	_, _ = io.Copy(out, in)
	out.Close()
	back.Wait()
}

// dams are the dams of the running scripts, by address.
var dams sync.Map

// dam NAME ADDRESS BYTES is a proxy like forward's, through which this many bytes go to
// ADDRESS; what wants to send more is held. dam NAME BYTES opens it for so many further
// bytes, and cuts off what it holds.
func dam(ts *testscript.TestScript, _ bool, args []string) {
	bytes, err := strconv.Atoi(args[len(args)-1])
	ts.Check(err)
	if len(args) == 2 {
		d, _ := dams.Load(ts.Getenv(args[0]))
		d.(*budget).open(bytes)
		return
	}

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], ln.Addr().String())
	left := &budget{left: bytes, closed: make(chan struct{})}
	dams.Store(ln.Addr().String(), left)
	var all sync.WaitGroup
	ts.Defer(func() {
		ln.Close()
		left.open(0)
		all.Wait()
	})
	all.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { joined(dammed{in, left}, args[1]) })
		}
	})
}

// budget is what may still go through a dam.
type budget struct {
	mu     sync.Mutex
	left   int
	closed chan struct{} // closed when the dam opens
}

func (b *budget) open(bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.closed)
	b.left, b.closed = bytes, make(chan struct{})
}

// dammed is a connection whose reads count against a budget.
type dammed struct {
	net.Conn
	budget *budget
}

func (d dammed) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	d.budget.mu.Lock()
	d.budget.left -= n
	over, opened := d.budget.left < 0, d.budget.closed
	d.budget.mu.Unlock()
	if !over {
		return n, err
	}
	<-opened
	return 0, net.ErrClosed
}

// WriteTo hides that of the connection, which would go round the dam.
func (d dammed) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{d})
}
