package receipts_test

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/receipts"
)

func forgedPayment() []scenario {
	const pre, amount, commits, payee, accepted = receipts.ClaimPreimage, receipts.ClaimAmount, receipts.ClaimInvoiceCommits, receipts.ClaimPayeePinned, receipts.ClaimBuyerAccepted
	zero := payments.Preimage{}
	return []scenario{
		{
			name: "preimage_zero", about: "an all-zero preimage with a payment hash that fits",
			recipe: recipe{
				quote:      func(q *receipts.Quote) { h := zero.Hash().String(); q.PaymentHash = &h },
				invoice:    func(inv *bolt11.Invoice) { inv.PaymentHash = zero.Hash() },
				acceptance: func(a *receipts.Acceptance) { a.PaymentHash = zero.Hash().String() },
				receipt: func(r *receipts.Receipt) {
					r.PaymentHash, r.PaymentProof.Value = zero.Hash().String(), zero.String()
					r.ReceiptID = receipts.NewReceiptID(r.QuoteHash, zero.Hash())
				},
			},
			want: failed(pre),
		},
		{
			name: "preimage_of_another_payment", about: "a preimage that opens something else",
			recipe: recipe{receipt: func(r *receipts.Receipt) { r.PaymentProof.Value = payments.Preimage{1}.String() }}, want: failed(pre),
		},
		{
			name: "invoice_of_another_payment", about: "an invoice for the same quote and amount with another payment hash",
			recipe: recipe{invoice: func(inv *bolt11.Invoice) { inv.PaymentHash = otherHash() }}, want: failed(pre),
		},
		{
			name: "proof_of_another_type", about: "a proof that this version does not check is not taken for one that it does",
			recipe: recipe{receipt: func(r *receipts.Receipt) { r.PaymentProof.Type = receipts.ProofOnchainTxid }}, want: failed(pre),
		},
		{
			name: "invoice_for_another_quote", about: "the invoice commits to another quote",
			recipe: recipe{invoice: func(inv *bolt11.Invoice) { d := hashing.Bytes([]byte("other")); inv.DescriptionHash = &d }}, want: failed(commits),
		},
		{
			name: "invoice_with_plain_description", about: "the invoice commits to no quote",
			recipe: recipe{invoice: func(inv *bolt11.Invoice) { inv.DescriptionHash, inv.Description = nil, "coffee" }}, want: failed(commits),
		},
		{
			name: "invoice_amount", about: "the invoice asked for less than the receipt says",
			recipe: recipe{invoice: func(inv *bolt11.Invoice) { inv.AmountMsats = price - 1 }}, want: failed(amount),
		},
		{
			name: "invoice_without_amount", about: "the invoice left the amount open",
			recipe: recipe{invoice: func(inv *bolt11.Invoice) { inv.AmountMsats = 0 }}, want: failed(amount),
		},
		{
			name: "receipt_amount", about: "the receipt says more than was quoted and paid",
			recipe: recipe{receipt: func(r *receipts.Receipt) { r.AmountMsats++ }},
			want:   failed(amount, commits, accepted, receipts.ClaimTrajectory),
		},
		{
			name: "play_money_as_bitcoin", about: "an invoice of the play-money ledger, called bitcoin",
			recipe: recipe{receipt: func(r *receipts.Receipt) { r.AssetID = "BTC_LN" }}, want: failed(amount, receipts.ClaimTrajectory),
		},
		{
			name: "another_network_pinned", about: "the reader expects real money",
			pins: func(p *receipts.Pins) { p.Network = payments.Mainnet }, want: failed(amount),
		},
		{
			name: "rail", about: "another rail than the invoice's",
			recipe: recipe{receipt: func(r *receipts.Receipt) { r.Rail = payments.RailOnChain }}, want: failed(amount, receipts.ClaimTrajectory),
		},
		{
			name: "bolt11_garbage", about: "the invoice is none",
			recipe: recipe{receipt: func(r *receipts.Receipt) { r.BOLT11 = "lnbc1qqqqqq" }}, want: failed(pre, amount, commits, payee),
		},
	}
}

// nameless is a quote without its payment hash, as a text.
func nameless(quote []byte) []byte {
	return regexp.MustCompile(`"payment_hash":"[0-9a-f]{64}"`).ReplaceAll(quote, []byte(`"payment_hash":null`))
}

// promises has a quote promise what is kept; change may make it another promise.
func promises(change func(*receipts.Retention)) func(*receipts.Quote) {
	const day = 24 * 3_600_000
	return func(q *receipts.Quote) {
		q.Retention = &receipts.Retention{
			DisputeMs: 7 * day, ResultsMs: 90 * day, ArtifactsMs: 14 * day, JournalsMs: 30 * day, BlobsMs: 7 * day, EventsMs: 30 * day,
		}
		apply(change, q.Retention)
	}
}

// retold replaces a part of a document.
func retold(was, is string) func([]byte) []byte {
	return func(doc []byte) []byte {
		if !bytes.Contains(doc, []byte(was)) {
			panic("the document has no " + was)
		}
		return bytes.Replace(doc, []byte(was), []byte(is), 1)
	}
}

