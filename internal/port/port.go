// Package port reserves addresses for tests that listen on them later, or
// repeatedly.
package port

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// Reserve returns a loopback address, IP:port, whose port the kernel assigns to
// nobody else until the test ends, neither to a listener on port 0 nor to an
// outgoing connection. Connections to it are refused until a program that knows the
// address listens there; it may stop and listen again.
//
// The port of a closed listener could be reassigned before it is needed. So it is
// held by a bound socket that does not listen. Linux lets another socket bind the
// same port if both have SO_REUSEADDR, as Go's listeners do.
func Reserve(tb testing.TB) string {
	tb.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		tb.Fatal(err)
	}
	unix.CloseOnExec(fd)
	tb.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		tb.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		tb.Fatal(err)
	}
	addr, err := unix.Getsockname(fd)
	if err != nil {
		tb.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", addr.(*unix.SockaddrInet4).Port)
}
