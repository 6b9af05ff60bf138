package devnet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// firstPort is the lowest port used; lower ones belong to well-known services.
const firstPort = 10_000

// ports assigns ports to the nodes of a network. It avoids the ports of outgoing
// connections, because any program could get such a port before a node listens on
// it, or while the node is down. The zero value is ready for use.
type ports struct {
	mu   sync.Mutex
	next int // 0 before the first
}

// take returns n unused loopback addresses and never returns the same one again.
func (p *ports) take(n int) (addresses []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	end := ephemeralPorts()
	if p.next == 0 { // other networks on this machine start elsewhere
		p.next = firstPort + rand.IntN(end-firstPort)
	}

	for range end - firstPort {
		if len(addresses) == n {
			return addresses, nil
		}
		if p.next >= end {
			p.next = firstPort
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(p.next))
		p.next++

		l, err := net.Listen("tcp", address)
		switch {
		case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EACCES):
			continue
		case err != nil:
			return nil, fmt.Errorf("find free port: %w", err)
		}

		l.Close()
		addresses = append(addresses, address)
	}

	return nil, fmt.Errorf("find free port: %w", syscall.EADDRINUSE)
}

// ephemeralPorts returns the first port for outgoing connections. If it is too low,
// it returns a higher one, and ports may clash.
func ephemeralPorts() (first int) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		_, err = fmt.Sscan(string(text), &first)
	}
	if err != nil || first < firstPort+1000 {
		return 32_768
	}
	return first
}
