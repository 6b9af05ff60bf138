// Package playurl parses the address of a play-money ledger.
package playurl

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/lightwork-market/lightwork/payments"
)

// Parse parses the address of a ledger, which must be on this machine.
func Parse(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" || !IsLoopback(u.Host) || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("%w: a play-money server is at http://127.0.0.1:<port>", payments.ErrBadRequest)
	}
	return u, nil
}

// IsLoopback reports whether a host, with or without a port, is this machine.
func IsLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
