package relay

import (
	"net/http"
	"time"
)

// NewPublicClient makes an HTTP client that reaches public addresses alone, by
// https: every connection is judged by the address that it is about to be made
// to. This machine is not among them, by whatever address. It uses no proxy and
// follows no redirect. Others end in ErrBlockedAddress.
func NewPublicClient(dialTimeout time.Duration) *http.Client {
	return guard{others: true}.client("https", dialTimeout, 0)
}
