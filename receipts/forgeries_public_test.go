package receipts_test

import (
	"strings"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/receipts"
)

// recombined are receipts of payments that were never made, or not to this provider
// or for this job. Their maker has what anybody can have, other sales' bundles and
// what this provider said in public, and signs with keys of its own. It can order
// from the provider, so that any text of its can stand in a result of the
// provider's. Each says with which words both verifiers refuse it.
func recombined() []scenario {
	forger := person("forger")
	sale, fee := recipe{}.make(), recipe{fee: true}.make()
	elsewhere := recipe{document: strings.Replace(requestDoc, "make check", "make test", 1), buyer: person("another buyer")}
	other := elsewhere.make()
	elsewhere.fee = true
	otherFee := elsewhere.make()
	// What the forger ordered itself, and never paid for: the provider signed the
	// request for payment.
	unpaid := recipe{buyer: forger, fee: true}
	secret := payments.Preimage{0xfe}
	forgersPin := func(p *receipts.Pins) { p.Buyer = xOnly(forger) }

	// text is a result of the provider's that repeats what it was told to say.
	text := func(content string, tags ...[]string) []byte {
		ev := receipts.Event{Kind: 6050, CreatedAt: settled, Content: content, Tags: append(tags, domain.Result.Tag())}
		sign(&ev, person("provider"))
		return ev.JSON()
	}
	own := func(content string, tags ...[]string) []byte {
		ev := receipts.Event{Kind: 7000, CreatedAt: settled, Content: content, Tags: append(tags, domain.Quote.Tag())}
		sign(&ev, forger)
		return ev.JSON()
	}
	names := func(m made) [][]string { return [][]string{{"e", m.request.ID}, {"p", m.quote.Buyer}} }

	var all []scenario
	add := func(name, about string, r recipe, pins func(*receipts.Pins), because map[string]string) {
		all = append(all, scenario{name: "forged_" + name, about: about, recipe: r, pins: pins, measured: true, because: because})
	}
	r := unpaid
	r.signReceipt = forger
	r.receipt = func(rec *receipts.Receipt) { rec.PaymentProof.Value = secret.String() }
	add("unpaid_fee", "a fee that the provider asked for and nobody paid: its buyer wrote the receipt", r, forgersPin, map[string]string{
		receipts.ClaimSignature: "its author is provider_id", receipts.ClaimPreimage: "its SHA-256 is payment_hash",
	})
	r.signReceipt = nil
	r.finished = func(b *receipts.Bundle) {
		m := unpaid.make()
		b.ReceiptEvent = text(string(b.Receipt), names(m)...)
	}
	add("unpaid_fee_in_a_result", "the same, and the provider was made to repeat the receipt in a result", r, forgersPin, map[string]string{
		receipts.ClaimSignature: "its domain is that of the document", receipts.ClaimPreimage: "its SHA-256 is payment_hash",
	})
	// A quote, an invoice and a preimage of the forger's own, over any sum.
	r = recipe{
		fee: true, node: forger, network: payments.Mainnet,
		invoice: func(inv *bolt11.Invoice) { inv.Network = payments.Mainnet },
	}
	mainnet := func(p *receipts.Pins) { p.Network, p.Payee = payments.Mainnet, "" }
	r.finished = func(b *receipts.Bundle) {
		b.ReceiptEvent = text(string(b.Receipt), names(fee)...)
		b.QuoteEvent = text(string(b.Quote), names(fee)...)
	}
	add("own_invoice_in_results", "quote, invoice and receipt are the forger's own, and results of the provider's repeat them", r, mainnet, map[string]string{
		receipts.ClaimSignature: "its domain is that of the document", receipts.ClaimInvoiceCommits: "its domain is that of the document",
	})
	r.finished = func(b *receipts.Bundle) {
		rec := must(receipts.ParseReceipt(b.Receipt))
		b.ReceiptEvent = text(string(b.Receipt), names(fee)...)
		b.QuoteEvent = own(string(b.Quote), []string{"status", "payment-required"}, []string{"e", fee.request.ID}, []string{"p", fee.quote.Buyer}, []string{"amount", "21000", rec.BOLT11})
	}
	add("own_demand", "the forger asks for the payment itself, in the provider's name", r, mainnet, map[string]string{
		receipts.ClaimSignature: "its domain is that of the document", receipts.ClaimInvoiceCommits: "the provider asks in it for this price, by this quote and this invoice",
	})
	// Documents of other sales.
	splice := func(name, about string, of recipe, finished func(*receipts.Bundle), because map[string]string) {
		of.finished = finished
		add(name, about, of, nil, because)
	}
	splice("fee_with_another_demand", "a fee's receipt, with the demand for another fee", recipe{fee: true},
		func(b *receipts.Bundle) { b.QuoteEvent = otherFee.bundle.QuoteEvent },
		map[string]string{receipts.ClaimInvoiceCommits: "the provider asks in it for this price, by this quote and this invoice"})
	splice("fee_with_a_sales_demand", "a fee's receipt, with the demand for the price of a result", recipe{fee: true},
		func(b *receipts.Bundle) { b.QuoteEvent = recipe{asked: true}.make().bundle.QuoteEvent },
		map[string]string{receipts.ClaimInvoiceCommits: "the provider asks in it for this price, by this quote and this invoice"})
	splice("another_sales_quote", "one sale's receipt, with another's quote", recipe{},
		func(b *receipts.Bundle) { b.Quote = other.bundle.Quote },
		map[string]string{receipts.ClaimInvoiceCommits: "its hash is quote_hash"})
	splice("another_sales_work", "one sale's receipt, with the result and the record of another", recipe{},
		func(b *receipts.Bundle) {
			b.ResultEvent, b.Result, b.Replay, b.PRSummary, b.Artifacts = other.bundle.ResultEvent, other.bundle.Result, other.bundle.Replay, other.bundle.PRSummary, other.bundle.Artifacts
		},
		map[string]string{receipts.ClaimResult: "its id is result_event_id", receipts.ClaimTrajectory: "hashes are the receipt's"})
	splice("another_sales_receipt", "another sale's receipt event under this one's receipt", recipe{},
		func(b *receipts.Bundle) { b.ReceiptEvent = other.bundle.ReceiptEvent },
		map[string]string{receipts.ClaimSignature: "its content is RECEIPT.json, byte for byte"})
	splice("fee_as_a_sale", "a fee's receipt event under the receipt of the result", recipe{},
		func(b *receipts.Bundle) { b.ReceiptEvent = fee.bundle.ReceiptEvent },
		map[string]string{receipts.ClaimSignature: "its content is RECEIPT.json, byte for byte"})
	splice("another_buyers_order", "somebody else ordered the same, and shows the receipt as its own", recipe{},
		func(b *receipts.Bundle) { b.Request = recipe{buyer: forger}.make().bundle.Request },
		map[string]string{receipts.ClaimJob: "its id is request_event_id"})
	// Words of the receipt changed: the event stays the provider's.
	for _, c := range []struct{ name, about, from, to string }{
		{"raised_amount", "the amount is a thousand times what was paid", `"amount_msats":21000`, `"amount_msats":21000000`},
		{"another_party", "the forger names itself as the buyer", sale.receipt.BuyerID, must(receipts.Npub(xOnly(forger)))},
		{"another_job", "the receipt is said to be of another request", sale.request.ID, other.request.ID},
		{"another_result", "the receipt is said to be for another result", sale.result.ID, other.result.ID},
	} {
		splice(c.name, c.about, recipe{}, func(b *receipts.Bundle) {
			b.Receipt = []byte(strings.Replace(string(b.Receipt), c.from, c.to, 1))
		}, map[string]string{receipts.ClaimSignature: "its content is RECEIPT.json, byte for byte"})
	}
	// The forger as the provider of somebody else's sale, and its own node as payee.
	r = recipe{provider: forger}
	add("in_another_name", "a sale of the forger's own to itself, for a reader who knows the provider", r, nil, map[string]string{
		receipts.ClaimSignature: "the provider is the pinned one",
	})
	r = recipe{node: forger, signReceipt: forger}
	r.finished = func(b *receipts.Bundle) { b.Quote = sale.bundle.Quote }
	add("own_node", "an invoice of the forger's own node, which commits to a quote that names it, beside the provider's true quote", r, nil, map[string]string{
		receipts.ClaimSignature: "its author is provider_id", receipts.ClaimInvoiceCommits: "its hash is quote_hash", receipts.ClaimPayeePinned: "the payee is the pinned one",
	})
	return all
}
