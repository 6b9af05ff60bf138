package payments

import (
	"fmt"
	"net/netip"
	"strings"
)

const (
	cashuPrefix = "cashu:"
	// maxMint bounds a mint's address in bytes, because an invoice contains it.
	maxMint = 128
)

// CashuNetwork is the network of one mint, outside which its notes are worth nothing.
// mint is the mint's URL without scheme and trailing slash: a host in lower case, a port
// unless it is the default one, and a path.
func CashuNetwork(mint string) (Network, error) {
	host, path, _ := strings.Cut(mint, "/")
	name, port, hasPort := strings.Cut(host, ":")
	ok := len(mint) <= maxMint && name != "" && only(name, lower+digits+".-") && name[0] != '.' &&
		(!hasPort || port != "" && len(port) <= 5 && only(port, digits)) &&
		only(path, lower+upper+digits+"._~-/") && !strings.HasSuffix(mint, "/")
	if !ok {
		return "", fmt.Errorf("%w: a mint is named like mint.example.com or mint.example.com:3338/path, without https://", ErrWrongNetwork)
	}
	return Network(cashuPrefix + mint), nil
}

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"
)

// only reports whether all characters of s are allowed.
func only(s, allowed string) bool { return strings.Trim(s, allowed) == "" }

// CashuMint is the network's mint; false if the network is not a mint's.
func (n Network) CashuMint() (mint string, ok bool) { return strings.CutPrefix(string(n), cashuPrefix) }

// MintURL is the URL of a mint: https, or http for a mint on a loopback address of this
// machine, which only tests use.
func MintURL(mint string) string {
	host, _, _ := strings.Cut(mint, "/")
	name, _, _ := strings.Cut(host, ":")
	addr, err := netip.ParseAddr(name)
	if name == "localhost" || err == nil && addr.IsLoopback() {
		return "http://" + mint
	}
	return "https://" + mint
}
