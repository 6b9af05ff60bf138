package sell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/jobs"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/payments"
)

// act brings the operator's word to the running provider, whose wallet and
// relays it needs.
func (c providerDebtsCmd) act(ctx context.Context, s *app.Streams, g *app.Globals) error {
	id := cmp.Or(c.Retry, c.WriteOff)
	err := jobs.ReadProvider(ctx, s, g, func(store *node.Sales) error {
		job, err := jobs.FindJob(ctx, store, id)
		id = job.RequestID
		return err
	})
	if err != nil {
		return err
	}
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}

	said := "on their way: lightwork provider debts says what becomes of them"
	order := func() (node.DebtDone, error) { return conf.Debts().Retry(ctx, id, c.To) }
	if c.WriteOff != "" {
		said = "written off; the buyer is told"
		order = func() (node.DebtDone, error) { return conf.Debts().WriteOff(ctx, id, c.Note) }
	}
	done, err := order()
	if errors.Is(err, host.ErrNoNode) {
		return advice.Hint(errors.New("no provider is running here"), "lightwork provider run starts it: a refund needs its wallet, and the buyer is told over its relays")
	}
	if refused := (*host.CallError)(nil); errors.As(err, &refused) {
		return advice.Hint(fmt.Errorf("debt of job %s: %s", display.Short(id), display.Printable(refused.Message)), "lightwork provider debts lists what is owed, and every attempt with --json")
	}
	if err != nil {
		return err
	}

	if c.JSON {
		return app.PrintJSON(s.Out, done)
	}
	_, err = fmt.Fprintf(s.Out, "%s %s\n", display.Msats(done.Msats), g.Spell(said))
	return err
}

type providerDebtsCmd struct {
	Retry    string `help:"Try again to pay the debt of this job, whose refund failed or that never had one." placeholder:"ID"`
	To       string `help:"With --retry: the invoice or Lightning address to pay, on the chain an address; left out, where the last attempt went, or the request said." placeholder:"INVOICE"`
	WriteOff string `help:"The debt of this job was settled by other means: what is left of it is no credit any more." placeholder:"ID"`
	Note     string `help:"With --write-off: how it was settled; the buyer is told." placeholder:"TEXT"`
	JSON     bool   `help:"Print JSON."`
}

// Run lists what failed prepaid jobs left owing, or acts on one such debt.
func (c providerDebtsCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	switch {
	case c.Retry != "" && c.WriteOff != "":
		return advice.Usage("one debt, one word", "--retry and --write-off contradict each other")
	case c.To != "" && c.Retry == "":
		return advice.Usage("", "--to goes with --retry")
	case (c.Note != "") != (c.WriteOff != ""):
		return advice.Usage("for example --write-off ID --note 'paid by bank, 21 November'", "--write-off and --note go together")
	case c.Retry != "" || c.WriteOff != "":
		return c.act(ctx, s, g)
	}

	return jobs.ReadProvider(ctx, s, g, func(store *node.Sales) error {
		views := []jobs.DebtView{}
		if store != nil {
			debts, err := store.Debts(ctx)
			if err != nil {
				return err
			}
			for _, d := range debts {
				views = append(views, jobs.ViewOfDebt(d))
			}
		}

		if c.JSON {
			return app.PrintJSON(s.Out, views)
		}
		w := app.NewTable(s.Out, 1, 2, 4)
		fmt.Fprintln(w, "REQUEST\tSINCE\tBUYER\tOWED\tBUYER'S CREDIT\tWHAT BECAME OF IT")
		for _, v := range views {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", display.Short(v.RequestID), v.Since.Local().Format(time.DateTime), display.Short(v.Buyer),
				display.Msats(v.OwedMsats), display.Msats(v.CreditMsats), v.What())
		}

		if err := w.Flush(); err != nil {
			return err
		}

		for _, v := range views {
			if v.Refund == string(payments.PaymentFailed) && v.WrittenOff == 0 {
				fmt.Fprintln(s.Err, "lightwork:", g.Spell("lightwork provider debts --retry ID tries a refund again; --write-off ID --note TEXT says that it was settled otherwise"))
				break
			}
		}

		return nil
	})
}
