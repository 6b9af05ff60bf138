package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip59"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/alerts"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/internal/observe"
	"github.com/lightwork-market/lightwork/internal/store/sales"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay"
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

// maxState bounds what a node tells of itself.
const maxState = 16 << 20

func notRunning() error {
	return advice.Hint(errors.New("no provider runs on this data folder"), advice.RunProvider+" starts one; "+advice.ListJobs+" shows what there was")
}

// LookAt asks the node at a socket how it is.
func LookAt(socket string) func(context.Context) ([]byte, observe.State, error) {
	client := &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
	}
	return func(ctx context.Context) (raw []byte, s observe.State, err error) {
		key, err := host.ReadKey(socket) // a node that was started again has another
		if errors.Is(err, fs.ErrNotExist) {
			return nil, s, notRunning()
		}
		if err != nil {
			return nil, s, err
		}

		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/state", nil)
		if err != nil {
			return nil, s, err
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := client.Do(req)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			return nil, s, notRunning()
		}
		if err != nil {
			return nil, s, fmt.Errorf("ask the node: %w", err)
		}

		defer resp.Body.Close()
		if raw, err = io.ReadAll(io.LimitReader(resp.Body, maxState)); err != nil {
			return nil, s, fmt.Errorf("ask the node: %w", err)
		}
		if resp.StatusCode != http.StatusOK {
			return nil, s, fmt.Errorf("ask the node: %s: %s", resp.Status, bytes.TrimSpace(raw[:min(len(raw), 200)]))
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, s, fmt.Errorf("ask the node: %w", err)
		}

		return raw, s, nil
	}
}

// Alert is something that needs the owner's attention.
type Alert = alerts.Alert

// Alerts are those that the running provider has raised, or the last one had, oldest first.
func (c *Node) Alerts() ([]Alert, error) { return alerts.List(c.alertFile()) }

func (c *Node) alertFile() string { return filepath.Join(c.DataDir("provider"), "alerts.json") }

// ToldChannel says whether a channel to the owner took a message.
type ToldChannel struct {
	Channel string
	Err     error
}

// TestAlerts tells each configured channel that it works.
func (c *Node) TestAlerts(ctx context.Context) (told []ToldChannel, err error) {
	now := time.Now().UTC()
	m := alerts.Message{State: alerts.Raised, Node: c.Config.Node.Name, At: now, Alert: Alert{Kind: alerts.Test, Text: "this channel works", Since: now}}
	send := func(ctx context.Context, channels []alerts.Channel) error {
		for _, ch := range channels {
			told = append(told, ToldChannel{ch.Name, ch.Send(ctx, m)})
		}
		return nil
	}
	if c.Config.Alerts.Owner == "" {
		return told, send(ctx, c.alertChannels(keys.Signer{}, nil))
	}
	err = c.Market().on(ctx, "provider", 1, func(ctx context.Context, key keys.Signer, market *exchange.Market) error {
		return send(ctx, c.alertChannels(key, market))
	})
	return told, err
}

// alertChannels are the configured ways to the owner.
func (c *Node) alertChannels(key keys.Signer, m *exchange.Market) (all []alerts.Channel) {
	a := c.Config.Alerts
	if len(a.Command) > 0 {
		argv := slices.Clone(a.Command)
		if strings.Contains(argv[0], "/") {
			argv[0] = c.Path(argv[0])
		}
		all = append(all, alerts.Command(argv))
	}
	if a.Webhook != "" {
		all = append(all, alerts.Webhook(a.Webhook))
	}
	if a.Owner != "" {
		all = append(all, alerts.Channel{Name: "owner", Send: func(ctx context.Context, msg alerts.Message) error {
			wrap, err := wrapFor(ctx, key, a.OwnerKey(), msg.Line())
			if err != nil {
				return err
			}
			return m.Send(ctx, wrap)
		}})
	}
	return all
}

// wrapFor is a direct message (NIP-17): no relay learns whom it is from, or what it says.
func wrapFor(ctx context.Context, key keys.Signer, to, text string) (nostr.Event, error) {
	rumor := nostr.Event{Kind: nostr.KindDirectMessage, PubKey: key.PublicKey(), CreatedAt: nostr.Now(), Tags: nostr.Tags{{"p", to}}, Content: text}
	rumor.ID = rumor.GetID()
	wrap, err := nip59.GiftWrap(rumor, to,
		func(text string) (string, error) { return key.Cipher.NIP44Encrypt(ctx, to, text) },
		func(ev *nostr.Event) error { return key.Sign(ctx, ev) }, nil)
	if err != nil {
		return wrap, fmt.Errorf("seal the message to the owner: %w", err)
	}
	return wrap, nil
}

// watch looks at what its owner should know of a provider.
type watch struct {
	c      *Node
	node   *observe.Node
	sold   *sales.Store
	wallet wallets.Wallet // the provider's; nil without one

	buys      wallets.Wallet // the buyer's, once it is open
	closeBuys func()
}

// serveAlerts raises alerts until ctx ends.
func (c *Node) serveAlerts(ctx context.Context, w *watch, key keys.Signer, m *exchange.Market, log *slog.Logger) error {
	defer func() {
		if w.closeBuys != nil {
			w.closeBuys()
		}
	}()
	desk := alerts.New(alerts.Config{File: c.alertFile(), Node: c.Config.Node.Name, Channels: c.alertChannels(key, m), Log: log})
	return desk.Serve(ctx, w.look)
}

// askTime bounds what a look waits for a wallet.
const askTime = 10 * time.Second

