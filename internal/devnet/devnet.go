// Package devnet runs a private Lightning network on one machine: btcd on simnet,
// and two lnd nodes with a channel between them. It is for tests and demonstrations
// with real Lightning but without real money. It needs Linux.
//
// [Build] makes the programs from source once; [Start] brings the network up on
// free loopback ports under one directory. Nothing leaves the machine.
//
// The package uses the REST port of the nodes, because gRPC would make it slow to
// compile.
package devnet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	// firstBlocks activates segwit on simnet and matures the first 300 coinbases;
	// with fewer blocks the funding transaction never confirms.
	firstBlocks = 400

	// channelConfirmations makes a channel usable (3) and announced (6).
	channelConfirmations = 6

	// channelSats is the capacity of the channel between Bob and Alice, pushedSats
	// the initial balance of Alice.
	channelSats = 10_000_000
	pushedSats  = 2_000_000

	// fundSats is the amount of Fund.
	fundSats = 100_000_000

	pollInterval = 25 * time.Millisecond

	// patience is how long one step of a node may take; on an idle machine it takes
	// a second or two.
	patience = 3 * time.Minute
)

// ErrStopped is returned by operations on a stopped network or node.
var ErrStopped = errors.New("stopped")

// Config configures a [Network].
type Config struct {
	// Dir holds all state and logs. Empty means a temporary directory, which Stop
	// removes; a named one is kept.
	Dir string

	// BinDir has btcd and lnd, as returned by [Build]. Empty means Build with its
	// default cache.
	BinDir string

	// Log receives progress. If it is nil, nothing is logged.
	Log *slog.Logger
}

// Network is a running network. It is safe for concurrent use.
type Network struct {
	// Alice sells: she is the payee. Bob buys: he opened the channel and has the
	// mined coins.
	Alice, Bob *Node

	dir       string
	removeDir bool
	binDir    string
	log       *slog.Logger
	btcd      *btcd

	mu      sync.Mutex // guards nodes and stopped
	nodes   []*Node
	stopped bool
}

// Start starts a network and returns when the channel is active on both sides,
// after about 15 seconds. If ctx ends first or anything fails, everything that was
// started is stopped.
func Start(ctx context.Context, cfg Config) (*Network, error) {
	n := &Network{dir: cfg.Dir, binDir: cfg.BinDir, log: cfg.Log}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	if n.binDir == "" {
		dir, err := Build(ctx, "")
		if err != nil {
			return nil, err
		}
		n.binDir = dir
	}

	if n.dir == "" {
		dir, err := os.MkdirTemp("", "lightwork-devnet-")
		if err != nil {
			return nil, fmt.Errorf("make directory for the network: %w", err)
		}
		n.dir, n.removeDir = dir, true
	}

	if err := n.start(ctx); err != nil {
		n.Stop()
		return nil, fmt.Errorf("start lightning network: %w", err)
	}
	return n, nil
}

func (n *Network) start(ctx context.Context) error {
	var err error
	if n.btcd, err = newBTCD(n.binDir, filepath.Join(n.dir, "btcd")); err != nil {
		return err
	}
	if err := n.btcd.start(ctx, ""); err != nil {
		return err
	}
	if n.Bob, err = n.newNode("bob"); err != nil {
		return err
	}
	if n.Alice, err = n.newNode("alice"); err != nil {
		return err
	}
	if err := n.fundBob(ctx); err != nil {
		return err
	}
	if err := startAll(ctx, n.Alice, n.Bob); err != nil {
		return err
	}
	if err := n.Bob.waitBalance(ctx, channelSats); err != nil {
		return err
	}

	n.log.Info("lightning nodes ready", "alice", n.Alice.PubKey(), "bob", n.Bob.PubKey())
	if err := n.OpenChannel(ctx, n.Bob, n.Alice, channelSats, pushedSats); err != nil {
		return err
	}

	// A channel is active before the routers know it; a payment in between fails
	// for lack of balance.
	return errors.Join(n.Bob.WaitGossip(ctx, n.Alice), n.Alice.WaitGossip(ctx, n.Bob))
}

