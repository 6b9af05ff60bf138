// Package sell has the commands of a provider: run, drain, pause, retire, pay debts,
// explain its policy.
package sell

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/doctor"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/node/builtin"
	"github.com/lightwork-market/lightwork/internal/node/health"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// Cmd is lightwork provider.
type Cmd struct {
	Run    providerRunCmd    `cmd:"" help:"Announce, take jobs, run them, get paid, until interrupted."`
	Retire providerRetireCmd `cmd:"" help:"Take the announcement back, for good."`
	Pause  providerPauseCmd  `cmd:"" help:"Take no new jobs; open ones go on."`
	Resume providerResumeCmd `cmd:"" help:"Take jobs again."`
	Drain  providerDrainCmd  `cmd:"" help:"Take no new jobs, finish the open ones, and end the provider."`
	Reload providerReloadCmd `cmd:"" help:"Have the provider that runs read its prices again."`
	Price  providerPriceCmd  `cmd:"" help:"Say what a request would cost here now, and why."`
	Debts  providerDebtsCmd  `cmd:"" help:"List what is owed to buyers whose prepaid jobs failed, and what became of it."`
}

type providerRunCmd struct{}

// Run sells until interrupted.
func (providerRunCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	if len(c.Provider.Offers) == 0 {
		return advice.Usage("add an entry under provider.offers", "nothing is on offer in %s", g.Config)
	}

	if err := prepareSandbox(ctx, s, g, c, "lightwork provider run"); err != nil {
		return err
	}
	reread, stop := rereadSignal()
	defer stop()
	return node.RunProvider(ctx, c, s.Log, saleLog(s, g, c), reread)
}

// RunCmd is lightwork run.
type RunCmd struct{}

// Run runs all that the configuration has until interrupted.
func (RunCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	if err := prepareSandbox(ctx, s, g, c, "lightwork run"); errors.Is(err, errLoose) {
		s.Log.Warn("the provider does not sell", "err", err)
	} else if err != nil {
		return err
	}

	reread, stop := rereadSignal()
	defer stop()
	s.Told.Info(g.Spell("the node runs; lightwork status shows its roles"))
	return node.Run(ctx, c, s.Log, saleLog(s, g, c), reread)
}

// prepareSandbox finds out how firmly jobs can be confined, where that is sold. again is
// the command that runs.
func prepareSandbox(ctx context.Context, s *app.Streams, g *app.Globals, c *node.Node, again string) error {
	if !c.SellsSandbox() {
		return nil
	}
	builtin.TakeScope(ctx, s.Log)
	if err := sandboxReady(ctx, s, g, c, again); err != nil {
		return err
	}
	if c.Level != "" && c.Level != sandbox.LevelFull {
		s.Log.Warn("commands of buyers are confined at less than the full level, as sandbox.least_confinement allows", "level", c.Level)
	}
	return nil
}

// rereadSignal is SIGHUP, from the first moment: by itself the signal ends a process.
func rereadSignal() (reread chan os.Signal, stop func()) {
	reread = make(chan os.Signal, 1)
	signal.Notify(reread, syscall.SIGHUP)
	return reread, func() { signal.Stop(reread) }
}

// saleLog tells on standard error what the provider of a node does.
func saleLog(s *app.Streams, g *app.Globals, c *node.Node) *node.SaleLog {
	return node.NewSaleLog(s.Told, app.Say, func(key string) {
		npub, _ := receipts.Npub(key)
		s.Told.Info("selling as " + npub)
		if a := c.Admission().Word(); a != provider.AdmissionOpen {
			s.Told.Info(g.Spell(string(a) + ": no new jobs are taken; lightwork provider resume takes them again"))
			if why := c.Admission().PausedWhy(); why != "" {
				s.Told.Info("it paused because " + display.Printable(why))
			}
		}
		if c.Provider.Wallet.Backend == "play" {
			s.Told.Info("PLAY MONEY: nothing that is earned here is worth anything")
		}
	})
}

// errLoose is why a node that sells commands alone sells nothing.
var errLoose = errors.New("jobs cannot be confined here, so none is run")

// sandboxReady says why jobs could not run in the sandbox, before anything is
// promised to anybody, and refuses to begin where nothing else is on offer: what
// needs no sandbox is sold without. again is the command, for the hint.
func sandboxReady(ctx context.Context, s *app.Streams, g *app.Globals, c *node.Node, again string) error {
	level, all := health.CheckSandbox(ctx, c.Sandbox.Least())
	c.Level = level
	failed := health.Failures(all)
	if len(failed) == 0 || ctx.Err() != nil { // an interrupted trial shows nothing
		return ctx.Err()
	}
	for i := range failed {
		failed[i].Fix = g.Spell(failed[i].Fix)
	}
	if err := doctor.PrintFindings(s.Err, failed); err != nil {
		return err
	}
	if !c.SellsSandboxOnly() {
		return nil
	}

	return advice.Hint(errLoose,
		"as root, or with delegated cgroups: systemd-run --user --scope -p Delegate=yes "+again+"; or accept a weaker level: sandbox.least_confinement in the configuration")
}
