// Package panel has the commands about panels: one job for several providers.
package panel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/lease"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/node/buying"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// panelView is a panel as --json shows it.
type panelView struct {
	PanelID       string        `json:"panel_id"`
	State         string        `json:"state"` // open, closed, decided, done, failed
	Outcome       panel.Outcome `json:"outcome,omitempty"`
	Reason        string        `json:"reason,omitempty"`
	Tier          string        `json:"tier"`
	Redundancy    int           `json:"redundancy"`
	Adjudication  panel.Rule    `json:"adjudication"`
	SchemaID      string        `json:"schema_id"`
	JobHash       string        `json:"job_hash"`
	AgreementHash string        `json:"agreement_hash,omitempty"`
	MaxMsats      int64         `json:"max_msats"`
	PaidMsats     int64         `json:"paid_msats"`
	FeeMsats      int64         `json:"fee_msats"`
	AddedAt       time.Time     `json:"added_at"`
	worth
	Seats    []seatView      `json:"seats"`
	ResultOf string          `json:"result_of,omitempty"` // whose output it is, x-only hex; of a merged one nobody's
	Record   json.RawMessage `json:"record,omitempty"`    // of a judge's ballots, or of a merge
	Output   json.RawMessage `json:"output,omitempty"`
}

type seatView struct {
	Provider      string      `json:"provider"`
	RequestID     string      `json:"request_id"`
	State         buyer.State `json:"state"`
	Taken         bool        `json:"taken"`
	Why           string      `json:"why,omitempty"`
	AgreementHash string      `json:"agreement_hash,omitempty"` // as revealed
	PaidMsats     int64       `json:"paid_msats"`
	FeePaidMsats  int64       `json:"engagement_paid_msats,omitempty"` // for the attempt; the panel's paid_msats has both
	ReceiptID     string      `json:"receipt_id,omitempty"`
}

// ViewOf is a panel as --json shows it, and the purchase that won.
func ViewOf(ctx context.Context, store panel.Purchases, p panel.Panel) (panelView, buyer.Purchase, error) {
	var result buyer.Purchase
	v := panelView{
		PanelID: p.ID, State: "open", Tier: p.Tier(), Redundancy: len(p.Members), Adjudication: p.Rule, SchemaID: p.SchemaID,
		JobHash: p.JobHash.String(), MaxMsats: p.MaxMsats, AddedAt: p.AddedAt,
	}
	if p.Closing != nil {
		v.State = "closed"
	}

	open := false
	var purchases []buyer.Purchase
	for _, s := range p.Members {
		got, err := store.Purchase(ctx, s.RequestID)
		if err != nil {
			return v, result, err
		}
		purchases = append(purchases, got)
		bought := purchase.ViewOf(got)
		seat := seatView{Provider: s.Provider, RequestID: s.RequestID, State: got.State, PaidMsats: bought.PaidMsats, ReceiptID: got.ReceiptID}
		if e := got.Engagement; e != nil && e.Payment != nil && e.Payment.State == payments.PaymentSucceeded {
			seat.FeePaidMsats = e.Payment.AmountMsats
			v.PaidMsats, v.FeeMsats = v.PaidMsats+e.Payment.AmountMsats, v.FeeMsats+e.Payment.FeeMsats
		}

		if s.Revealed != nil {
			seat.AgreementHash = s.Revealed.String()
		}
		if s.Ruling != nil {
			seat.Taken, seat.Why = s.Ruling.Taken, s.Ruling.Why
		}
		if got.State == buyer.StateFailed && !strings.HasPrefix(got.Reason, "not paid: ") {
			seat.Why = got.Reason
		}
		if seat.Taken && got.State == buyer.StateDone && result.RequestID == "" {
			result, v.ResultOf, v.Output = got, got.Provider, got.Output
		}
		open = open || !got.State.Terminal()
		v.PaidMsats, v.FeeMsats = v.PaidMsats+bought.PaidMsats, v.FeeMsats+bought.FeeMsats
		v.Seats = append(v.Seats, seat)
	}

	v.worth = worthOf(p, purchases)
	if d := p.Decision; d != nil {
		v.State, v.Outcome, v.Reason = "decided", d.Outcome, d.Reason
		if d.Agreement != nil {
			v.AgreementHash = d.Agreement.String()
		}
		if v.Record = d.Record; d.Output != nil {
			v.Output, v.ResultOf, result.Output = d.Output, "", d.Output
		}

		switch {
		case open:
		case result.RequestID != "":
			v.State = "done"
		default:
			v.State = "failed"
		}
	}

	return v, result, nil
}

