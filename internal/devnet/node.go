package devnet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
)

// Node is one lnd node. It keeps its addresses and keys over a restart. Its methods
// are safe for concurrent use, but only one caller at a time may start or stop it.
type Node struct {
	name        string
	binDir, dir string
	rpcAddress  string
	peerAddress string
	btcd        *btcd
	password    string // of its wallet; "" if there is none

	mu     sync.Mutex // guards what follows
	proc   *process
	rest   *rest
	pubKey string
	closed bool // the network was stopped; do not start again
}

// Name is the node's alias.
func (n *Node) Name() string { return n.name }

// Address is the gRPC endpoint as host:port.
func (n *Node) Address() string { return n.rpcAddress }

// TLSCertFile is the path of the PEM certificate for Address.
func (n *Node) TLSCertFile() string { return filepath.Join(n.dir, "tls.cert") }

// MacaroonFile is the path of the macaroon with all permissions.
func (n *Node) MacaroonFile() string {
	return filepath.Join(n.dir, "data", "chain", "bitcoin", "simnet", "admin.macaroon")
}

// LogFile is the path of the node's output.
func (n *Node) LogFile() string { return filepath.Join(n.dir, "output.log") }

// PubKey is the node's public key: 33 bytes in hex.
func (n *Node) PubKey() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pubKey
}

func newNode(name, binDir, dir string, chain *btcd) (*Node, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of %s: %w", name, err)
	}
	addresses, err := chain.ports.take(3)
	if err != nil {
		return nil, err
	}
	n := &Node{
		name: name, binDir: binDir, dir: dir, btcd: chain,
		rpcAddress: addresses[0], peerAddress: addresses[2],
	}
	n.rest = &rest{address: addresses[1], macaroonFile: n.MacaroonFile()}
	return n, n.writeConfig()
}

// writeConfig writes the passwords to a file because the argument list is readable
// by all users. It enables storing final HTLC resolutions, which alone show whether
// a settled invoice's money really arrived.
func (n *Node) writeConfig() error {
	conf := fmt.Sprintf(`[Application Options]
alias=%s
listen=%s
rpclisten=%s
restlisten=%s
noseedbackup=%t
nobootstrap=true
trickledelay=50
store-final-htlc-resolutions=true

[Bitcoin]
bitcoin.active=true
bitcoin.simnet=true
bitcoin.node=btcd

[Btcd]
btcd.rpchost=%s
btcd.rpcuser=%s
btcd.rpcpass=%s
btcd.rpccert=%s
`, n.name, n.peerAddress, n.rpcAddress, n.rest.address, n.password == "",
		n.btcd.address, n.btcd.user, n.btcd.pass, n.btcd.certFile)
	if err := os.WriteFile(filepath.Join(n.dir, "lnd.conf"), []byte(conf), 0o600); err != nil {
		return fmt.Errorf("write configuration of %s: %w", n.name, err)
	}
	return nil
}

// Start runs the node and returns when it is synchronised with the chain. It may be
// called for a running node.
func (n *Node) Start(ctx context.Context) error {
	if err := n.startProcess(ctx); err != nil {
		return err
	}
	return n.waitSynced(ctx)
}

// startProcess runs the node and waits until its RPC answers.
func (n *Node) startProcess(ctx context.Context) error {
	if err := n.run(); err != nil {
		return err
	}
	return n.poll(ctx, "answer", func(ctx context.Context) (bool, error) {
		return n.answers(ctx), nil
	})
}

// run starts the process unless it is running.
func (n *Node) run() error {
	n.mu.Lock()
	defer n.mu.Unlock()

	if n.closed {
		return fmt.Errorf("start %s: network %w", n.name, ErrStopped)
	}
	if n.proc != nil && n.proc.exited() == nil {
		return nil
	}

	proc, err := startProcess(filepath.Join(n.binDir, "lnd"), n.LogFile(), "--lnddir="+n.dir)
	if err != nil {
		return err
	}
	n.proc = proc
	return nil
}

// answers reports whether the RPC answers, and reads the certificate and the node's
// key on the way.
func (n *Node) answers(ctx context.Context) bool {
	if n.connectREST() != nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()

	var info struct {
		IdentityPubkey string `json:"identity_pubkey"`
	}
	if n.rest.call(ctx, http.MethodGet, "/v1/getinfo", nil, &info) != nil {
		return false
	}
	n.pubKey = info.IdentityPubkey
	return true
}

// connectREST reads the node's certificate once it is written.
func (n *Node) connectREST() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rest.http != nil {
		return nil
	}
	client, err := tlsClient(n.TLSCertFile())
	if err == nil {
		n.rest.http = client
	}
	return err
}

// Stop ends the node gracefully and waits for it. It may be called for a stopped
// node.
func (n *Node) Stop() { n.end((*process).stop) }

// Kill ends the node with SIGKILL, like a crash.
func (n *Node) Kill() { n.end((*process).kill) }

// close stops the node permanently.
func (n *Node) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.Stop()
}

func (n *Node) end(how func(*process)) {
	n.mu.Lock()
	proc, client := n.proc, n.rest.http
	n.mu.Unlock()
	if proc != nil {
		how(proc)
	}
	if client != nil {
		client.CloseIdleConnections()
	}
}

// Restart stops the node and starts it again. Its channels need [Node.WaitChannel].
func (n *Node) Restart(ctx context.Context) error {
	n.Stop()
	return n.Start(ctx)
}

type nodeInfo struct {
	BlockHeight   int  `json:"block_height"`
	SyncedToChain bool `json:"synced_to_chain"`
}

func (n *Node) waitSynced(ctx context.Context) error {
	height, err := n.btcd.height(ctx)
	if err != nil {
		return err
	}
	return n.waitHeight(ctx, height)
}

func (n *Node) waitHeight(ctx context.Context, height int) error {
	return n.poll(ctx, fmt.Sprintf("block %d", height), func(ctx context.Context) (bool, error) {
		var info nodeInfo
		err := n.rest.call(ctx, http.MethodGet, "/v1/getinfo", nil, &info)
		return info.SyncedToChain && info.BlockHeight >= height, err
	})
}

// poll waits for done. It retries after errors of the node, because lnd says "not
// yet" in many ways, but not if the process has died. When time runs out, the error
// includes the last one.
func (n *Node) poll(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	var last error
	err := poll(ctx, n.name+": "+what, func(ctx context.Context) (bool, error) {
		n.mu.Lock()
		proc := n.proc
		n.mu.Unlock()
		if proc == nil {
			return false, ErrStopped
		}
		if err := proc.exited(); err != nil {
			return false, err
		}

		ok, err := done(ctx)
		if err != nil && ctx.Err() == nil {
			last = err
		}
		return ok && err == nil, nil
	})
	if err != nil && last != nil && !errors.Is(err, ErrStopped) {
		return fmt.Errorf("%w (last answer: %w)", err, last)
	}
	return err
}
