// Package jobs has the commands that list and trace the jobs of a provider, and what
// it owes.
package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// Cmd is lightwork jobs.
type Cmd struct {
	List    jobsListCmd    `cmd:"" help:"List the jobs this provider admitted, newest first."`
	Show    jobsShowCmd    `cmd:"" help:"Show one job, and what each relay said."`
	Trace   jobsTraceCmd   `cmd:"" help:"From any id of a job, sold or bought: all its other ids, and what happened when."`
	Dispute jobsDisputeCmd `cmd:"" help:"Note that a job is disputed, so that nothing of it is pruned."`
}

// JobView is a job as --json shows it.
type JobView struct {
	RequestID   string         `json:"request_id"`
	State       provider.State `json:"state"`
	Reason      string         `json:"reason,omitempty"`
	Buyer       string         `json:"buyer"`
	SchemaID    string         `json:"schema_id"`
	JobHash     string         `json:"job_hash"`
	Mode        receipts.Mode  `json:"mode"`
	PriceMsats  int64          `json:"price_msats"`
	QuoteHash   string         `json:"quote_hash"`
	PaymentHash string         `json:"payment_hash,omitempty"`
	Run         int            `json:"run"`
	ResultID    string         `json:"result_event_id,omitempty"`
	OutputHash  string         `json:"output_hash,omitempty"`
	ReceiptID   string         `json:"receipt_id,omitempty"`
	AddedAt     time.Time      `json:"added_at"`
	StateAt     time.Time      `json:"state_at"`
	Relays      []provider.Ack `json:"relays,omitempty"`
	CreditMsats int64          `json:"credit_used_msats,omitempty"`
	Debt        *DebtView      `json:"debt,omitempty"`
	Pruned      []prunedView   `json:"pruned,omitempty"`
}

// prunedView is a part of a job that is gone.
type prunedView struct {
	Part string    `json:"part"`
	At   time.Time `json:"at"`
}

func viewOfJob(j provider.Job) JobView {
	v := JobView{
		RequestID: j.RequestID, State: j.State, Buyer: j.Buyer, SchemaID: j.SchemaID, JobHash: j.JobHash.String(),
		Mode: j.Mode, PriceMsats: j.PriceMsats, QuoteHash: j.QuoteHash.String(), Run: j.Run, ReceiptID: j.ReceiptID,
		AddedAt: j.AddedAt, StateAt: j.StateAt, CreditMsats: j.CreditMsats,
	}
	if j.Reason.Code != "" {
		v.Reason = j.Reason.String()
	}
	if !j.PaymentHash.IsZero() {
		v.PaymentHash = j.PaymentHash.String()
	}
	for _, p := range j.Pruned {
		v.Pruned = append(v.Pruned, prunedView(p))
	}
	if j.Result != nil {
		v.ResultID, v.OutputHash = j.Result.EventID, j.Result.OutputHash.String()
	}
	return v
}

type jobsListCmd struct {
	Limit int  `help:"How many at most." default:"50"`
	JSON  bool `help:"Print JSON."`
}

// Run lists jobs.
func (c jobsListCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return ReadProvider(ctx, s, g, func(store *node.Sales) error {
		list, err := jobs(ctx, store, c.Limit)
		if err != nil {
			return err
		}
		views := make([]JobView, len(list))
		for i, j := range list {
			views[i] = viewOfJob(j)
		}
		if c.JSON {
			return app.PrintJSON(s.Out, views)
		}
		w := app.NewTable(s.Out, 5, 3, 1)
		fmt.Fprintln(w, "REQUEST\tADDED\tSTATE\tMODE\tPRICE\tBUYER\tRECEIPT\tREASON")
		for _, v := range views {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", display.Short(v.RequestID), v.AddedAt.Local().Format(time.DateTime),
				v.State, v.Mode, display.Msats(v.PriceMsats), display.Short(v.Buyer), display.ShortReceipt(v.ReceiptID), display.OneLine(v.Reason))
		}

		return w.Flush()
	})
}

