package sandbox

import (
	"fmt"
	"net"
	"net/netip"
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

// checkPublic judges an address with a port: a buyer's repository must not lead
// into the provider's own network, nor to the machine itself, whose addresses
// own are, by a public address of it.
func checkPublic(address string, own []net.Addr) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := ap.Addr().Unmap().WithZone("")
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return fmt.Errorf("%s is not a public address", ip)
	}
	for _, network := range special() {
		if netip.MustParsePrefix(network).Contains(ip) {
			return fmt.Errorf("%s is not a public address", ip)
		}
	}
	for _, a := range own {
		if mine, err := netip.ParsePrefix(a.String()); err == nil && mine.Addr().Unmap().WithZone("") == ip {
			return fmt.Errorf("%s is this machine", ip)
		}
	}
	return nil
}
