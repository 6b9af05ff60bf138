package main

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/payments"
)

type buyerMetricsCmd struct{}

// Help is shown below the flags.
func (buyerMetricsCmd) Help() string {
	return "A buyer has no process of its own to be scraped: run this by a timer, and put what it prints where node_exporter's textfile collector reads."
}

// Run prints, in Prometheus' text form, what was bought and spent. No label has
// a value that a provider chooses.
func (buyerMetricsCmd) Run(ctx context.Context, s *streams, g *globals) error {
	return readBuyer(ctx, s, g, func(store *kernel.BuyerStore) error {
		list, err := purchases(ctx, store, 0)
		if err != nil {
			return err
		}
		states := map[string]int{}
		var paid, fees, held, refunded, unknown int64
		for _, p := range list {
			states[string(p.State)]++
			refunded += p.RefundMsats
			unknown += p.GivenUpMsats()
			switch {
			case p.Payment != nil && p.Payment.State == payments.PaymentSucceeded:
				paid, fees = paid+p.Payment.AmountMsats, fees+p.Payment.FeeMsats
			case p.Attempt != nil && !p.State.Terminal() && !p.GivenUp():
				held += p.Attempt.AmountMsats
			}
		}
		metric := func(name, kind, help string) {
			fmt.Fprintf(s.out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		}
		metric("lightwork_buyer_purchases", "gauge", "Purchases by state.")
		for _, state := range sortedKeys(states) {
			fmt.Fprintf(s.out, "lightwork_buyer_purchases{state=%q} %d\n", state, states[state])
		}
		for _, m := range []struct {
			name, kind, help string
			value            int64
		}{
			{"lightwork_buyer_paid_msats_total", "counter", "Msats paid for jobs, routing fees apart.", paid},
			{"lightwork_buyer_fees_msats_total", "counter", "Routing fees of payments.", fees},
			{"lightwork_buyer_refunded_msats_total", "counter", "Msats that came back of prepaid jobs.", refunded},
			{"lightwork_buyer_reserved_msats", "gauge", "Msats of payments that are under way or held.", held},
			{"lightwork_buyer_unknown_msats", "gauge", "Msats that purchases may have cost which were given up with their wallet.", unknown},
		} {
			metric(m.name, m.kind, m.help)
			fmt.Fprintf(s.out, "%s %d\n", m.name, m.value)
		}
		return nil
	})
}
