package port_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/lightwork-market/lightwork/internal/port"
)

// TestReserve: nobody listens on the address until we do, twice.
func TestReserve(t *testing.T) {
	addr := port.Reserve(t)
	for range 2 {
		if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial: %v", err)
		}
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		ln.Close()
	}
}

// TestNobodyElseIsGivenIt: of many listeners on port 0 none has a reserved port.
func TestNobodyElseIsGivenIt(t *testing.T) {
	reserved := map[string]bool{}
	for range 100 {
		reserved[port.Reserve(t)] = true
	}
	for range 500 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		if reserved[ln.Addr().String()] {
			t.Errorf("%s was given away", ln.Addr())
		}
	}
}
