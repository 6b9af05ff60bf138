package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/receipts"
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
func (b buyerDiscoverCmd) Run(ctx context.Context, s *streams, g *globals) error {
	c, err := loadConfig(g.Config)
	if err != nil {
		return err
	}
	key, err := openSigner(c, "buyer", s.log)
	if err != nil {
		return err
	}
	m, err := newMarket(c, key, 1, s.log)
	if err != nil {
		return err
	}
	scout := buyer.Scout{Market: m, Key: key.PublicKey()}
	if scout.History, err = history(ctx, s, c); err != nil {
		return err
	}
	serve, stop := context.WithCancel(ctx)
	var pool errgroup.Group
	pool.Go(func() error { return m.Serve(serve) })
	pool.Go(func() error { return key.serve(serve) })
	found, err := scout.Find(ctx, b.Schema, "")
	stop()
	_ = pool.Wait()
	if err != nil {
		return hinted(err, "lightwork doctor checks the relays")
	}
	list := make([]buyer.Listing, len(found))
	for i, f := range found {
		list[i] = f.Listing
	}
	names := b.of(ctx, c.names(), list)
	views := make([]foundView, len(found))
	for i, f := range found {
		views[i] = foundView{f, nameOf(f.Listing, names)}
	}
	if b.JSON {
		return printJSON(s.out, views)
	}
	if len(found) == 0 {
		fmt.Fprintln(s.err, "lightwork: nobody on these relays announces", firstText(printable(b.Schema), "a job type"))
		if _, known := schemas.Lookup(b.Schema); b.Schema != "" && !known {
			fmt.Fprintln(s.err, "  hint: this program does not know that job type either; lightwork schemas list shows those that it does")
		}
	}
	showFound(s.out, views, b.Schema)
	return nil
}

// history is what we bought before, from whom; nil before the first purchase.
func history(ctx context.Context, s *streams, c *config) (map[string]buyer.History, error) {
	k, err := openToRead(ctx, s, c, "buyer")
	if err != nil || k == nil {
		return nil, err
	}
	all, err := k.BuyerStore().History(ctx)
	return all, firstError(err, k.Close())
}

// showFound prints a block of lines a provider: its key is to be copied whole,
// and 63 characters leave no room for columns.
func showFound(w io.Writer, found []foundView, schema string) {
	for _, f := range found {
		if f.Outside {
			showOutside(w, f.Listing)
			continue
		}
		fmt.Fprintf(w, "%s\n%s  %s on %s, says %s done: %s\n", f.NPub, nameLine(f.NIP05), cut(f.Name, 30), cut(f.Network, 12), count(int64(f.Completed), "job"), strings.Join(f.Why, ", "))
		t := newTable(w)
		for _, job := range f.Jobs {
			if schema == "" || job == schema {
				fmt.Fprintf(t, "    %s\t%s\t%s\n", cut(job, 40), priceText(f.Found, job), modesText(f.Modes[job]))
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
			parts = append(parts, msats(p.msats)+p.of)
		}
	}
	price := firstText(strings.Join(parts, " + "), "free")
	if t.EngagementMsats > 0 {
		price += ", " + msats(t.EngagementMsats) + " for an attempt"
	}
	return price
}

func modesText(modes []receipts.Mode) string {
	words := make([]string, len(modes))
	for i, m := range modes {
		words[i] = cut(string(m), 10)
	}
	return strings.Join(words, ", ")
}
