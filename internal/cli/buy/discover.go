package buy

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/schemas"
)

type buyerDiscoverCmd struct {
	Schema string `help:"Only providers that run this job type." placeholder:"ID"`
	named
	JSON bool `help:"Print JSON."`
}

// foundView is a provider as discover --json shows it.
type foundView struct {
	buyer.Found
	NIP05 string `json:"nip05,omitempty"` // only if its domain vouches for it
}

// Help is shown below the flags.
func (buyerDiscoverCmd) Help() string {
	return "Best first, by: no money taken for nothing, no missed requests, signs of life, price. Prices within a tenth of the lowest count as equal; among those, providers that you bought from or follow come first. " +
		"No wallet is opened, and nothing is asked of anybody but the relays, and with --names of the domains in providers' names."
}

// Run lists providers. It opens no wallet, and reads what was bought before
// beside a running purchase too.
func (b buyerDiscoverCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	found, err := c.Market().Discover(ctx, b.Schema)
	if err != nil {
		return err
	}

	list := make([]buyer.Listing, len(found))
	for i, f := range found {
		list[i] = f.Listing
	}
	names := b.of(ctx, c.Market().Names(), list)
	views := make([]foundView, len(found))
	for i, f := range found {
		views[i] = foundView{f, nameOf(f.Listing, names)}
	}
	if b.JSON {
		return app.PrintJSON(s.Out, views)
	}
	if len(found) == 0 {
		fmt.Fprintln(s.Err, "lightwork: nobody on these relays announces", cmp.Or(display.Printable(b.Schema), "a job type"))
		if _, known := schemas.Lookup(b.Schema); b.Schema != "" && !known {
			fmt.Fprintln(s.Err, "  hint: this program does not know that job type either; lightwork schemas list shows those that it does")
		}
	}

	showFound(s.Out, views, b.Schema)
	return nil
}

// showFound prints a block of lines a provider: its key is to be copied whole,
// and 63 characters leave no room for columns.
func showFound(w io.Writer, found []foundView, schema string) {
	for _, f := range found {
		if f.Plain {
			showOutside(w, f.Listing)
			continue
		}
		fmt.Fprintf(w, "%s\n%s  %s on %s, says %s done: %s\n", f.NPub, nameLine(f.NIP05), display.Cut(f.Name, 30), display.Cut(f.Network, 12), display.Count(int64(f.Completed), "job"), strings.Join(f.Why, ", "))

		t := app.NewTable(w)
		for _, job := range f.Jobs {
			if schema == "" || job == schema {
				fmt.Fprintf(t, "    %s\t%s\t%s\n", display.Cut(job, 40), priceText(f.Found, job), display.Modes(f.Modes[job]))
			}
		}

		t.Flush()
	}
}

// nameLine is the line of a name that a domain vouches for.
func nameLine(name string) string {
	if name == "" {
		return ""
	}
	return "  " + name + " (NIP-05, its domain vouches for it)\n"
}

// priceText is what the job type costs, as announced.
func priceText(f buyer.Found, job string) string {
	if _, ok := f.MinuteMsats[job]; !ok {
		return "no price announced"
	}
	t, ok := f.Prices[job]
	if !ok {
		t.BaseMsats, t.PerMinuteMsats = f.BaseMsats[job], f.PerMinuteMsats
	}

	var parts []string
	for _, p := range []struct {
		msats int64
		of    string
	}{{t.BaseMsats, ""}, {t.PerMinuteMsats, " a minute"}, {t.InputMsats, " for 1000 tokens in"}, {t.OutputMsats, " for 1000 tokens out"}} {
		if p.msats > 0 {
			parts = append(parts, display.Msats(p.msats)+p.of)
		}
	}

	price := cmp.Or(strings.Join(parts, " + "), "free")
	if t.EngagementMsats > 0 {
		price += ", " + display.Msats(t.EngagementMsats) + " for an attempt"
	}
	return price
}
