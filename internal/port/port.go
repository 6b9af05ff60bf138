// Package port gives tests addresses that they may listen on later, or again.
package port

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// Reserve returns a loopback address, IP:port, whose port the kernel gives to
// nobody else until the test ends: neither to who listens on port 0 nor to a
// connection that goes out. Nothing listens there, so a dial is refused, until
// somebody who was told of the address does; it may stop and listen again.
//
// A port of a listener that was closed could be anybody's by the time it is
// wanted. So it is held by a socket that is bound and does not listen, beside
// which Linux lets another bind if both have SO_REUSEADDR, as Go's listeners do.
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
