// Package relays has the relays that the benchmarks beside it run on, each to
// be served by a process of its own.
package relays

import (
	"context"
	"net"
	"net/http"
	"path/filepath"

	"github.com/fiatjaf/eventstore"
	"github.com/fiatjaf/eventstore/lmdb"
	"github.com/fiatjaf/khatru"

	"github.com/lightwork-market/lightwork/relay/server"
)

// Lightwork serves the embedded relay until ctx ends. It limits no client:
// khatru, as its README sets it up, does not either, and a benchmark's clients
// are one.
func Lightwork(ctx context.Context, ln net.Listener, dir string) error {
	srv, err := server.New(ctx, server.Config{Dir: dir, Uploaders: []string{server.Anyone}, Limits: server.Limits{MessagesPerSecond: 1 << 30, MessageBurst: 1 << 30}})
	if err != nil {
		return err
	}
	return srv.Serve(ctx, ln)
}

// KhatruLMDB is durable: eventstore/lmdb syncs every transaction.
func KhatruLMDB(ctx context.Context, ln net.Listener, dir string) error {
	return serveKhatru(ctx, ln, &lmdb.LMDBBackend{Path: filepath.Join(dir, "lmdb")})
}

// KhatruMemory keeps events in memory alone.
func KhatruMemory(ctx context.Context, ln net.Listener, _ string) error {
	return serveKhatru(ctx, ln, &memory{})
}

func serveKhatru(ctx context.Context, ln net.Listener, db eventstore.Store) error {
	if err := db.Init(); err != nil {
		return err
	}
	defer db.Close()

	r := khatru.NewRelay()
	r.StoreEvent = append(r.StoreEvent, db.SaveEvent)
	r.QueryEvents = append(r.QueryEvents, db.QueryEvents)
	r.DeleteEvent = append(r.DeleteEvent, db.DeleteEvent)
	r.ReplaceEvent = append(r.ReplaceEvent, db.ReplaceEvent)
	failed := make(chan error, 1)
	hs := &http.Server{Handler: r}
	go func() { failed <- hs.Serve(ln) }()

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return hs.Close()
	}
}
