package publicnet

import (
	"net/netip"
	"testing"
)

// The rooms that ask test the rest, each through its own door.
func TestContains(t *testing.T) {
	for _, p := range special {
		ip := p.Addr().Next()
		if Contains(ip) {
			t.Errorf("%s of %s is public", ip, p)
		}
	}
	for text, want := range map[string]bool{
		"1.1.1.1": true, "::ffff:1.1.1.1": true, "2606:4700::1111": true,
		"::ffff:100.64.0.1": false, "::ffff:10.0.0.1": false, "fe80::1%eth0": false, "127.0.0.1": false, "224.0.0.1": false,
	} {
		if got := Contains(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if Contains(netip.Addr{}) {
		t.Error("no address is public")
	}
}
