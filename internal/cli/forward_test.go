package cli

import (
	"io"
	"net"
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
