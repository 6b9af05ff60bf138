// Package lnd is a wallet backend on an lnd node, over its gRPC interface
// (lnrpc, invoicesrpc, routerrpc).
//
// A message in one of lnd's streams is only a hint; the answer to a lookup is
// authoritative. So [Wallet.WatchInvoices] only names hashes to look up, and the
// outcome of a payment whose stream ended is unknown until it is tracked again.
//
// The node should run with --store-final-htlc-resolutions: without it, lnd cannot
// tell whether the money of a settled invoice really arrived (lnd#7463), and
// [payments.Invoice.Final] depends only on the states of the HTLCs.
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

// Config configures a [Wallet]. Address, TLSCertFile and MacaroonFile are required.
type Config struct {
	// Address is the node's gRPC endpoint as host:port.
	Address string

	// TLSCertFile is the path of the node's PEM certificate, the only one that is
	// trusted.
	TLSCertFile string

	// MacaroonFile is the path of a binary macaroon. It should permit exactly the
	// [PermissionURIs] of the role.
	MacaroonFile string

	// Network is the required chain of the node; another one gives
	// payments.ErrWrongNetwork. Empty accepts any.
	Network payments.Network

	// CallTimeout bounds each call of the node. 0 means 30 s.
	CallTimeout time.Duration

	// BlockTime is a pessimistic time between blocks, for converting the remaining
	// blocks of a held invoice to Invoice.SettleBy. 0 means 5 minutes, half of the
	// average: the 56 remaining blocks of a new hold then give 4 h 40 min, in which
	// an average chain makes 28 blocks.
	BlockTime time.Duration

	// SettleMarginBlocks is kept free before lnd's own deadline. 0 means 6.
	SettleMarginBlocks int

	// MaySpend is asked before each payment is begun.
	MaySpend payments.MaySpend

	// Log receives reconnections. If it is nil, nothing is logged.
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

// Wallet is a connection to one lnd node. It is safe for concurrent use. errors.Is
// matches its errors with those of package payments; most are an *Error with advice
// for the operator.
type Wallet struct {
	cfg      Config
	conn     *grpc.ClientConn
	ln       lnrpc.LightningClient
	invoices invoicesrpc.InvoicesClient
	router   routerrpc.RouterClient
	wallet   walletrpc.WalletKitClient

	retryMin, retryMax time.Duration // between reconnections of a stream

	mu   sync.Mutex
	node payments.Node // guarded by mu; zero until lnd's first answer
}

// Open reads the certificate and the macaroon and prepares the connection. It does
// not connect: the first call does, and fails with payments.ErrWalletUnavailable if
// the node is down.
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
		// Reconnect soon after a node comes back; the library's default limit is
		// two minutes.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A stream on a dead link must end, or there would be no more hints. lnd
		// disconnects clients that ping more often than every 5 s.
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

// Close closes the connection. Running calls fail with
// payments.ErrWalletUnavailable.
func (w *Wallet) Close() error { return w.conn.Close() }

// Node asks the node for its key and network.
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

// knownNode caches Node. Every method that moves money calls it, so that nothing
// happens on a network that is not configured.
func (w *Wallet) knownNode(ctx context.Context) (payments.Node, error) {
	w.mu.Lock()
	node := w.node
	w.mu.Unlock()
	if node.PubKey != "" {
		return node, nil
	}
	return w.Node(ctx)
}

// Balance adds up the balances of the node's channels. SpendableMsats includes the
// channel reserves, which cannot be spent; ReservedMsats is the amount in payments
// in flight; ReceivedMsats is 0, since lnd has no such sum.
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

// Receivable is the most that others can pay to this node, in msats: the peers'
// side of the channels, including reserves.
func (w *Wallet) Receivable(ctx context.Context) (int64, error) {
	reply, err := call(ctx, w, rpcChannelBalance, w.ln.ChannelBalance, &lnrpc.ChannelBalanceRequest{})
	return clampMsats(reply.GetRemoteBalance().GetMsat()), err
}

// call makes one call with a time limit.
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

// clampMsats converts lnd's unsigned amounts to our range.
func clampMsats(msats uint64) int64 { return int64(min(msats, payments.MaxMsats)) }
