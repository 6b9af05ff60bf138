//go:build lnd

package devnet

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"
)

// The network comes up with a channel that has the promised balances, and goes
// down without a trace.
func TestNetwork(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	began := time.Now()
	network, err := Start(ctx, Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(network.Stop)
	t.Logf("started in %v", time.Since(began))

	for node, sats := range map[*Node]int64{network.Alice: pushedSats, network.Bob: channelSats - pushedSats} {
		// Bob, who opened it, also keeps the fee of a closing.
		local, pending, err := node.ChannelBalance(ctx)
		if err != nil || local > sats*1000 || local < sats*1000-20_000_000 || pending != 0 {
			t.Errorf("%s has %d msats, %d pending, %v; want about %d sats", node.Name(), local, pending, err, sats)
		}
		if len(node.PubKey()) != 66 {
			t.Errorf("key %q", node.PubKey())
		}
		for _, path := range []string{node.TLSCertFile(), node.MacaroonFile()} {
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
		}
	}
	key := network.Alice.PubKey()
	if err := network.Alice.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(network.Alice.WaitChannel(ctx, network.Bob), network.Bob.WaitChannel(ctx, network.Alice)); err != nil {
		t.Fatal(err)
	}
	if network.Alice.PubKey() != key {
		t.Error("Alice is another after a restart")
	}

	pids := []int{network.btcd.proc.pid, network.Alice.proc.pid, network.Bob.proc.pid}
	network.Stop()
	network.Stop()
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d outlived the network", pid)
		}
	}
	if _, err := os.Stat(network.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary directory is still there: %v", err)
	}
	if _, err := network.AddNode(ctx, "carol"); !errors.Is(err, ErrStopped) {
		t.Errorf("a node joins a stopped network: %v, want ErrStopped", err)
	}
}
