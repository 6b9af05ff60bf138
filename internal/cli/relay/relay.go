// Package relay has the command that runs a relay.
package relay

import (
	"cmp"
	"context"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/relay/server"
)

// Cmd is lightwork relay.
type Cmd struct {
	Listen  string `help:"Address to listen on; the configuration's relay.listen if left out." placeholder:"ADDR"`
	Metrics string `help:"Address for Prometheus metrics; the configuration's relay.metrics if left out." placeholder:"ADDR"`
}

// Run serves the relay until interrupted.
func (r Cmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	sc := node.RelayServer(&c.Relay)
	sc.Dir, sc.Log, sc.Name, sc.Version = c.DataDir("relay"), s.Log, c.Node.Name, c.Version
	sc.Owners = append(sc.Owners, node.OwnKeys(c.Config, s.Log)...)
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
		run.Go(func() error { return node.ServeRelayMetrics(ctx, mln, srv.Collector()) })
	}

	s.Told.Info(fmt.Sprintf("relay on ws://%s, blobs on http://%[1]s", ln.Addr()))
	run.Go(func() error { return srv.Serve(ctx, ln) })
	err = run.Wait()
	s.Told.Info("relay stopped")
	return err
}
