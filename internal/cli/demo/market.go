package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/relay/server"
	"github.com/lightwork-market/lightwork/schemas"
)

// folder makes an empty folder and locks it against a second demo until unlock
// is called. What an earlier demo left there may hold keys of real money: it is
// moved aside, whole, and only if none of its databases is in use.
func (d Cmd) folder() (dir, moved string, unlock func(), err error) {
	const another = "name another folder with --out"
	if dir, err = filepath.Abs(cmp.Or(d.Out, demoFolder)); err != nil {
		return "", "", nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", nil, advice.Usage(another, "%w", err)
	}

	old, err := os.ReadDir(dir)
	if err != nil {
		return "", "", nil, err
	}
	marker := filepath.Join(dir, demoMarker)
	if _, err := os.Lstat(marker); err != nil && len(old) > 0 {
		return "", "", nil, advice.Usage(another, "%s is not empty and not from a demo", dir)
	}

	lock, err := lockMarker(marker)
	if err != nil {
		return "", "", nil, err
	}
	if len(old) == 0 || len(old) == 1 && old[0].Name() == demoMarker {
		return dir, "", func() { lock.Close() }, nil
	}

	defer lock.Close() // after the new folder is locked: no third demo comes between
	if moved, err = moveAside(dir); err != nil {
		return "", "", nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", "", nil, err
	}

	fresh, err := lockMarker(marker)
	if err != nil {
		return "", "", nil, err
	}
	return dir, moved, func() { fresh.Close() }, nil
}

// lockMarker takes the lock that a demo holds while it runs.
func lockMarker(marker string) (*os.File, error) {
	lock, err := os.OpenFile(marker, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	busy := advice.Usage("wait for it, or name another folder with --out", "another demo is running in %s", filepath.Dir(marker))
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, busy
	}

	// Another demo may have moved the folder since the file was opened.
	mine, err := lock.Stat()
	there, thereErr := os.Lstat(marker)
	if err != nil || thereErr != nil || !os.SameFile(mine, there) {
		lock.Close()
		return nil, busy
	}
	return lock, nil
}

// moveAside renames a folder to the first free name of DIR-1, DIR-2 and so on.
// It holds the locks of all databases meanwhile, so that none is in use.
func moveAside(dir string) (string, error) {
	var locks []*os.File
	defer func() {
		for _, f := range locks {
			f.Close()
		}
	}()

	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Ext(path) != ".lock" {
			return err
		}
		f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		locks = append(locks, f)
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			return advice.Usage("stop the relay, the provider and the others that run there, or name another folder with --out",
				"%s is in use: a process has %s open", dir, strings.TrimSuffix(path, ".lock"))
		}
		return nil
	})
	if err != nil {
		return "", err
	}

	for n := 1; ; n++ {
		to := fmt.Sprintf("%s-%d", dir, n)
		if _, err := os.Lstat(to); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err := os.Rename(dir, to); err != nil {
			return "", advice.Usage("name another folder with --out", "move the last demo's folder aside: %w", err)
		}
		return to, nil
	}
}

// demoMarket is everything the demo runs.
type demoMarket struct {
	dir    string
	config *node.Node
	app.Streams
	relay    *server.Server
	relayOn  net.Listener
	ledger   *node.PlayLedger // nil with real wallets
	ledgerOn net.Listener
	ready    chan struct{} // closed when the provider sells
}

func (d Cmd) open(ctx context.Context, dir string, level sandbox.Level, s *app.Streams) (*demoMarket, error) {
	if (d.ProviderLND == "") != (d.BuyerLND == "") {
		return nil, advice.Usage("", "--provider-lnd and --buyer-lnd go together")
	}
	m := &demoMarket{dir: dir, Streams: *s, ready: make(chan struct{})}
	var err error
	if m.relayOn, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	set := config.Setup{
		ProviderWallet: "play", BuyerWallet: "play", Relay: "ws://" + m.relayOn.Addr().String(), Name: "demo provider", PerMinuteMsats: demoPrice,
	}
	if level != sandbox.LevelFull {
		set.LeastConfinement = string(level) // nobody but this demo orders commands here
	}
	set.NoSandbox = level == ""
	if d.schema() != schemas.SandboxRun {
		set.MoreOffers = []schemas.ID{d.schema()}
	}
	if d.wasm {
		set.Agent = demoAgent
	}
	set.Model = config.Model{BaseURL: d.Endpoint, Name: d.Model, KeyEnv: d.KeyEnv}
	if d.real() {
		set.ProviderWallet, set.BuyerWallet = "lnd", "lnd"
		for at, to := range map[string]*config.LND{d.ProviderLND: &set.ProviderLND, d.BuyerLND: &set.BuyerLND} {
			if *to, err = parseLND(at); err != nil {
				return nil, err
			}
		}
	} else {
		if m.ledgerOn, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
		set.PlayURL = "http://" + m.ledgerOn.Addr().String()
	}

	if _, err := node.WriteSetup(dir, set); err != nil {
		return nil, err
	}
	if m.config, err = app.Open(s, &app.Globals{Config: filepath.Join(dir, config.DefaultFile)}); err != nil {
		return nil, err
	}

	if d.wasm {
		if err := installDemoAgent(m.config); err != nil {
			return nil, fmt.Errorf("install the agent: %w", err)
		}
	}

	if m.relay, err = server.New(ctx, server.Config{
		Dir: m.config.DataDir("relay"), Log: s.Log, Name: "lightwork demo relay", Owners: node.OwnKeys(m.config.Config, s.Log),
	}); err != nil {
		return nil, err
	}
	if m.ledgerOn != nil {
		m.ledger, err = m.config.PlayLedger(ctx)
	}
	return m, err
}

// parseLND reads ADDRESS,TLS_CERT,MACAROON.
func parseLND(s string) (config.LND, error) {
	parts := strings.Split(s, ",")
	if len(parts) != 3 {
		return config.LND{}, advice.Usage("for example 127.0.0.1:10009,tls.cert,admin.macaroon", "an lnd is given as ADDRESS,TLS_CERT,MACAROON")
	}
	c := config.LND{Address: parts[0]}
	var err error
	if c.TLSCertFile, err = filepath.Abs(parts[1]); err != nil {
		return c, err
	}
	c.MacaroonFile, err = filepath.Abs(parts[2])
	return c, err
}

// serve starts relay, ledger and provider; they end with ctx.
func (m *demoMarket) serve(ctx context.Context, g *errgroup.Group) {
	g.Go(func() error { return m.relay.Serve(ctx, m.relayOn) })
	if m.ledger != nil {
		g.Go(func() error { return m.ledger.Serve(ctx, m.ledgerOn) })
	}
	g.Go(func() error {
		return node.RunProvider(ctx, m.config, m.Log, node.NewSaleLog(slog.New(slog.DiscardHandler), app.Say, func(string) { close(m.ready) }), nil)
	})
}
