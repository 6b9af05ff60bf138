package buy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/panel"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/node/buying"
)

type buyerFollowCmd struct {
	ID   string `arg:"" help:"The purchase or panel (id or its beginning)."`
	JSON bool   `help:"Print JSON."`
}

// Help is shown below the flags.
func (buyerFollowCmd) Help() string {
	return "It only looks on: Ctrl-C ends nothing but this command. " + buyerSubmitCmd{}.Help()
}

// Run shows the steps of a purchase until it has ended.
func (b buyerFollowCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return purchase.ReadBuyer(ctx, s, g, func(bought *node.Purchases) error {
		if strings.HasPrefix(b.ID, panel.Prefix) {
			p, err := panel.Find(ctx, bought, b.ID)
			if err != nil {
				return err
			}
			return panel.Watch(ctx, s, bought, p.ID, b.JSON)
		}
		p, err := purchase.Find(ctx, bought, b.ID)
		if err != nil {
			return err
		}
		id := p.RequestID
		p, err = bought.WatchOrder(ctx, id, purchase.NewTimeline(s.Err).Step)
		return finish(ctx, s, bought, id, p, purchase.Outputs{}, b.JSON, err)
	})
}

type buyerWaitCmd struct {
	IDs  []string `arg:"" optional:"" name:"id" help:"Purchases or panels (ids or their beginnings); all open ones if left out."`
	JSON bool     `help:"Print JSON."`
}

// Help is shown below the flags.
func (buyerWaitCmd) Help() string {
	return "Exit code 0: all are done. 4: of one, the commands failed or ran out of time, or no receipt came. 1: one failed or was canceled. 3: one is open, and no process works on it. Of several that differ: the first that is not 0, in the order of the ids."
}

// outcome is how a purchase ended that was waited for.
type outcome struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Code  int    `json:"exit_code"`
	Error string `json:"error,omitempty"`
}

// Run waits until the purchases have ended.
func (b buyerWaitCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return purchase.ReadBuyer(ctx, s, g, func(bought *node.Purchases) error {
		ids, err := b.find(ctx, bought)
		if err != nil {
			return err
		}

		list := make([]outcome, len(ids))
		var wg sync.WaitGroup
		for i, id := range ids {
			wg.Go(func() { list[i] = waitFor(ctx, bought, id) })
		}
		wg.Wait()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return b.report(s, list)
	})
}

// find resolves the ids.
func (b buyerWaitCmd) find(ctx context.Context, bought *node.Purchases) (ids []string, err error) {
	if len(b.IDs) == 0 && bought != nil {
		return bought.Open(ctx)
	}
	for _, id := range b.IDs {
		if strings.HasPrefix(id, panel.Prefix) {
			p, err := panel.Find(ctx, bought, id)
			if err != nil {
				return nil, err
			}
			ids = append(ids, p.ID)
			continue
		}
		p, err := purchase.Find(ctx, bought, id)
		if err != nil {
			return nil, err
		}
		ids = append(ids, p.RequestID)
	}
	return ids, nil
}

// waitFor waits for one purchase or panel.
func waitFor(ctx context.Context, bought *node.Purchases, id string) outcome {
	o := outcome{ID: id}
	var result buyer.Purchase
	var err error
	if strings.HasPrefix(id, panel.Prefix) {
		o.State, result, err = panel.Wait(ctx, bought, id)
	} else {
		result, err = bought.WatchOrder(ctx, id, func(buyer.Progress) {})
		o.State = string(result.State)
	}
	if err == nil {
		err = purchase.Unmet(result)
	}

	var coded *advice.Error
	switch {
	case err == nil:
	case errors.Is(err, buying.ErrIdle):
		o.Code = advice.ExitOpen
	case errors.As(err, &coded):
		o.Code = coded.Code
	default:
		o.Code = advice.ExitFailed
	}
	if err != nil {
		o.Error = err.Error()
	}
	return o
}

// report prints how they ended and gives the exit code.
func (b buyerWaitCmd) report(s *app.Streams, list []outcome) error {
	code, idle := 0, ""
	for _, o := range list {
		if code == 0 {
			code = o.Code
		}
		if o.Code == advice.ExitOpen && idle == "" {
			idle = purchase.Name(o.ID)
		}
	}
	if b.JSON {
		if err := app.PrintJSON(s.Out, list); err != nil {
			return err
		}
		return advice.Exit(code)
	}

	if len(list) == 0 {
		fmt.Fprintln(s.Err, "lightwork: no purchase is open")
	}
	for _, o := range list {
		fmt.Fprintln(s.Out, strings.TrimSpace(purchase.Name(o.ID)+" "+o.State+" "+display.OneLine(o.Error)))
	}
	if idle != "" {
		fmt.Fprintln(s.Err, "lightwork: lightwork buyer resume goes on with what nobody works on, such as", idle)
	}
	return advice.Exit(code)
}
