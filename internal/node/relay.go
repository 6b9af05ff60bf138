package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/relay/server"
)

// OwnKeys are the public keys of identity that their files tell without a
// passphrase. A relay may run where there are none.
func OwnKeys(c *config.Config, log *slog.Logger) (list []string) {
	for _, role := range []string{"provider", "buyer"} {
		k, err := keys.Read(c, role)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil || k.Public == "":
			log.Warn("the relay keeps no room for a key that it cannot read; relay.owners may name it", "role", role, "error", err)
		default:
			list = append(list, k.Public)
		}
	}
	return list
}

// ServeRelayMetrics answers GET /metrics until ctx ends. It is on a port of its
// own because a relay's is public.
func ServeRelayMetrics(ctx context.Context, ln net.Listener, relay prometheus.Collector) error {
	reg := prometheus.NewRegistry()
	reg.MustRegister(relay, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: 2}))
	hs := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10}
	failed := make(chan error, 1)
	go func() { failed <- hs.Serve(ln) }()

	select {
	case err := <-failed:
		return fmt.Errorf("serve metrics: %w", err)
	case <-ctx.Done():
	}

	err := hs.Close()
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// RelayServer is the relay's own configuration.
func RelayServer(r *config.Relay) server.Config {
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
