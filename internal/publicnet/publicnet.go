// Package publicnet tells addresses of the open network from those where a
// stranger's words must not lead: private and special networks, and this machine.
package publicnet

import (
	"net"
	"net/netip"
	"slices"
)

// public6 are the IPv6 networks that are given out at all. What is elsewhere has a
// use of its own, such as carrying an IPv4 address inside.
var public6 = netip.MustParsePrefix("2000::/3")

// special are the networks beyond those that netip knows: shared, reserved and
// test networks, and within [public6] those that carry an IPv4 address inside.
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
	netip.MustParsePrefix("2001::/23"), // Teredo and ORCHID among others
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"), // 6to4
	netip.MustParsePrefix("3ffe::/16"),
	netip.MustParsePrefix("3fff::/20"),
	// Looks public and is inside a cloud: services that only its machines reach.
	netip.MustParsePrefix("161.26.0.0/16"),   // IBM
	netip.MustParsePrefix("166.8.0.0/14"),    // IBM
	netip.MustParsePrefix("199.36.153.4/30"), // Google
	netip.MustParsePrefix("199.36.153.8/30"), // Google
}

// machines are the addresses by which a cloud gives a machine its configuration
// and its credentials. The link-local ones, which most clouds have, are no
// global unicast addresses and need no row.
var machines = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"),       // Azure
	netip.MustParsePrefix("192.0.0.192/32"),         // Oracle
	netip.MustParsePrefix("100.100.100.200/32"),     // Alibaba
	netip.MustParsePrefix("192.80.8.124/32"),        // Equinix
	netip.MustParsePrefix("fd00:ec2::/32"),          // Amazon
	netip.MustParsePrefix("fd20:ce::254/128"),       // Google
	netip.MustParsePrefix("fd00:42::42/128"),        // Scaleway
	netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), // Oracle
}

// Plain is an address without what makes it look like another: the IPv6 form of
// an IPv4 address, and a zone.
func Plain(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }

// Contains reports whether an address is one of the open network.
func Contains(ip netip.Addr) bool {
	ip = Plain(ip)
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && (ip.Is4() || public6.Contains(ip)) &&
		!isIn(special, ip) && !IsMachine(ip) && !isISATAP(ip)
}

// IsMachine reports whether a cloud serves this machine's own secrets at an
// address: no stranger is led there, whatever networks are open otherwise.
func IsMachine(ip netip.Addr) bool {
	ip = Plain(ip)
	return ip.IsLinkLocalUnicast() || isIn(machines, ip)
}

func isIn(networks []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// isISATAP reports whether the lower half of an address is an IPv4 address of
// RFC 5214, to which a tunnel of the host would lead.
func isISATAP(ip netip.Addr) bool {
	b := ip.As16()
	return ip.Is6() && b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
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
