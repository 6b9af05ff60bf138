package server

import (
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// Limits of an address, as multiples of those of a connection. Keys and connections
// cost nothing, but addresses do.
const (
	// hostConnections is the default of Limits.MaxPerAddress.
	hostConnections = 64
	// hostRates is the rate of an address, in rates of a connection.
	hostRates = 4
	// hostQueues is the queue of an address, in MaxQueueBytes.
	hostQueues = 2
	// hostValues is the part of Limits.MaxLiveValuesTotal for one address.
	hostValues = 8
)

// maxInFlight bounds the cost of the events in flight of all addresses, and thereby
// their memory. An address may have as much as one connection.
const maxInFlight = 4096

// host is an address with connections.
type host struct {
	name string
	// unbounded is set for this machine's own addresses unless the configuration
	// sets a bound, because all clients of a local reverse proxy have its address.
	unbounded   bool
	connections int // guarded by hosts.mu

	limiter  *rate.Limiter       // nil: unbounded
	inFlight *semaphore.Weighted // nil: unbounded
	queued   atomic.Int64        // bytes queued for its connections
	values   int                 // of its connections' filters, without the first freeValues of each; guarded by index.mu

	toVerify lane[*job]
	toStore  lane[*job]
	toSpread lane[delivery]
}

// hosts are the addresses that have connections.
type hosts struct {
	limits Limits

	mu sync.Mutex
	by map[string]*host
}

func newHosts(l Limits) *hosts { return &hosts{limits: l, by: map[string]*host{}} }

// join adds a connection to the address; it must be ended with leave.
func (hs *hosts) join(name string) *host {
	hs.mu.Lock()
	defer hs.mu.Unlock()

	h := hs.by[name]
	if h == nil {
		l := hs.limits
		h = &host{name: name, unbounded: l.perAddress(name) == math.MaxInt}
		if !h.unbounded {
			h.limiter = rate.NewLimiter(rate.Limit(hostRates*l.MessagesPerSecond), hostRates*l.MessageBurst)
			h.inFlight = semaphore.NewWeighted(int64(l.MaxInFlight))
		}
		hs.by[name] = h
	}

	h.connections++
	return h
}

func (hs *hosts) leave(h *host) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h.connections--; h.connections == 0 {
		delete(hs.by, h.name)
	}
}

// perAddress bounds the connections of the address.
func (l *Limits) perAddress(name string) int {
	switch {
	case l.MaxPerAddress > 0:
		return l.MaxPerAddress
	case isLoopback(name):
		return math.MaxInt
	}
	return hostConnections
}

// addressOf returns the host of a remote address. An IPv6 host has a whole /64, so
// the name is that prefix.
func addressOf(remote string) string {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	return addressName(ap.Addr())
}

func addressName(ip netip.Addr) string {
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	net, _ := ip.Prefix(64) // never fails: 64 is valid for IPv6
	return net.String()
}

// isLoopback reports whether the result of addressOf is this machine.
func isLoopback(name string) bool {
	if net, err := netip.ParsePrefix(name); err == nil {
		return net.Contains(netip.IPv6Loopback())
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}

// clientOf returns the address of a request's client. The operator's own proxies
// report it in X-Forwarded-For, to which each proxy appends the address of its
// peer. The last one that is not a proxy's counts, because the ones before it are
// unverified claims of the client.
func (c *Config) clientOf(r *http.Request) string {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}

	ip := remote.Addr()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && c.isProxy(ip); i-- {
		hop := strings.TrimSpace(hops[i])
		next, err := netip.ParseAddr(hop)
		if err != nil {
			withPort, err := netip.ParseAddrPort(hop)
			if err != nil {
				break
			}
			next = withPort.Addr()
		}
		ip = next
	}

	return addressName(ip)
}

// connsOf bounds an address's connections other than websockets; a proxy has those
// of all its clients.
func (c *Config) connsOf(name string) int {
	if net, err := netip.ParsePrefix(name); err == nil && slices.ContainsFunc(c.Proxies, net.Overlaps) {
		return math.MaxInt
	}
	if ip, err := netip.ParseAddr(name); err == nil && c.isProxy(ip) {
		return math.MaxInt
	}
	return c.Limits.perAddress(name)
}

// isProxy reports whether the address is one of Config.Proxies.
func (c *Config) isProxy(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	for _, p := range c.Proxies {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}
