package receipts_test

import (
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestDisputeOnTheChain: it names what to ask a node for, and never rules that
// the money moved.
func TestDisputeOnTheChain(t *testing.T) {
	m := recipe{network: payments.Signet.OnChain(), mode: receipts.ModePrepay}.make()
	quote := receipts.Event{Kind: 7000, CreatedAt: quoted, Content: string(m.bundle.Quote), Tags: [][]string{{"status", "payment-required"}, {"e", m.request.ID}, domain.Quote.Tag()}}
	sign(&quote, person("provider"))
	good := receipts.ChainPayment{Outputs: strings.Repeat("ab", 32) + ":1", Sats: 1_000_000, Confirmations: 3}
	file := func(change func(*receipts.ChainPayment)) []byte {
		c := good
		change(&c)
		doc, err := c.File()
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	rule := func(outputs []byte, invoice string) receipts.Ruling {
		d := &receipts.Dispute{Request: m.request.JSON(), QuoteEvent: quote.JSON(), Invoice: []byte(invoice + "\n"), Outputs: outputs, Result: m.result.JSON()}
		return d.Rule(receipts.Pins{})
	}
	r := rule(file(func(*receipts.ChainPayment) {}), m.bolt11)
	if r.Verdict != receipts.VerdictOpen || r.ExitCode() != receipts.ExitNotProvable || r.Chain == nil || r.Chain.Sats != good.Sats ||
		!strings.Contains(r.Reason, "whether "+good.Outputs+" pays "+r.Chain.Address+" 1000000 sat, with at least 3 confirmations") {
		t.Errorf("%+v", r)
	}
	other := recipe{network: payments.Signet.OnChain(), mode: receipts.ModePrepay, invoice: func(inv *bolt11.Invoice) { inv.AmountMsats++ }}.make()
	for name, got := range map[string]receipts.Ruling{
		"less than the price":   rule(file(func(c *receipts.ChainPayment) { c.Sats = 1 }), m.bolt11),
		"no output":             rule(file(func(c *receipts.ChainPayment) { c.Outputs = strings.Repeat("ab", 32) }), m.bolt11),
		"no confirmations":      rule(file(func(c *receipts.ChainPayment) { c.Confirmations = 0 }), m.bolt11),
		"a further field":       rule([]byte(`{"outputs":"`+good.Outputs+`","amount_sats":1000000,"confirmations":3,"proved":true}`), m.bolt11),
		"an address of its own": rule([]byte(`{"outputs":"`+good.Outputs+`","amount_sats":1000000,"confirmations":3,"address":"tb1"}`), m.bolt11),
		"another invoice":       rule(file(func(*receipts.ChainPayment) {}), other.bolt11),
		"no invoice":            rule(file(func(*receipts.ChainPayment) {}), ""),
	} {
		if last := got.Findings[len(got.Findings)-1]; got.Chain != nil || last.State != receipts.Failed || got.Verdict != receipts.VerdictOpen {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
