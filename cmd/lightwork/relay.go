package main

import (
	"context"
	"fmt"
	"net"

	"github.com/lightwork-market/lightwork/relay/server"
)

const (
	defaultRelayListen = "127.0.0.1:7447"
)

type relayCmd struct {
	Listen string `help:"Address to listen on; the configuration's relay.listen if left out." placeholder:"ADDR"`
}

// Run serves the relay until interrupted.
func (r relayCmd) Run(ctx context.Context, s *streams, g *globals) error {
	c, err := loadConfig(g.Config)
	if err != nil {
		return err
	}
	addr := firstText(r.Listen, c.Relay.Listen, defaultRelayListen)
	srv, err := server.New(ctx, server.Config{
		Dir: c.dataDir("relay"), Log: s.log, Name: c.Node.Name, Version: version, PublicURL: c.Relay.PublicURL,
	})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return firstError(usage("--listen names another address", "listen: %w", err), srv.Close())
	}
	fmt.Fprintf(s.err, "lightwork: relay on ws://%s, blobs on http://%[1]s\n", ln.Addr())
	err = srv.Serve(ctx, ln)
	fmt.Fprintln(s.err, "lightwork: relay stopped")
	return err
}

// firstText is the first of its arguments that is not empty.
func firstText(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
