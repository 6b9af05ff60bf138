package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/market/kinds"
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

// serveRelayMetrics answers GET /metrics until ctx ends. It is on a port of its
// own because a relay's is public.
func serveRelayMetrics(ctx context.Context, ln net.Listener, relay prometheus.Collector) error {
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

// EmbeddedRelay is the relay and blob server that a node runs.
type EmbeddedRelay struct {
	// Listen and Metrics are addresses; empty: those of the configuration.
	Listen, Metrics string
	// ListenHint and MetricsHint say how another address is named.
	ListenHint, MetricsHint string

	c      *Node
	say    func(format string, args ...any)
	srv    *server.Server
	closes []func() error
	ln     net.Listener
	page   net.Listener // of metrics; nil without
}

// EmbeddedRelay is the relay of this node, which does not run yet; say is told where it
// listens.
func (c *Node) EmbeddedRelay(say func(format string, args ...any)) *EmbeddedRelay {
	return &EmbeddedRelay{
		Listen: cmp.Or(c.Config.Relay.Listen, config.DefaultRelayListen), Metrics: c.Config.Relay.Metrics, c: c, say: say,
		ListenHint: "relay.listen names another address", MetricsHint: "relay.metrics names another address",
	}
}

// Start implements roles.Role.
func (r *EmbeddedRelay) Start(ctx context.Context) (err error) {
	sc := relayServer(&r.c.Config.Relay)
	sc.Dir, sc.Log, sc.Name, sc.Version = r.c.DataDir("relay"), r.c.log, r.c.Config.Node.Name, r.c.Version
	sc.Owners = append(sc.Owners, OwnKeys(r.c.Config, r.c.log)...)
	if r.srv, err = server.New(ctx, sc); err != nil {
		return err
	}
	r.closes = append(r.closes, r.srv.Close)

	if r.ln, err = net.Listen("tcp", r.Listen); err != nil {
		return advice.Usage(r.ListenHint, "listen: %w", err)
	}
	r.closes = append(r.closes, r.ln.Close)
	if r.Metrics == "" {
		return nil
	}
	if r.page, err = net.Listen("tcp", r.Metrics); err != nil {
		return advice.Usage(r.MetricsHint, "listen: %w", err)
	}
	r.closes = append(r.closes, r.page.Close)
	return nil
}

// Serve implements roles.Role.
func (r *EmbeddedRelay) Serve(ctx context.Context) error {
	r.closes = nil // the servers close what they serve
	g, ctx := errgroup.WithContext(ctx)
	if r.page != nil {
		r.say("metrics on http://%s/metrics", r.page.Addr())
		g.Go(func() error { return serveRelayMetrics(ctx, r.page, r.srv.Collector()) })
	}
	r.say("relay on ws://%s, blobs on http://%[1]s", r.ln.Addr())
	g.Go(func() error { return r.srv.Serve(ctx, r.ln) })
	return g.Wait()
}

// Stop implements roles.Role.
func (r *EmbeddedRelay) Stop(context.Context) (err error) {
	for i := len(r.closes) - 1; i >= 0; i-- {
		err = errors.Join(err, r.closes[i]())
	}
	r.closes, r.page = nil, nil
	return err
}

// Lacks implements roles.Role.
func (*EmbeddedRelay) Lacks() string { return "" }

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
		uploader, err := config.PublicKeyHex(text)
		if err != nil {
			uploader = server.Anyone // check has let nothing else through
		}
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
	sc.Retention = keepReceipts(sc.Retention)

	return sc
}

// keepReceipts has the relay keep the events of receipts whatever the rules say of their
// age and number; a rule before those may refuse them.
func keepReceipts(rules []server.Retention) []server.Retention {
	at := slices.IndexFunc(rules, func(r server.Retention) bool { return r.MaxAge > 0 || r.MaxCount > 0 })
	if at < 0 {
		return rules
	}
	return slices.Insert(rules, at, server.Retention{Kinds: []server.KindRange{{First: kinds.Receipt, Last: kinds.Receipt}}})
}
