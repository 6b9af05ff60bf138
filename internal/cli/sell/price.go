package sell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

type providerPriceCmd struct {
	Try    string `help:"The request: a JSON document, as buyer submit --input takes it." required:"" placeholder:"FILE"`
	Schema string `help:"Its job type; may be left out if one alone is on offer." placeholder:"ID"`
	Market bool   `help:"Ask the relays what others announce for it too."`
	JSON   bool   `help:"Print JSON."`
}

// priceView is a price as --json shows it.
type priceView struct {
	node.Priced
	Market []node.MarketPrice `json:"market,omitempty"` // of others, the lowest first
}

// Run prices a request like the provider that runs would. It reads the configuration, or
// the pinned policy, and asks nobody but, with --market, the relays.
func (p providerPriceCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	f, err := os.Open(p.Try)
	if err != nil {
		return advice.Usage("", "--try: %w", err)
	}
	defer f.Close()
	doc, err := io.ReadAll(io.LimitReader(f, schemas.MaxRequestBytes+1))
	if err != nil {
		return err
	}
	var view priceView
	if view.Priced, err = c.PriceOf(ctx, p.Schema, doc); err != nil {
		return err
	}
	if p.Market {
		if view.Market, err = c.Market().PricesOf(ctx, view.SchemaID, doc); err != nil {
			return err
		}
	}
	if p.JSON {
		return app.PrintJSON(s.Out, view)
	}

	for _, part := range view.Parts {
		fmt.Fprintf(s.Out, "%-32s %s\n", part.What, display.Msats(part.Msats))
	}
	fmt.Fprintf(s.Out, "%-32s %s\n", "price, in all modes but free", display.Msats(view.PriceMsats))
	if view.EngagementMsats > 0 {
		fmt.Fprintf(s.Out, "%-32s %s\n", "fee for the attempt, beside it", display.Msats(view.EngagementMsats))
	}
	for _, why := range view.NotTaken {
		fmt.Fprintln(s.Err, "lightwork: a request would be refused now:", g.Spell(why))
	}
	if c.Provider.Wallet.Backend == "play" {
		fmt.Fprintln(s.Err, "lightwork: PLAY MONEY: these prices are worth nothing")
	}
	if p.Market {
		showMarket(s, view)
	}
	return nil
}

// showMarket says where the price stands among those that others announce.
func showMarket(s *app.Streams, v priceView) {
	if len(v.Market) == 0 {
		fmt.Fprintln(s.Out, "nobody else announces", v.SchemaID)
		return
	}
	cheaper, _ := slices.BinarySearchFunc(v.Market, v.PriceMsats, func(m node.MarketPrice, price int64) int { return cmp.Compare(m.Msats, price) })
	fmt.Fprintf(s.Out, "of %s %d ask less; they ask from %s to %s\n", display.Count(int64(len(v.Market)), "other provider"), cheaper,
		display.Msats(v.Market[0].Msats), display.Msats(v.Market[len(v.Market)-1].Msats))
}

type providerReloadCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run has the running provider sell at the prices that the configuration has now.
func (p providerReloadCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	c, err := app.Open(s, g) // a mistake in the file is shown here, with its place
	if err != nil {
		return err
	}
	done, err := c.Reprice(ctx)
	if errors.Is(err, host.ErrNoNode) {
		return advice.Hint(errors.New("no provider is running here"), "lightwork provider run starts it, with the prices that the configuration has then")
	}
	if refused := (*host.CallError)(nil); errors.As(err, &refused) {
		return advice.Hint(fmt.Errorf("nothing has changed: %s", display.Printable(refused.Message)), "the provider goes on at its old prices; mend provider.offers, or start it anew")
	}
	if err != nil {
		return err
	}

	if p.JSON {
		return app.PrintJSON(s.Out, done)
	}
	for _, change := range done.Changes {
		fmt.Fprintf(s.Out, "%s: %s, before %s\n", change.SchemaID, priceLine(change.New), priceLine(change.Old))
	}
	if len(done.Changes) == 0 {
		fmt.Fprintln(s.Out, "every price is as before")
	}
	if len(done.Later) > 0 {
		fmt.Fprintln(s.Err, "lightwork: other parts of the configuration have changed too, and count from the next start:", strings.Join(done.Later, ", "))
	}
	return nil
}

// priceLine is a table of prices in one line.
func priceLine(p receipts.PolicyPrice) string {
	var parts []string
	for _, line := range []struct {
		msats int64
		per   string
	}{
		{p.Price.BaseMsats, "a job"},
		{p.Price.PerMinuteMsats, "a minute"},
		{p.Price.InputMsats, "for 1000 tokens of input"},
		{p.Price.OutputMsats, "for 1000 tokens of output"},
		{p.Price.EngagementMsats, "for the attempt"},
	} {
		if line.msats > 0 {
			parts = append(parts, display.Msats(line.msats)+" "+line.per)
		}
	}
	if len(parts) == 0 {
		parts = []string{"nothing"}
	}
	line := strings.Join(parts, " and ")
	if n := p.Price.MaxOutputTokens; n > 0 {
		line += fmt.Sprintf(", at most %d tokens of output", n)
	}
	return line + ", " + display.Modes(p.Modes)
}
