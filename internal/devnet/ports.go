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

// firstPort: those below it belong to services that are known by them.
const firstPort = 10_000

// ports gives each node of a network ports of its own. They are not among those
// that the system gives to outgoing connections: one of them can be anybody's
// before a node listens on it, and again while the node is down. The zero value
// is ready to be used.
type ports struct {
	mu   sync.Mutex
	next int // 0 before the first
}

// take returns n loopback addresses that nobody listens on, and that it gives
// once.
func (p *ports) take(n int) (addresses []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	end := ephemeralPorts()
	if p.next == 0 { // other networks on this machine begin elsewhere
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

// ephemeralPorts is the first port that the system gives to outgoing
// connections; where that is below ours, one far enough up, and ours may clash.
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
