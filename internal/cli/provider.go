package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

type providerCmd struct {
	Run    providerRunCmd    `cmd:"" help:"Announce, take jobs, run them, get paid, until interrupted."`
	Retire providerRetireCmd `cmd:"" help:"Take the announcement back, for good."`
	Pause  providerPauseCmd  `cmd:"" help:"Take no new jobs; open ones go on."`
	Resume providerResumeCmd `cmd:"" help:"Take jobs again."`
	Drain  providerDrainCmd  `cmd:"" help:"Take no new jobs, finish the open ones, and end the provider."`
	Debts  providerDebtsCmd  `cmd:"" help:"List what is owed to buyers whose prepaid jobs failed, and what became of it."`
}

type providerRunCmd struct{}

// Run sells until interrupted.
func (providerRunCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	c, err := openNode(s, g)
	if err != nil {
		return err
	}
	if len(c.Provider.Offers) == 0 {
		return advice.Usage("add an entry under provider.offers", "nothing is on offer in %s", g.Config)
	}
	if c.SellsSandbox() {
		takeScope(ctx, s.Log)
		if err := c.sandboxReady(ctx, s, g, "lightwork provider run"); err != nil {
			return err
		}
		if c.level != "" && c.level != sandbox.LevelFull {
			s.Log.Warn("commands of buyers are confined at less than the full level, as sandbox.least_confinement allows", "level", c.level)
		}
	}
	reread := make(chan os.Signal, 1) // from the first moment: by itself the signal ends a process
	signal.Notify(reread, syscall.SIGHUP)
	defer signal.Stop(reread)
	err = runProvider(ctx, c, s.Log, newTeller(s.Told, func(key string) {
		npub, _ := receipts.Npub(key)
		s.Told.Info("selling as " + npub)
		if a := c.admission(); a != provider.AdmissionOpen {
			s.Told.Info(g.Spell(string(a) + ": no new jobs are taken; lightwork provider resume takes them again"))
			if why := c.pausedWhy(); why != "" {
				s.Told.Info("it paused because " + display.Printable(why))
			}
		}
		if c.Provider.Wallet.Backend == "play" {
			s.Told.Info("PLAY MONEY: nothing that is earned here is worth anything")
		}
	}), reread)
	return walletTrouble(err, "provider", c.Provider.Wallet)
}
