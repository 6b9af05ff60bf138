package sandbox

import (
	"net"
	"net/netip"
	"testing"
)

func TestCheckPublic(t *testing.T) {
	own := []net.Addr{
		&net.IPNet{IP: net.IPv4(8, 8, 8, 8), Mask: net.CIDRMask(24, 32)},
		&net.IPNet{IP: net.ParseIP("2606:4700::2222"), Mask: net.CIDRMask(64, 128)},
	}
	for _, address := range []string{"1.1.1.1:443", "[2606:4700::1111]:443", "9.9.9.9:1", "8.8.8.9:443"} {
		if err := checkPublic(address, own, nil); err != nil {
			t.Error(err)
		}
	}
	for _, address := range []string{
		"127.0.0.1:443", "10.1.2.3:443", "172.16.0.1:443", "192.168.1.1:443", "169.254.169.254:443", "100.64.0.1:443", "0.0.0.0:443",
		"224.0.0.1:443", "255.255.255.255:443", "198.18.0.1:443", "[::1]:443", "[::]:443", "[fe80::1%eth0]:443", "[fd00::1]:443",
		"[::ffff:127.0.0.1]:443", "[::ffff:10.0.0.1]:443", "[64:ff9b::7f00:1]:443", "[2002:7f00:1::]:443", "[::7f00:1]:443", "x", "",
		"[3fff:1::1]:443", "168.63.129.16:443", "[5f00::1]:443", "8.8.8.8:443", "[::ffff:8.8.8.8]:443", "[2606:4700::2222]:443",
	} {
		if checkPublic(address, own, nil) == nil {
			t.Errorf("%s is public", address)
		}
	}
}

// What the operator opens is open, but for this machine and what is no
// network's own.
func TestOpenedNetworks(t *testing.T) {
	own := []net.Addr{&net.IPNet{IP: net.IPv4(10, 1, 2, 3), Mask: net.CIDRMask(8, 32)}}
	opened := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("168.63.0.0/16")}
	for address, ok := range map[string]bool{
		"10.1.2.4:80": true, "[fd00::1]:80": true, "1.1.1.1:80": true, "[::ffff:10.1.2.4]:80": true,
		"10.1.2.3:80": false, "[::ffff:10.1.2.3]:80": false, "127.0.0.1:80": false, "169.254.169.254:80": false, "168.63.129.16:80": false, "[fd00:ec2::254]:80": false, "168.63.129.17:80": true, "192.168.1.1:80": false,
	} {
		if err := checkPublic(address, own, opened); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}
