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

// ErrBlockedAddress is returned for a URL that leads where a stranger's URL
// must not lead: private and link-local networks, this machine, metadata
// services, plain http on the open network.
var ErrBlockedAddress = errors.New("address is not allowed")

// idleTimeout is how long a connection is kept that nobody uses.
const idleTimeout = 30 * time.Second

// guard decides where blobs may be fetched from and sent to.
type guard struct {
	loopback  bool // this machine is allowed
	plainHTTP bool // http:// is allowed beyond this machine
	others    bool // this machine is not allowed by its public addresses either
	ports     bool // beyond this machine only the ports where a relay may be
}

// address judges an address that is about to be connected to. The check is
// made there and not on the name, which could resolve differently later.
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

// isRelayPort reports whether a relay may be at a port: at that of https, or at one
// that any user of a machine can open and that browsers connect to. Below are the
// services of machines, such as mail, which a stranger could have us knock at.
func isRelayPort(port uint16) bool {
	return port == 443 || port >= 1024 && !slices.Contains(closedPorts, port)
}

// closedPorts are the ports from 1024 on that the Fetch standard closes.
var closedPorts = []uint16{1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080}

// notAmong refuses an address of this machine.
func notAmong(own []net.Addr, ip netip.Addr) error {
	if publicnet.IsOwn(ip, own) {
		return fmt.Errorf("%w: %s is this machine", ErrBlockedAddress, ip)
	}
	return nil
}

// url checks what can be told without a name server.
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

// client makes an HTTP client for one scheme whose every connection passes the
// guard. It uses no proxy, which would connect in its place, and follows no
// redirect. It keeps idle connections to a host, so many and for idleTimeout: a
// connection that is kept goes where the guard let it go.
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
			if g.ports && !isRelayPort(target.Port()) {
				return fmt.Errorf("%w: port %d", ErrBlockedAddress, target.Port())
			}
			if !g.others {
				return nil
			}
			own, err := net.InterfaceAddrs() // they may change
			if err != nil {
				return fmt.Errorf("%w: own addresses: %w", ErrBlockedAddress, err)
			}
			return notAmong(own, target.Addr())
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
		},
	}
}
