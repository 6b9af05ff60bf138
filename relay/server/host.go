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

// What the connections of one address may have together, in shares of what one
// connection may have. A stranger makes keys and connections for nothing; an
// address costs something.
const (
	// hostConnections is the default of Limits.MaxPerAddress.
	hostConnections = 64
	// hostRates is how many connections' rates an address has.
	hostRates = 4
	// hostQueues is how many connections' MaxQueueBytes an address has.
	hostQueues = 2
	// hostValues is the part of Limits.MaxLiveValuesTotal that an address may take.
	hostValues = 8
)

// maxInFlight bounds the cost of the events in flight of all addresses, and so
// the memory they take. An address may have that of one connection.
const maxInFlight = 4096

// host is a remote address that has connections.
type host struct {
	name string
	// unbounded is true of this machine's own addresses, unless the configuration
	// sets a bound: all clients of a reverse proxy come from its address.
	unbounded   bool
	connections int // guarded by hosts.mu

	limiter  *rate.Limiter       // nil: unbounded
	inFlight *semaphore.Weighted // nil: unbounded
	queued   atomic.Int64        // bytes that wait for its connections
	values   int                 // of its connections' filters, above freeValues each; guarded by index.mu

	toVerify lane[*job]
	toStore  lane[*job]
	toSpread lane[delivery]
}

// hosts are the addresses that have connections now.
type hosts struct {
	limits Limits

	mu sync.Mutex
	by map[string]*host
}

func newHosts(l Limits) *hosts { return &hosts{limits: l, by: map[string]*host{}} }

// join enters a connection of the address; it leaves with leave.
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

// perAddress is how many connections the address may have.
func (l *Limits) perAddress(name string) int {
	switch {
	case l.MaxPerAddress > 0:
		return l.MaxPerAddress
	case isLoopback(name):
		return math.MaxInt
	}
	return hostConnections
}

// addressOf names the host of a remote address. An IPv6 host has all of its
// /64, so that is the name.
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
	net, _ := ip.Prefix(64) // 64 fits every IPv6 address
	return net.String()
}

// isLoopback reports whether a name of addressOf is one of this machine's own.
func isLoopback(name string) bool {
	if net, err := netip.ParsePrefix(name); err == nil {
		return net.Contains(netip.IPv6Loopback())
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}

// clientOf names the address of the client of a request. A proxy of the
// operator's own says who that is in X-Forwarded-For, to which each proxy adds
// the address that it was asked from: the last one that is no proxy's counts,
// because what is before it is the client's word.
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

// connsOf is how many connections that are no websockets an address may have: a
// proxy keeps those of all its clients.
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
