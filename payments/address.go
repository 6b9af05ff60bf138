package payments

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ErrAddress says that a text is not a Lightning address.
var ErrAddress = errors.New("not a Lightning address (name@host)")

// maxAddress is the limit of e-mail addresses, in bytes.
const maxAddress = 254

// ParseAddress splits a Lightning address (LUD-16) such as me@example.com. It does not
// check whether the address exists.
func ParseAddress(s string) (name, host string, err error) {
	name, host, ok := strings.Cut(s, "@")
	if !ok || len(s) > maxAddress || !isName(name) || !IsPublicName(host) {
		return "", "", fmt.Errorf("%w: %q", ErrAddress, s[:min(len(s), maxAddress)])
	}
	return name, host, nil
}

// isName reports whether LUD-16 allows the name: a-z0-9-_. and a tag after a plus sign.
func isName(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.+", rune(c)) {
			return false
		}
	}
	return s != "" && strings.Trim(s, ".") != ""
}

// IsPublicName reports whether s can be a host's name in the public DNS, in lower case.
// Addresses, ports and .onion names are refused.
func IsPublicName(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil || !strings.Contains(s, ".") || strings.HasSuffix(s, ".onion") {
		return false
	}

	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
				return false
			}
		}
	}

	last := s[strings.LastIndexByte(s, '.')+1:]
	return last[0] < '0' || last[0] > '9' // no IPv4 address in an odd spelling
}