// look says what is so, and what could be looked at.
func (w *watch) look(ctx context.Context) (now []alerts.Condition, looked []alerts.Kind) {
	ctx, cancel := context.WithTimeout(ctx, 3*askTime)
	defer cancel()
	now, looked = w.lookAtNode()
	add := func(kind alerts.Kind, more []alerts.Condition, err error) {
		if err == nil {
			now, looked = append(now, more...), append(looked, kind)
		}
	}

	owed, debts, err := w.lookAtDebts(ctx)
	add(alerts.Debts, debts, err)
	budget, err := w.lookAtBudget(ctx)
	add(alerts.Budget, budget, err)
	if err := ctx.Err(); err == nil {
		add(alerts.CannotPay, append(w.lookAtRefunds(ctx, owed), w.lookAtPurchases(ctx)...), nil)
	}
	return now, looked
}

// lookAtNode reads what the node observes of itself.
func (w *watch) lookAtNode() (now []alerts.Condition, looked []alerts.Kind) {
	s := w.node.State()
	looked = []alerts.Kind{alerts.RelayGone, alerts.DiskFull, alerts.SecondNode}
	for _, r := range s.Relays {
		if r.State != relay.StateConnected {
			now = append(now, alerts.Condition{Kind: alerts.RelayGone, Of: r.URL, Text: r.URL + " cannot be reached: " + r.Error})
		}
	}
	for _, check := range s.Checks {
		switch {
		case check.Name == "wallet" && check.OK:
			looked = append(looked, alerts.CannotInvoice)
		case check.Name == "wallet" && check.Detail != observe.NotAsked:
			looked = append(looked, alerts.CannotInvoice)
			now = append(now, alerts.Condition{Kind: alerts.CannotInvoice, Text: "the provider's wallet makes no invoices: " + check.Detail})
		case check.Name == "disk" && !check.OK:
			now = append(now, alerts.Condition{Kind: alerts.DiskFull, Text: check.Detail})
		}
	}
	if why := w.c.Admission().PausedWhy(); why != "" {
		now = append(now, alerts.Condition{Kind: alerts.SecondNode, Text: why + "; no jobs are taken"})
	}
	return now, looked
}

// lookAtDebts finds what buyers of failed jobs can still claim.
func (w *watch) lookAtDebts(ctx context.Context) (owed int64, now []alerts.Condition, err error) {
	list, err := w.sold.Debts(ctx)
	n := 0
	for _, d := range list {
		if left := min(d.LeftMsats(), d.CreditMsats); left > 0 && d.WriteOff == nil {
			n, owed = n+1, owed+left
		}
	}
	if n > 0 {
		now = []alerts.Condition{{Kind: alerts.Debts, Text: fmt.Sprintf("%s are owed for %d failed jobs", display.Msats(owed), n)}}
	}
	return owed, now, err
}

// nearlySpent is the part of the day's budget, in percent, at which its owner is told.
const nearlySpent = 90

func (w *watch) lookAtBudget(ctx context.Context) (now []alerts.Condition, err error) {
	limit := w.c.Buyer.DayMsats
	if limit == 0 {
		return nil, nil
	}
	err = w.c.Databases().ReadPurchases(ctx, func(bought *Purchases) error {
		if bought == nil {
			return nil
		}
		b, err := bought.store.BudgetOf(ctx, time.Now())
		if used := b.SpentMsats + b.ReservedMsats; err == nil && used >= limit/100*nearlySpent {
			now = []alerts.Condition{{Kind: alerts.Budget, Text: fmt.Sprintf("%s of the day's %s are spent or reserved (UTC)", display.Msats(used), display.Msats(limit))}}
		}
		return err
	})
	return now, err
}

// lookAtRefunds says whether the provider's wallet cannot pay what is owed.
func (w *watch) lookAtRefunds(ctx context.Context, owed int64) []alerts.Condition {
	if owed == 0 || w.wallet == nil || w.c.Config.Provider.Refunds.CreditOnly {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	b, err := w.wallet.Balance(ctx)
	if err == nil && b.SpendableMsats >= owed {
		return nil
	}
	text := fmt.Sprintf("the provider's wallet can spend %s, and %s are owed", display.Msats(b.SpendableMsats), display.Msats(owed))
	if err != nil {
		text = "the provider's wallet does not say what it can spend, and " + display.Msats(owed) + " are owed"
	}
	return []alerts.Condition{{Kind: alerts.CannotPay, Of: "provider", Text: text}}
}

// lookAtPurchases says whether the buyer's wallet cannot pay. Notes and a book of payments on the
// chain are one process's at a time, so those wallets are not asked here.
func (w *watch) lookAtPurchases(ctx context.Context) []alerts.Condition {
	conf := w.c.Buyer.Wallet
	if !slices.Contains([]string{"play", "lnd", "nwc"}, conf.Backend) {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	err := error(nil)
	if w.buys == nil {
		w.buys, w.closeBuys, err = wallets.Open(asking, w.c.Config, conf, "buyer", w.c.log)
	}
	var spendable int64
	if err == nil {
		b, balanceErr := w.buys.Balance(asking)
		spendable, err = b.SpendableMsats, balanceErr
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return []alerts.Condition{{Kind: alerts.CannotPay, Of: "buyer", Text: "the buyer's wallet does not answer"}}
	case spendable < 1000:
		return []alerts.Condition{{Kind: alerts.CannotPay, Of: "buyer", Text: "the buyer's wallet has nothing to spend"}}
	}
	return nil
}
