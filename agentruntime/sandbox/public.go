package sandbox

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/lightwork-market/lightwork/internal/publicnet"
)

// checkPublic judges an address with a port: what a buyer names must not lead
// into the provider's own network, unless the operator opened that part of it,
// and never to the machine itself, whose addresses own are, by a public address
// of it either.
func checkPublic(address string, own []net.Addr, opened []netip.Prefix) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}

	ip := publicnet.Plain(ap.Addr())
	switch {
	case !ip.IsGlobalUnicast() || publicnet.IsMachine(ip): // loopback, multicast, where clouds keep a machine's secrets
		return fmt.Errorf("%s is not a public address", ip)
	case publicnet.IsOwn(ip, own):
		return fmt.Errorf("%s is this machine", ip)
	case slices.ContainsFunc(opened, func(p netip.Prefix) bool { return p.Contains(ip) }):
		return nil
	case !publicnet.Contains(ip):
		return fmt.Errorf("%s is not a public address", ip)
	}

	return nil
}
