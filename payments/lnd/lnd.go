// Package lnd is a wallet backend on an lnd node, over its gRPC interface
// (lnrpc, invoicesrpc, routerrpc).
//
// What lnd says in a stream is a hint; what it answers to a lookup is the
// truth. So [Wallet.WatchInvoices] only names hashes to look up, and a payment
// whose stream ended is unknown until it is tracked again.
//
// The node should run with --store-final-htlc-resolutions: without it, lnd
// cannot tell whether the money of a settled invoice really arrived (lnd#7463),
// and [payments.Invoice.Final] is only what the invoice's HTLCs say.
package lnd

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"
	"github.com/lightningnetwork/lnd/lnrpc/walletrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	"github.com/lightwork-market/lightwork/payments"
)

// Config says which node to use. Address, TLSCertFile and MacaroonFile are
// needed; the rest may be left zero.
type Config struct {
	// Address is the node's gRPC endpoint as host:port.
	Address string

	// TLSCertFile is the path of the node's certificate in PEM: the one
	// certificate that is trusted.
	TLSCertFile string

	// MacaroonFile is the path of a binary macaroon. One that permits exactly
	// PermissionURIs of the role is best.
	MacaroonFile string

	// Network is the chain the node must be on; another ends in
	// payments.ErrWrongNetwork. Empty accepts any.
	Network payments.Network

	// CallTimeout bounds each question to the node. 0 means 30 s.
	CallTimeout time.Duration

	// BlockTime is the pessimistic time between blocks by which a held
	// invoice's remaining blocks become Invoice.SettleBy. 0 means 5 minutes,
	// half of the average: the 56 blocks that a fresh hold has left are then
	// 4 h 40 min, in which a chain of average luck makes 28 blocks.
	BlockTime time.Duration

	// SettleMarginBlocks is kept free before lnd's own deadline. 0 means 6.
	SettleMarginBlocks int

	// Log receives reconnections. Nil discards it.
	Log *slog.Logger
}

