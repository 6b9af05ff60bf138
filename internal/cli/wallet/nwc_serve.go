package wallet

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
)

type walletNWCServeCmd struct {
	App    string        `help:"Name of the app that may use the wallet; its address is made at the first time." required:"" placeholder:"NAME"`
	Role   config.Side   `help:"Whose wallet: provider or buyer. Left out: the only one there is; of two the buyer's." placeholder:"ROLE"`
	Budget int64         `name:"budget-msats" help:"What the app may spend in a period, fees included." default:"0" placeholder:"MSATS"`
	Period time.Duration `help:"The budget's period; 0 for once and for all." default:"24h"`
}

// Run offers a wallet of this node to another application until interrupted.
func (w walletNWCServeCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	if w.Budget < 0 || w.Period < 0 || filepath.Base(w.App) != w.App || w.App == "." || w.App == ".." {
		return advice.Usage("for example --app phone --budget-msats 100000", "a budget and a period cannot be negative, and a name is one word")
	}
	role := w.Role.Of(c.Config)
	offer := wallets.App{Name: w.App, Role: role, BudgetMsats: w.Budget, Period: w.Period}
	return offer.Serve(ctx, c.Config, s.Log, func(line string) { fmt.Fprintln(s.Err, "lightwork:", line) })
}
