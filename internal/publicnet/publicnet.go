// Package publicnet tells addresses of the open network from those where a
// stranger's words must not lead: private and special networks, and this machine.
package publicnet

import (
	"net"
	"net/netip"
	"slices"
)

// special are the networks beyond those that netip knows: shared, reserved and
// test networks, and the IPv6 ranges that carry an IPv4 address inside.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("3fff::/20"),
	netip.MustParsePrefix("5f00::/16"),
	netip.MustParsePrefix("fec0::/10"),
}

// Plain is an address without what makes it look like another: the IPv6 form of
// an IPv4 address, and a zone.
func Plain(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }

// Contains reports whether an address is one of the open network.
func Contains(ip netip.Addr) bool {
	ip = Plain(ip)
	return ip.IsGlobalUnicast() && !ip.IsPrivate() &&
		!slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// IsOwn reports whether an address is among those of this machine's interfaces:
// what is closed to the network can be open to the machine itself.
func IsOwn(ip netip.Addr, own []net.Addr) bool {
	ip = Plain(ip)
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		mine, err := netip.ParsePrefix(a.String())
		return err == nil && Plain(mine.Addr()) == ip
	})
}
