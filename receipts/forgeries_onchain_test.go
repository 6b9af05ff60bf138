package receipts_test

import (
	"bytes"
	"strings"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/receipts"
)

// paidOnChain are bundles of payments by transactions. None is proved offline.
func paidOnChain() []scenario {
	const pre, amount, trajectory = receipts.ClaimPreimage, receipts.ClaimAmount, receipts.ClaimTrajectory
	someChain := payments.Signet.OnChain()
	chain := func(p *receipts.Pins) { p.Network = someChain }
	paid := func(change func(*receipts.Receipt)) recipe {
		return recipe{network: someChain, mode: receipts.ModePrepay, receipt: change}
	}
	proof := func(value string) recipe {
		return paid(func(r *receipts.Receipt) { r.PaymentProof.Value = value })
	}
	address := func(change func(*bolt11.Invoice)) recipe {
		r := paid(nil)
		r.invoice = change
		return r
	}
	unproved := states{pre: receipts.NotProvable}
	other := strings.Repeat("cd", 32) + ":0"
	wrong := func(name, about, value string) scenario {
		return scenario{name: name, about: about, recipe: proof(value), pins: chain, want: failed(pre)}
	}
	return []scenario{
		{name: "onchain", about: "paid by a transaction, which only the chain shows", recipe: paid(nil), pins: chain, want: unproved},
		{
			name: "onchain_mainnet", about: "paid by a transaction on the main network", want: unproved,
			recipe: recipe{network: payments.Mainnet.OnChain(), mode: receipts.ModePrepay}, pins: func(p *receipts.Pins) { p.Network = payments.Mainnet.OnChain() },
		},
		{name: "onchain_two_outputs", about: "paid in two parts", recipe: proof(someOutput + "," + other), pins: chain, want: unproved},
		{
			name: "onchain_taproot", about: "paid to a taproot address", pins: chain, want: unproved,
			recipe: address(func(inv *bolt11.Invoice) {
				inv.Fallbacks = []bolt11.Fallback{{Version: 1, Program: bytes.Repeat([]byte{9}, 32)}}
			}),
		},
		wrong("onchain_no_index", "a transaction without the output's index", strings.Repeat("ab", 32)),
		wrong("onchain_upper_case", "a transaction in another spelling", strings.ToUpper(someOutput)),
		wrong("onchain_index_too_high", "an output that no transaction has", strings.Repeat("ab", 32)+":4294967296"),
		wrong("onchain_outputs_unsorted", "two outputs in the wrong order", other+","+someOutput),
		wrong("onchain_output_twice", "one output, named twice", someOutput+","+someOutput),
		wrong("onchain_preimage", "a preimage for a transaction", preimage().String()),
		{
			name: "onchain_as_lightning", about: "a transaction, with the proof of a Lightning payment", pins: chain,
			recipe: paid(func(r *receipts.Receipt) {
				r.PaymentProof = receipts.PaymentProof{Type: receipts.ProofLightningPreimage, Value: preimage().String()}
			}), want: failed(pre),
		},
		{
			name: "onchain_without_address", about: "said to be paid on the chain, by an invoice that names no address", pins: chain,
			recipe: address(func(inv *bolt11.Invoice) { inv.Fallbacks = nil }), want: failed(pre, amount),
		},
		{
			name: "onchain_two_addresses", about: "an invoice that names two addresses", pins: chain,
			recipe: address(func(inv *bolt11.Invoice) { inv.Fallbacks = append(inv.Fallbacks, inv.Fallbacks[0]) }), want: failed(pre, amount),
		},
		{
			name: "onchain_old_address", about: "an address that is not segwit", pins: chain,
			recipe: address(func(inv *bolt11.Invoice) { inv.Fallbacks[0].Version = 17 }), want: failed(pre, amount),
		},
		{
			name: "onchain_called_lightning", about: "the receipt calls the money bitcoin on Lightning", pins: chain,
			recipe: paid(func(r *receipts.Receipt) { r.AssetID = "BTC_LN(signet)" }), want: states{pre: receipts.NotProvable, amount: receipts.Failed, trajectory: receipts.Failed},
		},
		{
			name: "onchain_held", about: "a transaction that is said to have been held", pins: chain,
			recipe: recipe{network: someChain}, want: failed(pre),
		},
		{
			name: "onchain_lightning_pinned", about: "the reader expects Lightning", recipe: paid(nil),
			pins: func(p *receipts.Pins) { p.Network = payments.Signet }, want: states{pre: receipts.NotProvable, amount: receipts.Failed},
		},
		{
			name: "valid_invoice_names_address", about: "paid over Lightning, by an invoice that could be paid on the chain too",
			recipe: recipe{network: payments.Simnet, invoice: func(inv *bolt11.Invoice) {
				inv.Fallbacks = []bolt11.Fallback{{Version: 0, Program: bytes.Repeat([]byte{7}, 20)}}
			}}, pins: func(p *receipts.Pins) { p.Network = payments.Simnet },
		},
	}
}
