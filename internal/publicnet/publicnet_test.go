package publicnet

import (
	"net/netip"
	"slices"
	"testing"
)

// The rooms that ask test the rest, each through its own door.
func TestContains(t *testing.T) {
	for _, p := range slices.Concat(special, machines) {
		if Contains(p.Addr()) || p.Bits() < p.Addr().BitLen() && Contains(p.Addr().Next()) {
			t.Errorf("%s is public", p)
		}
	}
	for text, want := range map[string]bool{
		"1.1.1.1": true, "::ffff:1.1.1.1": true, "2606:4700::1111": true,
		"::ffff:100.64.0.1": false, "::ffff:10.0.0.1": false, "fe80::1%eth0": false, "127.0.0.1": false, "224.0.0.1": false,
		"168.63.129.15": true, "168.63.129.16": false, "::ffff:168.63.129.16": false, "192.0.0.192": false, "100.100.100.200": false,
		"fd00:ec2::254": false, "fd20:ce::254": false, "161.26.0.10": false, "166.9.1.1": false, "166.12.0.1": true,
		"64:ff9b::a83f:8110": false, "64:ff9b:1::a83f:8110": false, "2002:a83f:8110::1": false, "2001:0:a83f:8110::1": false,
		"::a83f:8110": false, "::ffff:0:a83f:8110": false, "2a00::5efe:a83f:8110": false, "2a00::200:5efe:a83f:8110": false, "2a00::5eff:a83f:8110": true,
		"100::1": false, "5f00::1": false, "fec0::1": false, "4000::1": false,
	} {
		if got := Contains(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	for text, want := range map[string]bool{
		"169.254.169.254": true, "::ffff:169.254.169.254": true, "fe80::a9fe:a9fe%eth0": true, "168.63.129.16": true, "fd00:ec2::254": true,
		"168.63.129.17": false, "10.0.0.1": false, "fd00::1": false,
	} {
		if got := IsMachine(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s serves a machine's secrets: %v", text, got)
		}
	}
	if Contains(netip.Addr{}) {
		t.Error("no address is public")
	}
}