type jobsShowCmd struct {
	ID   string `arg:"" help:"The request id or its beginning."`
	JSON bool   `help:"Print JSON."`
}

// Run shows one job.
func (c jobsShowCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return ReadProvider(ctx, s, g, func(store *node.Sales) error {
		job, err := FindJob(ctx, store, c.ID)
		if err != nil {
			return err
		}
		v := viewOfJob(job)
		if v.Relays, err = store.Acks(ctx, job.RequestID); err != nil {
			return err
		}
		if v.Debt, err = debtOf(ctx, store, job.RequestID); err != nil {
			return err
		}
		if c.JSON {
			return app.PrintJSON(s.Out, v)
		}

		fmt.Fprintf(s.Out, "request       %s\nstate         %s since %s\nbuyer         %s\njob type      %s\njob hash      %s\nmode, price   %s, %s\nquote hash    %s\npayment hash  %s\nrun           %d\nresult        %s\noutput hash   %s\nreceipt       %s\n",
			v.RequestID, v.State, strings.TrimSpace(v.StateAt.Local().Format(time.DateTime)+" "+display.Printable(v.Reason)), display.NPub(v.Buyer), v.SchemaID, v.JobHash,
			v.Mode, display.Msats(v.PriceMsats), v.QuoteHash, v.PaymentHash, v.Run, v.ResultID, v.OutputHash, v.ReceiptID)
		if v.CreditMsats > 0 {
			fmt.Fprintf(s.Out, "credit used   %s\n", display.Msats(v.CreditMsats))
		}
		if v.Debt != nil {
			fmt.Fprintf(s.Out, "owed          %s: %s\n", display.Msats(v.Debt.OwedMsats), v.Debt.What())
		}

		for _, p := range v.Pruned {
			fmt.Fprintf(s.Out, "pruned        %s at %s\n", p.Part, p.At.Local().Format(time.DateTime))
		}
		for _, a := range v.Relays {
			answer := "refused"
			if a.OK {
				answer = "ok"
			}
			fmt.Fprintln(s.Out, strings.TrimSpace(fmt.Sprintf("relay         %s %s for %s %s", display.Printable(a.Relay), answer, display.Short(a.EventID), display.Printable(a.Message))))
		}

		return nil
	})
}

// FindJob resolves an id or its beginning among the jobs.
func FindJob(ctx context.Context, store *node.Sales, id string) (provider.Job, error) {
	if store == nil {
		return provider.Job{}, advice.Usage("lightwork provider run takes jobs", "job %q: nothing was sold yet", id)
	}
	job, err := store.FindJob(ctx, id)
	if err != nil {
		return job, advice.Usage("lightwork jobs list shows the ids; lightwork jobs trace finds refused requests too", "%w", err)
	}
	return job, nil
}

// ReadProvider opens the provider's database for reading, also beside a
// running one. Before the first sale there may be none: do gets nil.
func ReadProvider(ctx context.Context, s *app.Streams, g *app.Globals, do func(*node.Sales) error) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	return c.Databases().ReadSales(ctx, do)
}

// jobs lists jobs; none if there is no store yet.
func jobs(ctx context.Context, store *node.Sales, limit int) ([]provider.Job, error) {
	if store == nil {
		return nil, nil
	}
	return store.Jobs(ctx, limit)
}

type jobsDisputeCmd struct {
	ID   string `arg:"" help:"Request id or receipt id, or its beginning."`
	Over bool   `help:"The dispute is over."`
}

// Run notes that a job is disputed, so that nothing of it is pruned, or that it no longer
// is.
func (c jobsDisputeCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	var id string
	err = ReadProvider(ctx, s, g, func(store *node.Sales) error {
		job, err := FindJob(ctx, store, c.ID)
		id = job.RequestID
		return err
	})
	if err != nil {
		return err
	}
	if err := conf.Databases().Dispute(ctx, id, !c.Over); err != nil {
		return err
	}

	now := "is disputed: nothing of it is pruned"
	if c.Over {
		now = "is not disputed any more"
	}
	_, err = fmt.Fprintf(s.Out, "job %s %s\n", display.Short(id), now)
	return err
}
