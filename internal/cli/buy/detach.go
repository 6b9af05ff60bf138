package buy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/panel"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/receipts"
)

type buyerRunCmd struct{}

// Help is shown below the flags.
func (buyerRunCmd) Help() string {
	return "It goes on with open purchases, and the other commands hand it their work: a purchase goes on whatever becomes of the terminal that ordered it."
}

// Run buys until interrupted.
func (buyerRunCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	return node.RunBuyer(ctx, c, s.Log, func(key string) {
		npub, _ := receipts.Npub(key)
		s.Told.Info("buying as " + npub)
		if c.Buyer.Wallet.Backend == "play" {
			s.Told.Info("PLAY MONEY: nothing that is bought here costs anything")
		}
	})
}

// startInterval is how often it is looked whether a process of its own has begun.
const startInterval = 20 * time.Millisecond

// detach leaves a purchase or a panel to the buyer that runs here, or to a process of its
// own, and prints its id.
func detach(ctx context.Context, s *app.Streams, g *app.Globals, n *node.Buyer, id string, asJSON bool) error {
	if taken, err := n.Orders.HandOver(ctx, id); err != nil {
		return err
	} else if !taken {
		if err := startWorker(ctx, g, n, id); err != nil {
			return err
		}
	}

	fmt.Fprintln(s.Err, "lightwork: "+g.Spell("lightwork buyer follow "+purchase.Name(id)+" shows what becomes of it, lightwork buyer wait waits for its end"))
	switch {
	case !asJSON:
		fmt.Fprintln(s.Out, id)
		return nil
	case strings.HasPrefix(id, panel.Prefix):
		return panel.Show(ctx, s, n.Purchases, id, true)
	}
	p, err := n.Purchases.Purchase(ctx, id)
	if err != nil {
		return err
	}
	return app.PrintJSON(s.Out, purchase.ViewOf(p))
}

// startWorker starts a process that works on a purchase, and waits until it does. What it
// says is in a file beside the buyer's database.
func startWorker(ctx context.Context, g *app.Globals, n *node.Buyer, id string) error {
	log, err := os.OpenFile(filepath.Join(n.Dir, purchase.Name(id)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start a process for the purchase: %w", err)
	}
	defer log.Close()

	cmd := exec.Command(display.Self(), "-c", g.Config, "buyer", "resume", id)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the end of this terminal is not its own
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a process for the purchase: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	tick := time.NewTicker(startInterval)
	defer tick.Stop()
	for {
		if _, works, err := n.Purchases.Worker(ctx, id); works || err != nil {
			return err
		}
		select {
		case err := <-ended:
			if err == nil {
				return nil
			}
			return advice.Unfinished(fmt.Errorf("the process that works on it has ended (%w); it says why in %s", err, log.Name()),
				"lightwork buyer resume "+purchase.Name(id)+" goes on with it")
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
