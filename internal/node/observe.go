package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/internal/observe"
	"github.com/lightwork-market/lightwork/internal/store/sales"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay/exchange"
)

// ObserveSocket is where a running provider shows itself to its own user.
func (c *Node) ObserveSocket() string {
	return filepath.Join(socketDir(c.DataDir("provider")), "observe")
}

// boardOf makes the board of a provider, with the jobs that an earlier life left open.
func boardOf(ctx context.Context, cfg provider.Config) (*observe.Board, error) {
	board := observe.NewBoard()
	board.Offer(cfg.Offers, cfg.Market.Relays())
	return board, board.Seed(ctx, cfg.Store)
}

// observed is a provider that can be looked at.
type observed struct {
	node      *observe.Node
	key       string // that of the socket
	listeners []net.Listener
	log       *slog.Logger
}

func openObserved(c *Node, board *observe.Board, key keys.Signer, m *exchange.Market, sup *supervisor.Supervisor, store *sales.Store, w wallets.Wallet, goods *stock, log *slog.Logger) (*observed, error) {
	cfg := observe.Config{
		Version: c.Version, PubKey: key.PublicKey(), Dir: c.DataDir("provider"), Board: board,
		Relays: m.Pool.Status, Agents: sup.Status, Offers: goods.offers, Outbox: store.PendingCount,
	}
	words := goods.tell.words
	cfg.Admission = func() string {
		switch c.Admission().Word() {
		case provider.AdmissionPaused:
			if why := c.Admission().PausedWhy(); why != "" {
				return words(why + "; stop one of the two, then " + advice.Resume + " takes jobs again")
			}
			return words("paused; " + advice.Resume + " takes jobs again")
		case provider.AdmissionDraining:
			return "draining: it ends with the last open job"
		}
		return ""
	}
	if w != nil && c.Observe.WalletBalance {
		cfg.Balance = func(ctx context.Context) (int64, error) {
			b, err := w.Balance(ctx)
			return b.SpendableMsats, err
		}
	}

	if w != nil {
		cfg.Wallet = func(ctx context.Context) error {
			_, err := w.Node(ctx)
			if err == nil {
				return nil
			}
			return errors.New(words(wallets.Plain(err, c.Provider.Wallet).Error()))
		}
	}

	if key.Remote != nil {
		cfg.Signer = key.Remote.Status
	}
	socketKey, err := host.MakeKey(c.ObserveSocket())
	if err != nil {
		return nil, err
	}
	o := &observed{node: observe.NewNode(cfg), key: socketKey, log: log}
	err = o.listen("unix", c.ObserveSocket())
	if err == nil && c.Observe.Listen != "" {
		err = o.listen("tcp", c.Observe.Listen)
	}
	if err != nil {
		o.close()
		return nil, advice.Usage("observe.listen names another address", "listen for metrics: %w", err)
	}
	return o, nil
}

func (o *observed) listen(network, addr string) error {
	if network == "unix" { // of a killed node: this one holds the data folder's lock
		if err := os.Remove(addr); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}

	ln, err := net.Listen(network, addr)
	if err != nil {
		return err
	}
	o.listeners = append(o.listeners, ln)
	if network == "unix" {
		return os.Chmod(addr, 0o600)
	}
	return nil
}

func (o *observed) close() {
	for _, ln := range o.listeners {
		_ = ln.Close() // also of one that Serve has closed
	}
}

// serve answers until ctx ends.
func (o *observed) serve(ctx context.Context) error {
	return observe.Serve(ctx, o.handler(), o.log, o.listeners...)
}

// handler wants the key on the socket, to which each agent under the node's user
// can connect. Whoever set observe.listen shows the same to all of this machine.
func (o *observed) handler() http.Handler {
	open := observe.Handler(o.node)
	closed := host.Keyed(o.key, open)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, tcp := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); tcp {
			open.ServeHTTP(w, r)
			return
		}
		closed.ServeHTTP(w, r)
	})
}
