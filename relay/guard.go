package relay

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/lightwork-market/lightwork/internal/publicnet"
)

// ErrBlockedAddress is returned for a stranger's URL that leads to a private or
// link-local network, this machine or a metadata service, or that uses plain http
// on the open network.
var ErrBlockedAddress = errors.New("address is not allowed")

// idleTimeout is how long an unused connection is kept.
const idleTimeout = 30 * time.Second

// expectTimeout is how long a server that is asked whether it wants an upload may think,
// before it is sent all the same.
const expectTimeout = 5 * time.Second

// guard decides which addresses a client may connect to.
type guard struct {
	loopback   bool // this machine is allowed
	plainHTTP  bool // http:// is allowed beyond this machine
	notOwn     bool // this machine's public addresses are refused too
	relayPorts bool // except on this machine, only ports that pass isRelayPort are allowed
}

// address checks an address right before the connection is made. Checking the name
// earlier would not be enough: it could resolve to another address by then.
func (g guard) address(scheme string, ip netip.Addr) error {
	ip = publicnet.Plain(ip)
	if ip.IsLoopback() {
		if g.loopback {
			return nil
		}
		return fmt.Errorf("%w: %s is this machine", ErrBlockedAddress, ip)
	}
	if scheme == "http" && !g.plainHTTP {
		return fmt.Errorf("%w: http:// to %s", ErrBlockedAddress, ip)
	}
	if !publicnet.Contains(ip) {
		return fmt.Errorf("%w: %s is not public", ErrBlockedAddress, ip)
	}

	return nil
}

// isRelayPort reports whether a relay may use the port: that of https, or one that
// needs no privileges and that browsers connect to. Ports below 1024 belong to
// system services such as mail, and a stranger must not make us connect to those.
func isRelayPort(port uint16) bool {
	return port == 443 || port >= 1024 && !slices.Contains(closedPorts, port)
}

// closedPorts are the ports from 1024 on that the Fetch standard closes.
var closedPorts = []uint16{1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080}

// refuseOwn returns an error if ip is one of this machine's own addresses.
func refuseOwn(own []net.Addr, ip netip.Addr) error {
	if publicnet.IsOwn(ip, own) {
		return fmt.Errorf("%w: %s is this machine", ErrBlockedAddress, ip)
	}
	return nil
}

// url makes the checks that need no name server.
func (g guard) url(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: URL does not parse", ErrBlockedAddress)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || u.Opaque != "" {
		return nil, fmt.Errorf("%w: not a plain http(s) URL", ErrBlockedAddress)
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		return u, g.address(u.Scheme, ip)
	}
	if u.Scheme == "http" && !g.plainHTTP && u.Hostname() != "localhost" {
		return nil, fmt.Errorf("%w: http:// to %s", ErrBlockedAddress, u.Hostname())
	}

	return u, nil
}

// client makes an HTTP client for one scheme. The guard checks every connection, so
// there is no proxy, which would connect in the client's place, and no redirect.
// Up to idle connections to a host are kept for idleTimeout: the guard has checked
// them already.
func (g guard) client(scheme string, dialTimeout time.Duration, idle int) *http.Client {
	dialer := &net.Dialer{
		Timeout: dialTimeout,
		Control: func(_, address string, _ syscall.RawConn) error {
			target, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrBlockedAddress, err)
			}
			if err := g.address(scheme, target.Addr()); err != nil || target.Addr().Unmap().IsLoopback() {
				return err
			}
			if g.relayPorts && !isRelayPort(target.Port()) {
				return fmt.Errorf("%w: port %d", ErrBlockedAddress, target.Port())
			}
			if !g.notOwn {
				return nil
			}

			own, err := net.InterfaceAddrs() // they may change
			if err != nil {
				return fmt.Errorf("%w: own addresses: %w", ErrBlockedAddress, err)
			}
			return refuseOwn(own, target.Addr())
		},
	}
	return &http.Client{
		CheckRedirect: noRedirect,
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			DisableCompression:     true, // a small answer cannot unpack into a large one
			DisableKeepAlives:      idle == 0,
			MaxIdleConnsPerHost:    idle,
			MaxIdleConns:           4 * idle,
			IdleConnTimeout:        idleTimeout,
			ForceAttemptHTTP2:      true,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: idleTimeout}, // one that is dead is found out
			MaxResponseHeaderBytes: 64 << 10,
			TLSHandshakeTimeout:    dialTimeout,
			ResponseHeaderTimeout:  time.Minute,
			ExpectContinueTimeout:  expectTimeout,
		},
	}
}

// NewPublicClient makes an HTTP client that connects only by https and only to
// public addresses, none of them this machine's; every other connection fails with
// [ErrBlockedAddress]. The address is checked right before the connection is made.
// The client uses no proxy and follows no redirect.
func NewPublicClient(dialTimeout time.Duration) *http.Client {
	return guard{notOwn: true}.client("https", dialTimeout, 0)
}
