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
	"github.com/lightwork-market/lightwork/internal/config"
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

func (f flags) period(by string) (p node.Period, err error) {
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

	if p.By = node.Grouping(by); by == "provider" || by == "buyer" {
		p.By = node.ByParty
	}
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

// print writes the sheet as a table with its sum.
func (s sheet) print(out io.Writer) error {
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

func (s sheet) printJSON(out io.Writer) error {
	views := []map[string]any{}
	for _, l := range s.lines {
		v := map[string]any{"of": l.of}
		for i, c := range s.columns {
			v[c] = l.numbers[i]
		}
		views = append(views, v)
	}
	return app.PrintJSON(out, views)
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

// Run adds up what was paid for purchases, whoever ordered them.
func (c SpendingsCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return c.report(s, g, c.By, spent, func(n *node.Node) config.Wallet { return n.Buyer.Wallet }, func(d node.Databases, p node.Period) (list []node.Sum, err error) {
		return list, d.ReadPurchases(ctx, func(bought *node.Purchases) error {
			if bought != nil { // else nothing was bought yet
				list, err = bought.Spendings(ctx, p)
			}
			return err
		})
	})
}

// EarningsCmd is lightwork earnings.
type EarningsCmd struct {
	By string `help:"Add up by day, month, job or buyer." enum:"day,month,job,buyer" default:"month" placeholder:"BY"`
	flags
}

// Run adds up what came for sales.
func (c EarningsCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return c.report(s, g, c.By, earned, func(n *node.Node) config.Wallet { return n.Provider.Wallet }, func(d node.Databases, p node.Period) (list []node.Sum, err error) {
		return list, d.ReadSales(ctx, func(sold *node.Sales) error {
			if sold != nil { // else nothing was sold yet
				list, err = sold.Earnings(ctx, p)
			}
			return err
		})
	})
}

// account says how a side's sums are printed.
type account struct {
	msats, back string                 // the keys of the columns
	net         func(s node.Sum) int64 // what is left
}

var (
	spent  = account{"paid_msats", "refunded_msats", func(s node.Sum) int64 { return s.Msats + s.FeesMsats - s.BackMsats }}
	earned = account{"came_msats", "owed_msats", func(s node.Sum) int64 { return s.Msats - s.FeesMsats - s.BackMsats }}
)

// report reads a side's sums and prints them.
func (f flags) report(
	s *app.Streams, g *app.Globals, by string, a account, wallet func(*node.Node) config.Wallet,
	read func(node.Databases, node.Period) ([]node.Sum, error),
) error {
	period, err := f.period(by)
	if err != nil {
		return err
	}
	n, err := app.Open(s, g)
	if err != nil {
		return err
	}
	list, err := read(n.Databases(), period)
	if err != nil {
		return err
	}

	sheet := sheet{of: by, columns: []string{"payments", a.msats, a.back, "fees_msats", "net_msats"}}
	for _, sum := range list {
		sheet.lines = append(sheet.lines, line{sum.Of, []int64{sum.Payments, sum.Msats, sum.BackMsats, sum.FeesMsats, a.net(sum)}})
	}
	switch {
	case f.JSON:
		return sheet.printJSON(s.Out)
	case f.CSV:
		return sheet.printCSV(s.Out)
	}

	if wallet(n).Backend == "play" {
		fmt.Fprintln(s.Out, "PLAY MONEY: worth nothing")
	}
	return sheet.print(s.Out)
}
