package cli

import (
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/relay/server"
)

// relayServer is the relay's own configuration.
func relayServer(r *config.Relay) server.Config {
	key, _ := config.PublicKeyHex(r.PubKey) // check has read all keys
	sc := server.Config{
		PublicURL: r.PublicURL, Description: r.Description, Contact: r.Contact, PubKey: key,
		Limits: server.Limits{MinPow: r.MinPow, MessagesPerSecond: r.MessagesPerSecond, MaxPerAddress: r.ConnectionsPerAddress},
	}
	sc.Limits.MaxBlobBytes, sc.Limits.BlobKeyBytes, sc.Limits.BlobTotalBytes = int64(r.BlobMaxMB)<<20, int64(r.BlobKeyMB)<<20, int64(r.BlobTotalMB)<<20
	for _, text := range r.Owners {
		owner, _ := config.PublicKeyHex(text)
		sc.Owners = append(sc.Owners, owner)
	}
	for _, text := range r.Uploaders {
		uploader, _ := config.PublicKeyHex(text)
		sc.Uploaders = append(sc.Uploaders, uploader)
	}
	for _, p := range r.Proxies {
		net, _ := config.ParseNetwork(p) // check has read it
		sc.Proxies = append(sc.Proxies, net)
	}
	if r.PrivateKinds != nil {
		sc.PrivateKinds = append([]int{}, *r.PrivateKinds...)
	}
	for _, rule := range r.Retention {
		kept := server.Retention{MaxAge: rule.MaxAge, MaxCount: rule.MaxCount, Refuse: rule.Refuse}
		for _, k := range rule.Kinds {
			kept.Kinds = append(kept.Kinds, server.KindRange(k))
		}
		sc.Retention = append(sc.Retention, kept)
	}
	return sc
}
