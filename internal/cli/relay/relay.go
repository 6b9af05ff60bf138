// Package relay has the command that runs a relay.
package relay

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/cli/app"
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
	relay := c.EmbeddedRelay(func(format string, args ...any) { s.Told.Info(fmt.Sprintf(format, args...)) })
	relay.Listen, relay.ListenHint = cmp.Or(r.Listen, relay.Listen), "--listen names another address"
	relay.Metrics, relay.MetricsHint = cmp.Or(r.Metrics, relay.Metrics), "--metrics names another address"
	if err := relay.Start(ctx); err != nil {
		return cmp.Or(err, relay.Stop(ctx))
	}

	err = relay.Serve(ctx)
	s.Told.Info("relay stopped")
	return err
}