// Follow carries a panel to its end, tells what happens on stderr, and prints the outcome
// on stdout. While another process works on the panel it looks on.
func Follow(ctx context.Context, s *app.Streams, n *node.Buyer, id string, out purchase.Outputs, asJSON bool) error {
	show, err := showPanel(ctx, s, n.Purchases, id)
	if err != nil {
		return err
	}
	for {
		p, err := n.Orders.FollowPanel(ctx, id, show)
		if errors.Is(err, lease.ErrHeld) {
			purchase.TellWorker(s, id, err)
			p, err = n.Purchases.WatchPanel(ctx, id, show)
		}
		if !errors.Is(err, buying.ErrIdle) { // else its worker has ended: it is ours now
			return finish(ctx, s, n.Purchases, p, out, asJSON, err)
		}
	}
}

// Resume carries a panel on that nobody works on; *[lease.HeldError] if another process
// does.
func Resume(ctx context.Context, s *app.Streams, n *node.Buyer, id string, out purchase.Outputs, asJSON bool) error {
	show, err := showPanel(ctx, s, n.Purchases, id)
	if err != nil {
		return err
	}
	p, err := n.Orders.FollowPanel(ctx, id, show)
	if errors.Is(err, lease.ErrHeld) {
		return err
	}
	return finish(ctx, s, n.Purchases, p, out, asJSON, err)
}

// Watch shows what becomes of a panel, whoever works on it.
func Watch(ctx context.Context, s *app.Streams, bought *node.Purchases, id string, asJSON bool) error {
	show, err := showPanel(ctx, s, bought, id)
	if err != nil {
		return err
	}
	p, err := bought.WatchPanel(ctx, id, show)
	return finish(ctx, s, bought, p, purchase.Outputs{}, asJSON, err)
}

// Wait waits until a panel has ended, and returns its state and the purchase that won.
func Wait(ctx context.Context, bought *node.Purchases, id string) (state string, result buyer.Purchase, err error) {
	p, err := bought.WatchPanel(ctx, id, func(string, buyer.Progress) {})
	if p.ID == "" {
		return "", result, err
	}
	v, result, viewErr := ViewOf(ctx, bought, p)
	return v.State, result, cmp.Or(err, viewErr)
}

// showPanel tells who has a seat, and makes what tells the steps.
func showPanel(ctx context.Context, s *app.Streams, bought *node.Purchases, id string) (func(provider string, step buyer.Progress), error) {
	stored, err := bought.Panel(ctx, id)
	if err != nil {
		return nil, err
	}

	seat := map[string]int{}
	for i, x := range stored.Members {
		seat[x.Provider] = i + 1
		npub, err := receipts.Npub(x.Provider)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(s.Err, "lightwork: %s, seat %d of %d: %s\n", id, i+1, len(stored.Members), npub)
	}
	before, _, err := ViewOf(ctx, bought, stored)
	if err != nil {
		return nil, err
	}
	before.worth.show(s.Err)

	show := purchase.NewTimeline(s.Err)
	return func(provider string, step buyer.Progress) {
		if no := seat[provider]; no > 0 {
			step.Who = fmt.Sprintf("%d %s", no, step.Who)
		}
		show.Step(step)
	}, nil
}

// finish prints what came of following a panel.
func finish(ctx context.Context, s *app.Streams, bought *node.Purchases, p panel.Panel, out purchase.Outputs, asJSON bool, followErr error) error {
	if p.ID == "" {
		return followErr
	}
	v, result, err := ViewOf(context.WithoutCancel(ctx), bought, p)
	if err != nil {
		return cmp.Or(followErr, err)
	}
	if followErr == nil {
		followErr = writePanel(ctx, bought, v, result, out)
	}

	switch {
	case asJSON:
		if err := app.PrintJSON(s.Out, v); err != nil {
			return err
		}
	default:
		if result.Output != nil {
			purchase.ShowOutput(s.Out, result)
		}
		showSeats(s.Err, v)
	}

	again := "lightwork buyer resume " + p.ID
	switch {
	case followErr == nil:
		return purchase.Unmet(result)
	case errors.Is(followErr, panel.ErrNoConsensus), errors.Is(followErr, buyer.ErrFailed):
		return advice.Hint(followErr, "lightwork buyer show "+p.ID)
	case ctx.Err() != nil:
		return advice.Unfinished(fmt.Errorf("interrupted; the providers go on: %s", again), "")
	}

	return advice.Unfinished(followErr, again)
}

