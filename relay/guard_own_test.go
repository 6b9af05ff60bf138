package relay

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"testing"
)

// A machine's own services are not for strangers' URLs, by no address of it.
func TestOwnAddresses(t *testing.T) {
	own := []net.Addr{
		&net.IPNet{IP: net.ParseIP("8.8.4.4").To4(), Mask: net.CIDRMask(24, 32)},
		&net.IPNet{IP: net.ParseIP("2a00:1450::1"), Mask: net.CIDRMask(64, 128)},
	}
	for ip, want := range map[string]bool{
		"8.8.4.4": false, "::ffff:8.8.4.4": false, "2a00:1450::1": false, "2a00:1450::1%eth0": false,
		"8.8.4.5": true, "2a00:1450::2": true,
	} {
		if err := refuseOwn(own, netip.MustParseAddr(ip)); (err == nil) != want || err != nil && !errors.Is(err, ErrBlockedAddress) {
			t.Errorf("%s: %v", ip, err)
		}
	}
}

// However this machine is named, a public client does not get there.
func TestPublicClientStaysOut(t *testing.T) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "[fd00:ec2::254]", "0.0.0.0", "[64:ff9b::7f00:1]", "localhost"}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Zone() == "" {
			hosts = append(hosts, netip.AddrPortFrom(p.Addr(), 443).String())
		}
	}
	for _, host := range hosts {
		res, err := NewPublicClient(0).Do(must(t)(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+host+"/", nil)))
		if err == nil {
			res.Body.Close()
		}
		if !errors.Is(err, ErrBlockedAddress) {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func must(t *testing.T) func(*http.Request, error) *http.Request {
	return func(r *http.Request, err error) *http.Request {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}
