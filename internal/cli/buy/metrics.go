package buy

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/node"
)

type buyerMetricsCmd struct{}

// Help is shown below the flags.
func (buyerMetricsCmd) Help() string {
	return "A buyer has no process of its own to be scraped: run this by a timer, and put what it prints where node_exporter's textfile collector reads."
}

// Run prints, in Prometheus' text form, what was bought and spent. No label has
// a value that a provider chooses.
func (buyerMetricsCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return purchase.ReadBuyer(ctx, s, g, func(store *node.Purchases) error {
		var t node.PurchaseTotals
		if store != nil {
			var err error
			if t, err = store.Totals(ctx); err != nil {
				return err
			}
		}

		metric := func(name, kind, help string) {
			fmt.Fprintf(s.Out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		}
		metric("lightwork_buyer_purchases", "gauge", "Purchases by state.")
		for _, state := range slices.Sorted(maps.Keys(t.States)) {
			fmt.Fprintf(s.Out, "lightwork_buyer_purchases{state=%q} %d\n", state, t.States[state])
		}

		for _, m := range []struct {
			name, kind, help string
			value            int64
		}{
			{"lightwork_buyer_paid_msats_total", "counter", "Msats paid for jobs, routing fees apart.", t.PaidMsats},
			{"lightwork_buyer_fees_msats_total", "counter", "Routing fees of payments.", t.FeesMsats},
			{"lightwork_buyer_refunded_msats_total", "counter", "Msats that came back of prepaid jobs.", t.RefundedMsats},
			{"lightwork_buyer_reserved_msats", "gauge", "Msats of payments that are under way or held.", t.ReservedMsats},
			{"lightwork_buyer_unknown_msats", "gauge", "Msats that purchases may have cost which were given up with their wallet.", t.UnknownMsats},
		} {
			metric(m.name, m.kind, m.help)
			fmt.Fprintf(s.Out, "%s %d\n", m.name, m.value)
		}

		return nil
	})
}
