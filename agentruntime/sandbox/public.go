package sandbox

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// special are the networks that are not public though they look so: shared,
// test and translated ones, and those that carry an IPv4 address inside.
func special() []string {
	return []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4", "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
		"2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
	}
}

// checkPublic judges an address with a port: what a buyer names must not lead
// into the provider's own network, unless the operator opened that part of it,
// and never to the machine itself, whose addresses own are, by a public address
// of it either.
func checkPublic(address string, own []net.Addr, opened []netip.Prefix) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := ap.Addr().Unmap().WithZone("")
	// Loopback, link-local (where clouds keep their metadata), multicast.
	if !ip.IsGlobalUnicast() {
		return fmt.Errorf("%s is not a public address", ip)
	}
	for _, a := range own {
		if mine, err := netip.ParsePrefix(a.String()); err == nil && mine.Addr().Unmap().WithZone("") == ip {
			return fmt.Errorf("%s is this machine", ip)
		}
	}
	contains := func(network netip.Prefix) bool { return network.Contains(ip) }
	if slices.ContainsFunc(opened, contains) {
		return nil
	}
	if ip.IsPrivate() || slices.ContainsFunc(special(), func(text string) bool { return contains(netip.MustParsePrefix(text)) }) {
		return fmt.Errorf("%s is not a public address", ip)
	}
	return nil
}
