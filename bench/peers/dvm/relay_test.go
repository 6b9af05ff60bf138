package dvm_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"testing"

	"github.com/fiatjaf/eventstore/slicestore"
	"github.com/fiatjaf/khatru"

	"github.com/lightwork-market/lightwork/relay/server"
)

// world is what all sellers of a run have in common.
type world struct {
	url   string   // of the relay, ws://
	blobs string   // of a blob server, http://
	relay *process // what its processor time is asked of
}

func open(tb testing.TB, relay string) world {
	tb.Helper()
	at := func(name string) (*process, string) {
		args := self(tb, "relay-"+name, tb.TempDir())
		return launch(tb, exec.Command(args[0], args[1:]...))
	}
	p, addr := at(relay)
	w := world{"ws://" + addr, "http://" + addr, p}
	if relay != "lightwork" { // which alone serves blobs
		_, addr := at("lightwork")
		w.blobs = "http://" + addr
	}
	return w
}

// serveLightworkRelay limits no client: khatru, as its README sets it up, does
// not either, and all buyers are one client here.
func serveLightworkRelay(ctx context.Context, dir string) error {
	ln, err := listen()
	if err != nil {
		return err
	}
	srv, err := server.New(ctx, server.Config{Dir: dir, Limits: server.Limits{MessagesPerSecond: 1 << 30, MessageBurst: 1 << 30}})
	if err != nil {
		return err
	}
	return srv.Serve(ctx, ln)
}

func serveKhatru(ctx context.Context, _ string) error {
	db := &slicestore.SliceStore{}
	if err := db.Init(); err != nil {
		return err
	}
	defer db.Close()
	r := khatru.NewRelay()
	r.StoreEvent = append(r.StoreEvent, db.SaveEvent)
	r.QueryEvents = append(r.QueryEvents, db.QueryEvents)
	r.DeleteEvent = append(r.DeleteEvent, db.DeleteEvent)
	r.ReplaceEvent = append(r.ReplaceEvent, db.ReplaceEvent)
	ln, err := listen()
	if err != nil {
		return err
	}
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

// listen says on standard output where.
func listen() (net.Listener, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Println(ln.Addr())
	}
	return ln, err
}