func (c *Config) setDefaults() {
	if c.CallTimeout == 0 {
		c.CallTimeout = 30 * time.Second
	}
	if c.BlockTime == 0 {
		c.BlockTime = 5 * time.Minute
	}
	if c.SettleMarginBlocks == 0 {
		c.SettleMarginBlocks = 6
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

func (c *Config) validate() error {
	switch {
	case c.Address == "":
		return fmt.Errorf("%w: lnd: address is missing", payments.ErrBadRequest)
	case c.TLSCertFile == "":
		return fmt.Errorf("%w: lnd: TLS certificate file is missing", payments.ErrBadRequest)
	case c.MacaroonFile == "":
		return fmt.Errorf("%w: lnd: macaroon file is missing", payments.ErrBadRequest)
	case c.CallTimeout < 0, c.BlockTime < 0, c.SettleMarginBlocks < 0:
		return fmt.Errorf("%w: lnd: negative time or margin", payments.ErrBadRequest)
	}
	return nil
}

// Wallet is a connection to one lnd node. Its methods may be used concurrently.
// They return errors that errors.Is finds the package payments' sentinels in,
// mostly as an *Error with a hint for the operator.
type Wallet struct {
	cfg      Config
	conn     *grpc.ClientConn
	ln       lnrpc.LightningClient
	invoices invoicesrpc.InvoicesClient
	router   routerrpc.RouterClient
	wallet   walletrpc.WalletKitClient

	retryMin, retryMax time.Duration // between reconnections of a stream

	mu   sync.Mutex
	node payments.Node // guarded by mu; zero until lnd first told
}

// Open reads the certificate and the macaroon and prepares the connection. It
// does not reach for the node: the first call does, and a node that is down
// shows as payments.ErrWalletUnavailable there.
func Open(cfg Config) (*Wallet, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	transport, err := loadCertificate(cfg.TLSCertFile)
	if err != nil {
		return nil, err
	}
	macaroon, err := loadMacaroon(cfg.MacaroonFile)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.Dial(cfg.Address,
		grpc.WithTransportCredentials(transport),
		grpc.WithPerRPCCredentials(macaroon),
		// A node that comes back is found soon; the library's own ceiling is
		// two minutes.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A stream on a dead link must end, or no hint would come again. lnd
		// cuts clients that ping more often than every 5 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to lnd at %s: %w", cfg.Address, err)
	}

	return &Wallet{
		cfg: cfg, conn: conn,
		ln:       lnrpc.NewLightningClient(conn),
		invoices: invoicesrpc.NewInvoicesClient(conn),
		router:   routerrpc.NewRouterClient(conn),
		wallet:   walletrpc.NewWalletKitClient(conn),
		retryMin: 250 * time.Millisecond, retryMax: 10 * time.Second,
	}, nil
}

// Close ends the connection. Calls under way fail with
// payments.ErrWalletUnavailable.
func (w *Wallet) Close() error { return w.conn.Close() }

// Node asks the node who and where it is.
func (w *Wallet) Node(ctx context.Context) (payments.Node, error) {
	info, err := call(ctx, w, rpcGetInfo, w.ln.GetInfo, &lnrpc.GetInfoRequest{})
	if err != nil {
		return payments.Node{}, err
	}
	if len(info.Chains) != 1 {
		return payments.Node{}, fmt.Errorf("%w: lnd names %d chains", payments.ErrWrongNetwork, len(info.Chains))
	}

	network, err := payments.ParseNetwork(info.Chains[0].Network)
	if err != nil {
		return payments.Node{}, err
	}
	if w.cfg.Network != "" && network != w.cfg.Network {
		return payments.Node{}, &Error{
			RPC: rpcGetInfo, Kind: payments.ErrWrongNetwork,
			Hint: fmt.Sprintf("lnd at %s is on %s, the configuration says %s", w.cfg.Address, network, w.cfg.Network),
		}
	}

	node := payments.Node{PubKey: info.IdentityPubkey, Network: network, Alias: info.Alias}
	w.mu.Lock()
	w.node = node
	w.mu.Unlock()
	return node, nil
}

// knownNode is Node, asked once: every method that moves money goes through it,
// so that nothing happens on a network that the configuration does not name.
func (w *Wallet) knownNode(ctx context.Context) (payments.Node, error) {
	w.mu.Lock()
	node := w.node
	w.mu.Unlock()
	if node.PubKey != "" {
		return node, nil
	}
	return w.Node(ctx)
}

// Balance is what the node's channels hold. SpendableMsats includes the
// channels' reserves, which cannot be spent; ReservedMsats is what payments
// under way tie up; ReceivedMsats is 0, since lnd keeps no such sum.
func (w *Wallet) Balance(ctx context.Context) (payments.Balance, error) {
	reply, err := call(ctx, w, rpcChannelBalance, w.ln.ChannelBalance, &lnrpc.ChannelBalanceRequest{})
	if err != nil {
		return payments.Balance{}, err
	}
	return payments.Balance{
		SpendableMsats: clampMsats(reply.GetLocalBalance().GetMsat()),
		ReservedMsats:  clampMsats(reply.GetUnsettledRemoteBalance().GetMsat()),
	}, nil
}

// Receivable is what others can pay in at most, in msats: the peers' side of
// the channels, reserves included. With 0 nobody can pay this node.
func (w *Wallet) Receivable(ctx context.Context) (int64, error) {
	reply, err := call(ctx, w, rpcChannelBalance, w.ln.ChannelBalance, &lnrpc.ChannelBalanceRequest{})
	return clampMsats(reply.GetRemoteBalance().GetMsat()), err
}

// call is one question with its time limit.
func call[Request, Reply any](
	ctx context.Context, w *Wallet, rpc string,
	ask func(context.Context, Request, ...grpc.CallOption) (Reply, error), request Request,
) (Reply, error) {
	limited, cancel := context.WithTimeout(ctx, w.cfg.CallTimeout)
	defer cancel()
	reply, err := ask(limited, request)
	if err != nil {
		return reply, w.fail(ctx, rpc, err)
	}
	return reply, nil
}

// clampMsats brings lnd's unsigned amounts into our range.
func clampMsats(msats uint64) int64 { return int64(min(msats, payments.MaxMsats)) }
