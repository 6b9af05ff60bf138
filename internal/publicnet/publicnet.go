// Package publicnet distinguishes public addresses from those to which untrusted
// input must not lead: private and special networks, and this machine.
package publicnet

import (
	"net"
	"net/netip"
	"slices"
)

// public6 are the allocated IPv6 networks. Addresses elsewhere have special
// purposes, such as embedding an IPv4 address.
var public6 = netip.MustParsePrefix("2000::/3")

// special are further special networks besides those that netip knows: shared,
// reserved and test networks and, within [public6], those that embed an IPv4
// address.
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
	// These look public but are services inside a cloud that only its machines
	// reach.
	netip.MustParsePrefix("161.26.0.0/16"),   // IBM
	netip.MustParsePrefix("166.8.0.0/14"),    // IBM
	netip.MustParsePrefix("199.36.153.4/30"), // Google
	netip.MustParsePrefix("199.36.153.8/30"), // Google
}

// machines are the addresses from which a cloud machine gets its configuration and
// credentials. The link-local ones, which most clouds use, are not global unicast
// addresses and need no entry.
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

// Plain returns the IPv4 address of an IPv4-mapped IPv6 address, and removes zones.
func Plain(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }

// Contains reports whether an address is public.
func Contains(ip netip.Addr) bool {
	ip = Plain(ip)
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && (ip.Is4() || public6.Contains(ip)) &&
		!isIn(special, ip) && !IsMachine(ip) && !isISATAP(ip)
}

// IsMachine reports whether a cloud serves the machine's own secrets at an address:
// untrusted input must never lead there, whatever networks are allowed.
func IsMachine(ip netip.Addr) bool {
	ip = Plain(ip)
	return ip.IsLinkLocalUnicast() || isIn(machines, ip)
}

func isIn(networks []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// isISATAP reports whether the lower half of an address embeds an IPv4 address as
// in RFC 5214, to which a tunnel of the host would lead.
func isISATAP(ip netip.Addr) bool {
	b := ip.As16()
	return ip.Is6() && b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// IsOwn reports whether an address belongs to an interface of this machine:
// services that are closed to the network may be open to the machine itself.
func IsOwn(ip netip.Addr, own []net.Addr) bool {
	ip = Plain(ip)
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		mine, err := netip.ParsePrefix(a.String())
		return err == nil && Plain(mine.Addr()) == ip
	})
}
