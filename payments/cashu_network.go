package payments

import (
	"fmt"
	"net/netip"
	"strings"
)

const (
	cashuPrefix = "cashu:"
	// maxMint bounds a mint's place, in bytes: an invoice carries it.
	maxMint = 128
)

// CashuNetwork is the network of one mint: its notes are money nowhere else.
// mint is the mint's URL without the scheme and without a slash at the end:
// a host in lower case, a port unless it is the scheme's own, and a path.
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

// only reports that s has no other characters than the allowed.
func only(s, allowed string) bool { return strings.Trim(s, allowed) == "" }

// CashuMint is the mint whose network it is; false for a chain.
func (n Network) CashuMint() (mint string, ok bool) { return strings.CutPrefix(string(n), cashuPrefix) }

// MintURL is where a mint is asked: https, but http on this machine's loopback
// addresses, where mints under test are.
func MintURL(mint string) string {
	host, _, _ := strings.Cut(mint, "/")
	name, _, _ := strings.Cut(host, ":")
	addr, err := netip.ParseAddr(name)
	if name == "localhost" || err == nil && addr.IsLoopback() {
		return "http://" + mint
	}
	return "https://" + mint
}