func forgedQuote() []scenario {
	const amount, commits, payee, accepted = receipts.ClaimAmount, receipts.ClaimInvoiceCommits, receipts.ClaimPayeePinned, receipts.ClaimBuyerAccepted
	return []scenario{
		{
			name: "valid_retention", about: "the quote promises what is kept: the trajectory for ever",
			recipe: recipe{quote: promises(nil)},
		},
		{
			name: "quote_retention_short", about: "the quote promises to keep artifacts for less than the dispute window",
			recipe: recipe{quote: promises(nil), quoteDoc: retold(`"artifacts_ms":1209600000`, `"artifacts_ms":604799999`)},
			want:   states{amount: receipts.NotProvable, commits: receipts.Failed, accepted: receipts.Failed},
		},
		{
			name: "quote_retention_zero", about: "the quote says 0 where null stands for ever",
			recipe: recipe{quote: promises(nil), quoteDoc: retold(`"trajectories_ms":null`, `"trajectories_ms":0`)},
			want:   states{amount: receipts.NotProvable, commits: receipts.Failed, accepted: receipts.Failed},
		},
		{
			name: "quote_retention_without_window", about: "the quote promises what is kept, and names no dispute window",
			recipe: recipe{quote: promises(nil), quoteDoc: retold(`"dispute_window_ms":604800000,`, ``)},
			want:   states{amount: receipts.NotProvable, commits: receipts.Failed, accepted: receipts.Failed},
		},
		{
			name: "quote_price", about: "the quote had another price",
			recipe: recipe{quote: func(q *receipts.Quote) { q.PriceMsats = 2 * price }},
			want:   failed(amount, commits, accepted),
		},
		{
			name: "held_without_payment_hash", about: "a payment cannot be held for a quote that names no payment hash",
			recipe: recipe{asked: true, quoteDoc: nameless},
			want:   states{amount: receipts.NotProvable, commits: receipts.Failed, accepted: receipts.Failed},
		},
		{
			name: "sealed_without_payment_hash", about: "no key of boxes follows from a quote that names no payment hash",
			recipe: recipe{mode: receipts.ModePostpay, seal: true, asked: true, quoteDoc: nameless},
			want:   states{amount: receipts.NotProvable, commits: receipts.Failed, accepted: receipts.Failed},
		},
		{
			name: "quote_swapped", about: "another quote of the same provider for the same job",
			recipe: recipe{finished: func(b *receipts.Bundle) {
				b.Quote = recipe{quote: func(q *receipts.Quote) { q.Nonce = strings.Repeat("0", 32) }}.make().bundle.Quote
			}},
			want: states{commits: receipts.Failed, amount: receipts.NotProvable},
		},
		{
			name: "quote_for_another_request", about: "the quote that was paid is for another request",
			recipe: recipe{quote: func(q *receipts.Quote) { q.RequestID = strings.Repeat("cd", 32) }}, want: failed(commits, accepted),
		},
		{
			name: "quote_for_another_job", about: "the quote that was paid is for another job",
			recipe: recipe{quote: func(q *receipts.Quote) { q.JobHash[0]++ }}, want: failed(commits),
		},
		{
			name: "quote_for_another_schema", about: "the quote that was paid is for another job type",
			recipe: recipe{quote: func(q *receipts.Quote) { q.SchemaID = "oa.embedding.v1" }}, want: failed(commits),
		},
		{
			name: "quote_of_another_provider", about: "the quote that was paid names another provider",
			recipe: recipe{quote: func(q *receipts.Quote) { q.Provider = xOnly(person("stranger")) }}, want: failed(commits),
		},
		{
			name: "quote_of_another_policy", about: "the quote that was paid names another policy",
			recipe: recipe{quote: func(q *receipts.Quote) { q.PolicyBundleID[0]++ }}, want: failed(commits),
		},
		{
			name: "quote_of_another_delivery", about: "quoted as sealed, receipted as plain",
			recipe: recipe{quote: func(q *receipts.Quote) { q.Delivery = receipts.DeliverySealed }}, want: failed(commits),
		},
		{
			name: "quote_of_another_payment", about: "the quote names another payment hash than the invoice",
			recipe: recipe{quote: func(q *receipts.Quote) { h := otherHash().String(); q.PaymentHash = &h }}, want: failed(commits),
		},
		{
			name: "quote_to_another_buyer", about: "the quote that was paid is for another buyer",
			recipe: recipe{quote: func(q *receipts.Quote) { q.Buyer = xOnly(person("stranger")) }}, want: failed(commits),
		},
		{
			name: "quote_of_another_mode", about: "quoted as hold, receipted as prepay",
			recipe: recipe{receipt: func(r *receipts.Receipt) { r.Mode = receipts.ModePrepay }}, want: failed(commits, receipts.ClaimTrajectory),
		},
		{
			name: "quote_of_another_node", about: "the quote names another node than the invoice's",
			recipe: recipe{quote: func(q *receipts.Quote) { n := compressed(person("stranger")); q.PayeeNode = &n }},
			want:   failed(commits, payee),
		},
	}
}

func forgedPayee() []scenario {
	const commits, payee = receipts.ClaimInvoiceCommits, receipts.ClaimPayeePinned
	return []scenario{
		{
			name: "payee_not_the_signer", about: "the receipt names a node that did not sign the invoice",
			recipe: recipe{receipt: func(r *receipts.Receipt) { r.PayeeNode = compressed(person("stranger")) }}, want: failed(commits, payee),
		},
		{
			name: "payee_of_a_vague_quote", about: "the quote names no node, and the receipt one that did not sign the invoice",
			recipe: recipe{
				quote:   func(q *receipts.Quote) { q.PayeeNode = nil },
				receipt: func(r *receipts.Receipt) { r.PayeeNode = compressed(person("stranger")) },
			},
			want: failed(payee),
		},
		{
			name: "another_payee_pinned", about: "the invoice is of another node than the reader knows",
			pins: func(p *receipts.Pins) { p.Payee = compressed(person("stranger")) }, want: failed(payee),
		},
	}
}
