package dvm_test

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"testing"
)

// world is what all sellers of a run have in common.
type world struct {
	ctx   context.Context // until a process of it has ended by itself
	end   context.CancelFunc
	url   string   // of the relay, ws://
	blobs string   // of a blob server, http://
	relay *process // what its processor time is asked of
}

func open(tb testing.TB, relay string) world {
	tb.Helper()
	var w world
	w.ctx, w.end = context.WithCancel(context.Background())
	tb.Cleanup(w.end)
	at := func(name string) (*process, string) {
		args := self(tb, "relay-"+name, tb.TempDir())
		return launch(tb, w, exec.CommandContext(w.ctx, args[0], args[1:]...))
	}
	p, addr := at(relay)
	w.url, w.blobs, w.relay = "ws://"+addr, "http://"+addr, p
	if relay != "lightwork" { // which alone serves blobs
		_, addr := at("lightwork")
		w.blobs = "http://" + addr
	}
	return w
}

// onOwn serves a relay where the system gives it room.
func onOwn(serve func(context.Context, net.Listener, string) error) func(context.Context, string) error {
	return func(ctx context.Context, dir string) error {
		ln, err := listen()
		if err != nil {
			return err
		}
		return serve(ctx, ln, dir)
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