// fundBob mines the first blocks to an address of Bob. btcd takes the mining
// address only at its start, and Bob needs a chain to have an address, so both
// start twice. Bob is stopped in between because lnd retries a lost connection only
// after five seconds.
func (n *Network) fundBob(ctx context.Context) error {
	if err := n.Bob.startProcess(ctx); err != nil {
		return err
	}
	address, err := n.Bob.newAddress(ctx)
	if err != nil {
		return err
	}
	n.Bob.Stop()
	n.btcd.stop()
	if err := n.btcd.start(ctx, address); err != nil {
		return err
	}
	n.log.Info("mining", "blocks", firstBlocks)
	return n.btcd.generate(ctx, firstBlocks)
}

// AddNode starts one more node, which has no coins and no channels. Its name
// must be new in the network.
func (n *Network) AddNode(ctx context.Context, name string) (*Node, error) {
	node, err := n.newNode(name)
	if err != nil {
		return nil, err
	}
	return node, node.Start(ctx)
}

func (n *Network) newNode(name string) (*Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()

	if n.stopped {
		return nil, ErrStopped
	}
	if slices.ContainsFunc(n.nodes, func(other *Node) bool { return other.name == name }) {
		return nil, fmt.Errorf("node %s exists already", name)
	}

	node, err := newNode(name, n.binDir, filepath.Join(n.dir, name), n.btcd)
	if err != nil {
		return nil, err
	}
	n.nodes = append(n.nodes, node)
	return node, nil
}

// Fund sends fundSats of Bob's coins to the node, for channels of its own.
func (n *Network) Fund(ctx context.Context, node *Node) error {
	if err := n.Bob.payOnChain(ctx, node, fundSats); err != nil {
		return err
	}
	if err := n.Mine(ctx, 1); err != nil {
		return err
	}
	return node.waitBalance(ctx, fundSats)
}

// OpenChannel connects from to to, opens a public channel of capacitySats with an
// initial balance of pushSats for to, and mines until both ends can use it. from
// must have the coins.
func (n *Network) OpenChannel(ctx context.Context, from, to *Node, capacitySats, pushSats int64) error {
	if err := from.connect(ctx, to); err != nil {
		return err
	}
	if err := from.openChannel(ctx, to, capacitySats, pushSats); err != nil {
		return err
	}
	if err := n.Mine(ctx, channelConfirmations); err != nil {
		return err
	}
	if err := from.WaitChannel(ctx, to); err != nil {
		return err
	}
	if err := to.WaitChannel(ctx, from); err != nil {
		return err
	}

	n.log.Info("channel active", "from", from.name, "to", to.name, "sats", capacitySats)
	return nil
}

// Mine adds blocks to the chain and waits until every running node has seen them.
func (n *Network) Mine(ctx context.Context, blocks int) error {
	if err := n.btcd.generate(ctx, blocks); err != nil {
		return err
	}
	height, err := n.btcd.height(ctx)
	if err != nil {
		return err
	}
	n.mu.Lock()
	nodes := slices.Clone(n.nodes)
	n.mu.Unlock()

	for _, node := range nodes {
		if err := node.waitHeight(ctx, height); err != nil && !errors.Is(err, ErrStopped) {
			return err
		}
	}

	return nil
}

// Stop ends every process of the network and waits for them. It may be called
// repeatedly.
func (n *Network) Stop() {
	n.mu.Lock()
	n.stopped = true
	nodes := slices.Clone(n.nodes)
	n.mu.Unlock()

	var wg sync.WaitGroup
	for _, node := range nodes {
		wg.Go(node.close)
	}
	wg.Wait()
	if n.btcd != nil {
		n.btcd.stop()
	}
	if n.removeDir {
		if err := os.RemoveAll(n.dir); err != nil {
			n.log.Warn("remove network directory", "dir", n.dir, "error", err)
		}
	}
}

// startAll starts the nodes concurrently, since most of the time is waiting.
func startAll(ctx context.Context, nodes ...*Node) error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		wg.Go(func() { errs[i] = node.Start(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// poll calls done until it returns true or an error, or ctx ends. what describes
// the awaited state in the error.
func poll(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()

	for {
		ok, err := done(ctx)
		if err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		if ok {
			return nil
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}
