package receipts_test

import (
	"strings"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/receipts"
)

const (
	someMint    = payments.Network("cashu:mint.example.com:3338/Bitcoin")
	anotherMint = payments.Network("cashu:other.example")
)

// paidInNotes are bundles of payments in notes of a mint.
func paidInNotes() []scenario {
	const pre, amount, commits, payee = receipts.ClaimPreimage, receipts.ClaimAmount, receipts.ClaimInvoiceCommits, receipts.ClaimPayeePinned
	mint := func(p *receipts.Pins) { p.Network = someMint }
	paid := func(change func(*receipts.Receipt)) recipe { return recipe{network: someMint, receipt: change} }
	terms := func(change func(*bolt11.Ecash)) recipe {
		return recipe{network: someMint, invoice: func(inv *bolt11.Invoice) { change(inv.Ecash) }}
	}
	return []scenario{
		{name: "valid_cashu", about: "paid in notes of a mint", recipe: recipe{network: someMint}, pins: mint},
		{name: "valid_cashu_prepay", about: "paid beforehand in notes of a mint", recipe: recipe{network: someMint, mode: receipts.ModePrepay}, pins: mint},
		{
			name: "cashu_as_lightning", about: "notes of a mint, with the proof of a Lightning payment", pins: mint,
			recipe: paid(func(r *receipts.Receipt) { r.PaymentProof.Type = receipts.ProofLightningPreimage }), want: failed(pre),
		},
		{
			name: "cashu_rail_lightning", about: "notes of a mint, said to have moved on Lightning", pins: mint,
			recipe: paid(func(r *receipts.Receipt) { r.Rail = payments.RailLightning }), want: failed(amount, receipts.ClaimTrajectory),
		},
		{
			name: "cashu_called_bitcoin", about: "notes of a mint, called bitcoin on Lightning", pins: mint,
			recipe: paid(func(r *receipts.Receipt) { r.AssetID = "BTC_LN" }), want: failed(amount, receipts.ClaimTrajectory),
		},
		{
			name: "cashu_of_another_mint", about: "the receipt names another mint than the invoice", pins: mint,
			recipe: paid(func(r *receipts.Receipt) { r.AssetID = payments.AssetID(anotherMint) }), want: failed(amount, receipts.ClaimTrajectory),
		},
		{
			name: "cashu_another_mint_pinned", about: "the reader trusts another mint", recipe: recipe{network: someMint},
			pins: func(p *receipts.Pins) { p.Network = anotherMint }, want: failed(amount),
		},
		{name: "cashu_not_pinned_bitcoin", about: "the reader expects bitcoin", recipe: recipe{network: someMint}, pins: func(p *receipts.Pins) { p.Network = payments.Mainnet }, want: failed(amount)},
		{
			name: "lightning_as_cashu", about: "a Lightning payment with the proof of a mint's notes",
			recipe: recipe{receipt: func(r *receipts.Receipt) { r.PaymentProof.Type = receipts.ProofCashu }}, want: failed(pre),
		},
		{
			name: "cashu_preimage_of_another_payment", about: "a preimage that opens other notes", pins: mint,
			recipe: paid(func(r *receipts.Receipt) { r.PaymentProof.Value = payments.Preimage{1}.String() }), want: failed(pre),
		},
		{name: "valid_cashu_longest_lock", about: "notes locked for a week over four relays", pins: mint, recipe: terms(func(e *bolt11.Ecash) {
			e.LockSeconds, e.Relays = 7*24*3600, []string{"ws://1", "wss://2", "wss://3/x", "wss://\u00e9"}
		})},
		{
			name: "cashu_invoice_of_lightning", about: "the notes' invoice with the prefix of the main network", pins: mint,
			recipe: paid(func(r *receipts.Receipt) { r.BOLT11 = strings.Replace(r.BOLT11, "lncashu", "lnbc", 1) }),
			want:   failed(pre, amount, commits, payee),
		},
	}
}
