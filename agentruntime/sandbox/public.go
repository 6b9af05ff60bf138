package sandbox

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/lightwork-market/lightwork/internal/publicnet"
)

// checkPublic checks an address with a port that a buyer named. It must not be in
// the provider's own network, unless the operator opened that part, and never on
// the machine itself (own lists its addresses), not even by a public address.
func checkPublic(address string, own []net.Addr, opened []netip.Prefix) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}

	ip := publicnet.Plain(ap.Addr())
	switch {
	case !ip.IsGlobalUnicast() || publicnet.IsMachine(ip): // loopback, multicast, metadata services of clouds
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
