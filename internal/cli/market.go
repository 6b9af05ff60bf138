package cli

import (
	"log/slog"
	"net/url"

	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/exchange"
)

// newMarket is the configured relays and blob servers. An event counts as
// published once quorum relays took it.
func newMarket(c *config, signer relay.Signer, quorum int, log *slog.Logger) (*exchange.Market, error) {
	m, err := exchange.New(exchange.Config{
		Relays: c.Relays, Blobs: c.blobServers(), Signer: signer, Quorum: quorum, AllowLoopback: c.localBlobs(), Log: log,
	})
	if err != nil {
		return nil, usage("", "%w", err)
	}
	return m, nil
}

// localBlobs reports whether the owner named a blob server on this machine:
// only then may blobs be fetched from loopback addresses.
func (c *config) localBlobs() bool {
	for _, s := range c.blobServers() {
		if u, err := url.Parse(s); err == nil {
			switch u.Hostname() {
			case "127.0.0.1", "::1", "localhost":
				return true
			}
		}
	}
	return false
}
