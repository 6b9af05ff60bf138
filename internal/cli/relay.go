package cli

import (
	"cmp"
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
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/relay/server"
)

type relayCmd struct {
	Listen  string `help:"Address to listen on; the configuration's relay.listen if left out." placeholder:"ADDR"`
	Metrics string `help:"Address for Prometheus metrics; the configuration's relay.metrics if left out." placeholder:"ADDR"`
}

// Run serves the relay until interrupted.
func (r relayCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	c, err := openNode(s, g)
	if err != nil {
		return err
	}
	sc := relayServer(&c.Relay)
	sc.Dir, sc.Log, sc.Name, sc.Version = c.DataDir("relay"), s.Log, c.Node.Name, c.version
	sc.Owners = append(sc.Owners, ownKeys(c.Config, s.Log)...)
	srv, err := server.New(ctx, sc)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", cmp.Or(r.Listen, c.Relay.Listen, config.DefaultRelayListen))
	if err != nil {
		return cmp.Or(advice.Usage("--listen names another address", "listen: %w", err), srv.Close())
	}
	run, ctx := errgroup.WithContext(ctx)
	if addr := cmp.Or(r.Metrics, c.Relay.Metrics); addr != "" {
		mln, err := net.Listen("tcp", addr)
		if err != nil {
			return cmp.Or(advice.Usage("--metrics names another address", "listen: %w", err), ln.Close(), srv.Close())
		}
		s.Told.Info("metrics on http://" + mln.Addr().String() + "/metrics")
		run.Go(func() error { return serveRelayMetrics(ctx, mln, srv.Collector()) })
	}
	s.Told.Info(fmt.Sprintf("relay on ws://%s, blobs on http://%[1]s", ln.Addr()))
	run.Go(func() error { return srv.Serve(ctx, ln) })
	err = run.Wait()
	s.Told.Info("relay stopped")
	return err
}

// ownKeys are the public keys of identity that their files tell without a
// passphrase. A relay may run where there are none.
func ownKeys(c *config.Config, log *slog.Logger) (keys []string) {
	for _, role := range []string{"provider", "buyer"} {
		k, err := readKey(c, role)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil || k.public == "":
			log.Warn("the relay keeps no room for a key that it cannot read; relay.owners may name it", "role", role, "error", err)
		default:
			keys = append(keys, k.public)
		}
	}
	return keys
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