// writePanel writes what there is about every seat that was paid into folders of
// their own with the whole as panel.json, and the files of the one result.
func writePanel(ctx context.Context, bought *node.Purchases, v panelView, result buyer.Purchase, out purchase.Outputs) error {
	if err := (purchase.Outputs{Files: out.Files}).Write(ctx, bought, result); err != nil || out.Out == "" {
		return err
	}
	if err := os.MkdirAll(out.Out, 0o755); err != nil {
		return err
	}

	for i, seat := range v.Seats {
		if seat.ReceiptID == "" && (!seat.Taken || seat.State != buyer.StateDone) {
			continue
		}
		if err := purchase.WriteBundle(ctx, bought, seat.RequestID, filepath.Join(out.Out, fmt.Sprintf("seat-%d", i+1))); err != nil {
			return err
		}
	}

	f, err := os.Create(filepath.Join(out.Out, "panel.json"))
	if err != nil {
		return err
	}
	return cmp.Or(app.PrintJSON(f, v), f.Close())
}

func showSeats(w io.Writer, v panelView) {
	fmt.Fprintf(w, "panel      %s: %s %s\noutcome    %s %s\npaid       %s of at most %s, fees %s\n",
		v.PanelID, v.Tier, v.State, v.Outcome, display.Printable(v.Reason), display.Msats(v.PaidMsats), display.Msats(v.MaxMsats), display.Msats(v.FeeMsats))
	v.worth.show(w)
	t := app.NewTable(w, 4, 1)
	fmt.Fprintln(t, "SEAT\tPROVIDER\tID\tSTATE\tREVEALED\tPAID\tRECEIPT\tWHY")
	for i, s := range v.Seats {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", i+1, display.Short(s.Provider), display.Short(s.RequestID), s.State, display.Short(s.AgreementHash),
			display.Msats(s.PaidMsats+s.FeePaidMsats), display.ShortReceipt(s.ReceiptID), display.OneLine(s.Why))
	}
	t.Flush()
}

// BuyerPanelsCmd is lightwork buyer panels.
type BuyerPanelsCmd struct {
	Limit int  `help:"How many at most." default:"50"`
	JSON  bool `help:"Print JSON."`
}

// Run lists panels, newest first.
func (b BuyerPanelsCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return purchase.ReadBuyer(ctx, s, g, func(store *node.Purchases) error {
		views := []panelView{}
		var list []panel.Panel
		var err error
		if store != nil {
			list, err = store.Panels(ctx, b.Limit)
		}
		if err != nil {
			return err
		}

		for _, p := range list {
			v, _, err := ViewOf(ctx, store, p)
			if err != nil {
				return err
			}
			v.Output = nil
			views = append(views, v)
		}

		if b.JSON {
			return app.PrintJSON(s.Out, views)
		}
		t := app.NewTable(s.Out, 4, 2)
		fmt.Fprintln(t, "PANEL\tSTATE\tRULE\tSEATS\tJOB TYPE\tPAID\tREASON")
		for _, v := range views {
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", v.PanelID, v.State, v.Adjudication, v.Redundancy, v.SchemaID, display.Msats(v.PaidMsats), display.OneLine(v.Reason))
		}
		return t.Flush()
	})
}

// Prefix begins the id of a panel, where the id of a purchase is hex.
const Prefix = "panel_"

// Find resolves the beginning of a panel's id, of 6 characters after "panel_".
func Find(ctx context.Context, store *node.Purchases, id string) (panel.Panel, error) {
	const least = len(Prefix) + 6
	none := advice.Usage("lightwork buyer panels shows the ids", "panel %q: there is no such panel", id)
	if store == nil || len(id) < least {
		return panel.Panel{}, none
	}
	list, err := store.Panels(ctx, 0)
	if err != nil {
		return panel.Panel{}, err
	}

	var found []panel.Panel
	for _, p := range list {
		if strings.HasPrefix(p.ID, id) {
			found = append(found, p)
		}
	}

	switch len(found) {
	case 0:
		return panel.Panel{}, none
	case 1:
		return found[0], nil
	}

	return panel.Panel{}, advice.Usage("give more characters", "panel %q: %d begin with that", id, len(found))
}

// Show prints one panel.
func Show(ctx context.Context, s *app.Streams, store *node.Purchases, id string, asJSON bool) error {
	p, err := Find(ctx, store, id)
	if err != nil {
		return err
	}
	v, result, err := ViewOf(ctx, store, p)
	if err != nil {
		return err
	}
	if asJSON {
		return app.PrintJSON(s.Out, v)
	}

	showSeats(s.Out, v)
	if result.Output != nil {
		purchase.ShowOutput(s.Out, result)
	}
	return nil
}
