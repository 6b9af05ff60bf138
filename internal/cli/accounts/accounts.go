// Package accounts has the commands that add up what was spent and what was earned.
package accounts

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
)

// flags are what both commands take.
type flags struct {
	Since string `help:"Leave out what was before this day (UTC)." placeholder:"YYYY-MM-DD"`
	Until string `help:"Leave out this day (UTC) and what was after it." placeholder:"YYYY-MM-DD"`
	CSV   bool   `help:"Print CSV, with amounts in millisatoshis."`
	JSON  bool   `help:"Print JSON."`
}

func (f flags) period(by node.Grouping) (p node.Period, err error) {
	if f.CSV && f.JSON {
		return p, advice.Usage("leave one of them out", "--csv and --json are two forms of the same answer")
	}
	if p.Since, err = app.Day("--since", f.Since); err != nil {
		return p, err
	}
	if p.Until, err = app.Day("--until", f.Until); err != nil {
		return p, err
	}
	if !p.Since.IsZero() && !p.Until.IsZero() && !p.Since.Before(p.Until) {
		return p, advice.Usage("--until names the first day that is left out", "no day is from %s and before %s", f.Since, f.Until)
	}

	p.By = by
	return p, nil
}

// sheet is an account as it is printed: each line has what it is of, and its numbers.
type sheet struct {
	of      string   // what the lines are of
	columns []string // of the numbers, as CSV names them; all but the first are millisatoshis
	lines   []line
}

type line struct {
	of      string
	numbers []int64
}

// print writes the sheet with its sum, or as CSV.
func (s sheet) print(f flags, out io.Writer) error {
	if f.CSV {
		return s.printCSV(out)
	}

	sum := line{of: "ALL", numbers: make([]int64, len(s.columns))}
	w := app.NewTable(out)
	heads := []string{s.of}
	for _, c := range s.columns {
		heads = append(heads, strings.TrimSuffix(c, "_msats"))
	}
	fmt.Fprintln(w, strings.ToUpper(strings.Join(heads, "\t")))
	for _, l := range s.lines {
		for i, n := range l.numbers {
			sum.numbers[i] += n
		}
		fmt.Fprintln(w, l.cells())
	}

	fmt.Fprintln(w, sum.cells())
	return w.Flush()
}

// cells is the line in a table, with a name for the key of a party.
func (l line) cells() string {
	name := display.Printable(l.of)
	if len(l.of) == 64 {
		name = display.NPub(l.of)
	}
	cells := []string{name, strconv.FormatInt(l.numbers[0], 10)}
	for _, msats := range l.numbers[1:] {
		cells = append(cells, display.Msats(msats))
	}
	return strings.Join(cells, "\t")
}

func (s sheet) printCSV(out io.Writer) error {
	w := csv.NewWriter(out)
	_ = w.Write(append([]string{s.of}, s.columns...))
	for _, l := range s.lines {
		cells := []string{l.of}
		for _, n := range l.numbers {
			cells = append(cells, strconv.FormatInt(n, 10))
		}
		_ = w.Write(cells)
	}

	w.Flush()
	return w.Error() // of the first cell that could not be written
}

// SpendingsCmd is lightwork spendings.
type SpendingsCmd struct {
	By string `help:"Add up by day, month, job or provider." enum:"day,month,job,provider" default:"month" placeholder:"BY"`
	flags
}

// spendingView is a line of spendings as --json shows it.
type spendingView struct {
	Of          string `json:"of"` // a day, a month, a job type or a provider's key
	Payments    int64  `json:"payments"`
	PaidMsats   int64  `json:"paid_msats"`
	FeesMsats   int64  `json:"fees_msats"`
	RefundMsats int64  `json:"refunded_msats"`
	NetMsats    int64  `json:"net_msats"`
}

// Run adds up what was paid for purchases, whoever ordered them.
func (c SpendingsCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	by := node.Grouping(c.By)
	if c.By == "provider" {
		by = node.ByParty
	}
	period, err := c.period(by)
	if err != nil {
		return err
	}
	n, err := app.Open(s, g)
	if err != nil {
		return err
	}

	var list []node.Spending
	err = n.Databases().ReadPurchases(ctx, func(bought *node.Purchases) (err error) {
		if bought != nil { // else nothing was bought yet
			list, err = bought.Spendings(ctx, period)
		}
		return err
	})
	if err != nil {
		return err
	}

	views := []spendingView{}
	sheet := sheet{of: c.By, columns: []string{"payments", "paid_msats", "fees_msats", "refunded_msats", "net_msats"}}
	for _, e := range list {
		v := spendingView{e.Of, e.Payments, e.PaidMsats, e.FeesMsats, e.RefundMsats, e.PaidMsats + e.FeesMsats - e.RefundMsats}
		views = append(views, v)
		sheet.lines = append(sheet.lines, line{v.Of, []int64{v.Payments, v.PaidMsats, v.FeesMsats, v.RefundMsats, v.NetMsats}})
	}
	if c.JSON {
		return app.PrintJSON(s.Out, views)
	}
	return sheet.print(c.flags, s.Out)
}

// EarningsCmd is lightwork earnings.
type EarningsCmd struct {
	By string `help:"Add up by day, month, job or buyer." enum:"day,month,job,buyer" default:"month" placeholder:"BY"`
	flags
}

// earningView is a line of earnings as --json shows it.
type earningView struct {
	Of        string `json:"of"` // a day, a month, a job type or a buyer's key
	Payments  int64  `json:"payments"`
	CameMsats int64  `json:"came_msats"`
	OwedMsats int64  `json:"owed_msats"` // of failed jobs; what lowered a later price is taken off
	FeesMsats int64  `json:"fees_msats"`
	NetMsats  int64  `json:"net_msats"`
}

// Run adds up what came for sales.
func (c EarningsCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	by := node.Grouping(c.By)
	if c.By == "buyer" {
		by = node.ByParty
	}
	period, err := c.period(by)
	if err != nil {
		return err
	}
	n, err := app.Open(s, g)
	if err != nil {
		return err
	}

	var list []node.Earning
	err = n.Databases().ReadSales(ctx, func(sold *node.Sales) (err error) {
		if sold != nil { // else nothing was sold yet
			list, err = sold.Earnings(ctx, period)
		}
		return err
	})
	if err != nil {
		return err
	}

	views := []earningView{}
	sheet := sheet{of: c.By, columns: []string{"payments", "came_msats", "owed_msats", "fees_msats", "net_msats"}}
	for _, e := range list {
		v := earningView{e.Of, e.Payments, e.CameMsats, e.OwedMsats, e.FeesMsats, e.CameMsats - e.OwedMsats - e.FeesMsats}
		views = append(views, v)
		sheet.lines = append(sheet.lines, line{v.Of, []int64{v.Payments, v.CameMsats, v.OwedMsats, v.FeesMsats, v.NetMsats}})
	}
	if c.JSON {
		return app.PrintJSON(s.Out, views)
	}
	return sheet.print(c.flags, s.Out)
}
