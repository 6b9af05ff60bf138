package receipts

import (
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// preimage grades claim 5: the preimage of the invoice is known.
func (v *verifier) preimage(g grader) {
	rec := v.receipt
	// 5.1
	proof := proofOf(v.network().Rail())
	g.step("5.1", "the proof is the rail's: lightning_preimage, cashu_proof or onchain_txid", match("payment_proof.type", rec.PaymentProof.Type, proof))
	if g.isOver() {
		return
	}
	if proof == ProofOnchainTxid {
		v.outputs(g)
		return
	}

	// 5.2
	preimage, err := payments.ParsePreimage(rec.PaymentProof.Value)
	if err == nil && preimage.IsZero() {
		err = fmt.Errorf("%w: all zero, which wallets report for payments that never left them", ErrInvalid)
	}
	g.step("5.2", "the preimage is 32 bytes and not all zero", err)

	// 5.3
	g.step("5.3", "its SHA-256 is payment_hash", match("sha256(preimage)", preimage.Hash().String(), rec.PaymentHash))

	// 5.4
	if g.step("5.4", "bolt11 decodes, and its signature is valid", escapeError(v.invoiceErr)) {
		// 5.5
		g.step("5.5", "payment_hash is the invoice's", match("payment_hash", v.invoice.PaymentHash.String(), rec.PaymentHash))
	}

	reason := "the preimage opens the invoice's payment hash"
	if rec.Mode == ModePostpay {
		reason += "; " + postpayNote
	}
	g.prove(reason)
}

// network is where the money moved: the invoice's network, or its chain if the receipt
// says so and the invoice names an address; "" if the invoice does not decode.
func (v *verifier) network() payments.Network {
	if v.invoiceErr != nil {
		return ""
	}
	if v.receipt.Rail == payments.RailOnChain {
		if _, err := v.invoice.ChainAddress(); err == nil {
			return v.invoice.Network.OnChain()
		}
	}
	return v.invoice.Network
}

// amount grades claim 6: invoice, quote and receipt name the same amount of the same
// money.
func (v *verifier) amount(g grader) {
	rec := v.receipt

	// 6.1
	if !g.step("6.1", "bolt11 decodes, and its signature is valid", escapeError(v.invoiceErr)) {
		return
	}

	// 6.2 to 6.4
	network := v.network()
	g.step("6.2", "the rail is that of the invoice's network, or onchain where it names one address", match("rail", rec.Rail, network.Rail()))
	g.step("6.3", "asset_id is that of the invoice's network", match("asset_id", rec.AssetID, payments.AssetID(network)))
	g.step("6.4", "amount_msats is the invoice's", match("amount_msats", rec.AmountMsats, v.invoice.AmountMsats))

	// 6.5
	q, err := v.quote()
	if err == nil {
		err = match("amount_msats", rec.AmountMsats, q.PriceMsats)
	}
	g.step("6.5", "amount_msats is the price of the quote", err)

	// 6.6
	g.pin("6.6", "network", string(network), string(v.pins.Network))
	g.prove(fmt.Sprintf("%d msats of %s in invoice, quote and receipt", rec.AmountMsats, rec.AssetID))
}

// invoiceCommits grades claim 7: paying this invoice meant accepting this quote.
func (v *verifier) invoiceCommits(g grader) {
	rec := v.receipt

	// 7.1
	if !g.step("7.1", "bolt11 decodes, and its signature is valid", escapeError(v.invoiceErr)) {
		return
	}

	// 7.2
	if v.invoice.DescriptionHash == nil {
		g.step("7.2", "the invoice's description_hash is quote_hash", fmt.Errorf("%w: the invoice has none", ErrMismatch))
		return
	}

	g.step("7.2", "the invoice's description_hash is quote_hash", match("description_hash", *v.invoice.DescriptionHash, rec.QuoteHash))
	v.quoteDocument(g)
	v.quoteSigned(g)
	reason := "the invoice's description hash is the hash of the quote, which names this job, both parties and the price"
	if v.offer.PaymentHash == nil {
		reason += "; " + noHashNote
	}
	g.prove(reason)
}

// quoteDocument makes steps 7.3 to 7.6 on the quote.
func (v *verifier) quoteDocument(g grader) {
	rec := v.receipt

	// 7.3
	if v.bundle.Quote == nil {
		g.step("7.3", FileQuote+" is in the bundle and valid", missing("it is not in the bundle"))
		return
	}
	q := v.offer
	if !g.step("7.3", FileQuote+" is in the bundle and valid", v.offerErr) {
		return
	}

	// 7.4
	g.step("7.4", "its hash is quote_hash", match("the hash of "+FileQuote, hashing.Bytes(v.bundle.Quote), rec.QuoteHash))

	// 7.5
	g.step("7.5", "it offers this job, to this buyer, on these terms", v.quoteTerms(q))

	// 7.6
	var err error
	switch {
	case q.PaymentHash != nil:
		err = match("payment_hash", *q.PaymentHash, rec.PaymentHash)
	case v.bundle.QuoteEvent == nil:
		err = missing("it names none, since the wallet chose the preimage later, and " + FileQuoteEvent + ", which names the invoice, is not in the bundle")
	}

	g.step("7.6", "it names the payment hash, or none and "+FileQuoteEvent+" names the invoice", err)
}

// noHashNote says what is not proved if the quote has no payment hash.
const noHashNote = "weaker, as the quote names no payment hash: that the provider asked for it by no other invoice is not shown"

// quoteSigned makes steps 7.7 to 7.9 on the event in which the provider asked for
// payment. Usually the result event proves the invoice: it names the quote, and the
// quote names the payment hash. An engagement fee has no result event, and some quotes
// have no hash; then only this event shows that the invoice was the provider's.
func (v *verifier) quoteSigned(g grader) {
	rec := v.receipt
	if v.bundle.QuoteEvent == nil && !rec.isEngagement() {
		return
	}

	// 7.7, 7.8
	ev := g.event("7.7", "7.8", FileQuoteEvent, v.bundle.QuoteEvent, requireDomain(domain.Quote))
	if ev == nil {
		return
	}

	// 7.9
	g.step("7.9", "the provider asks in it for this price, by this quote and this invoice", demand{
		provider: v.provider, buyer: v.buyer, request: rec.RequestEventID, quote: rec.QuoteHash, msats: rec.AmountMsats, bolt11: rec.BOLT11,
	}.checkEvent(*ev))
}

func (v *verifier) quoteTerms(q Quote) error {
	rec := v.receipt
	return firstMismatch(
		match("request_id", q.RequestID, rec.RequestEventID),
		match("job_hash", q.JobHash, rec.JobHash),
		match("schema_id", q.SchemaID, rec.SchemaID),
		match("buyer", q.Buyer, v.buyer),
		match("provider", q.Provider, v.provider),
		match("policy_bundle_id", q.PolicyBundleID, rec.PolicyBundleID),
		match("purpose", q.Purpose, rec.PaidFor()),
		match("mode", q.Mode, rec.Mode),
		match("delivery", q.Delivery, rec.Delivery),
		match("price_msats", q.PriceMsats, rec.AmountMsats),
		matchOptional("payee_node", rec.PayeeNode, q.PayeeNode),
	)
}

// buyerAccepted grades claim 8: the buyer accepted this quote before the settlement.
func (v *verifier) buyerAccepted(g grader) {
	rec := v.receipt
	// 8.1
	g.step("8.1", "the receipt names the buyer's acceptance", v.checkAcceptanceHash())

	// 8.2, 8.3
	if rec.AcceptanceEventID != nil {
		if ev := g.event("8.2", "8.3", FileAcceptance, v.bundle.Acceptance, requireDomain(domain.Acceptance)); ev != nil {
			v.acceptance(g, *ev)
		}
	}

	// 8.8
	g.pin("8.8", "buyer", v.pinnedAs(v.buyer, v.pins.Buyer), v.pins.Buyer)
	reason := "signed by the buyer, and no rule is named"
	if rec.ApprovalRuleID != nil {
		reason = "signed by the buyer under the rule " + quoted(*rec.ApprovalRuleID)
	}
	g.prove(reason)
}

func (v *verifier) checkAcceptanceHash() error {
	switch {
	case v.receipt.AcceptanceEventID != nil:
		return nil
	case v.receipt.ApprovalRuleID != nil:
		return fmt.Errorf("%w: approval_rule_id without an acceptance", ErrMismatch)
	case v.bundle.Acceptance != nil:
		return fmt.Errorf("%w: it names none, and the bundle holds one", ErrMismatch)
	}
	return missing("the buyer sent none")
}

// acceptance makes steps 8.4 to 8.7 on the buyer's event.
func (v *verifier) acceptance(g grader, ev Event) {
	// 8.4, 8.5
	g.step("8.4", "its id is acceptance_event_id", match("id", ev.ID, *v.receipt.AcceptanceEventID))
	g.step("8.5", "its author is buyer_id", match("pubkey", ev.PubKey, v.buyer))
	// 8.6
	a, err := ParseAcceptance([]byte(ev.Content))
	if err == nil {
		err = v.acceptanceTerms(ev, a)
	}
	g.step("8.6", "it accepts this quote, payment hash and price, under the rule that the receipt names", err)
	// 8.7
	g.step("8.7", "it is not younger than the receipt", v.checkAcceptanceTime(ev))
}

func (v *verifier) acceptanceTerms(ev Event, a Acceptance) error {
	rec := v.receipt
	if !samePointer(a.ApprovalRuleID, rec.ApprovalRuleID) {
		return &MismatchError{"approval_rule_id", orNull(a.ApprovalRuleID), orNull(rec.ApprovalRuleID)}
	}

	return firstMismatch(
		match("request_id", a.RequestID, rec.RequestEventID),
		match("quote_hash", a.QuoteHash, rec.QuoteHash),
		match("payment_hash", a.PaymentHash, rec.PaymentHash),
		match("price_msats", a.PriceMsats, rec.AmountMsats),
		onlyTag(ev, "e", rec.RequestEventID),
		onlyTag(ev, "p", v.provider),
	)
}

// checkAcceptanceTime checks that the buyer accepted before the settlement: a signature
// made once the outcome is known accepts nothing.
func (v *verifier) checkAcceptanceTime(ev Event) error {
	settled, err := parseTimestamp(v.receipt.Timestamp)
	if err != nil {
		return err
	}
	if ev.CreatedAt > settled.Unix() {
		return fmt.Errorf("%w: it was made %d s after the settlement", ErrMismatch, ev.CreatedAt-settled.Unix())
	}
	return nil
}

// payeePinned grades claim 9: the invoice is from the node that the reader pinned.
func (v *verifier) payeePinned(g grader) {
	rec := v.receipt

	// 9.1
	if !g.step("9.1", "bolt11 decodes, and its signature is valid", escapeError(v.invoiceErr)) {
		return
	}

	// 9.2
	g.step("9.2", "payee_node signed the invoice", match("payee_node", rec.PayeeNode, v.invoice.Payee))

	// 9.3
	if q, err := v.quote(); err == nil {
		g.step("9.3", "the quote names the same node, or none", matchOptional("payee_node", rec.PayeeNode, q.PayeeNode))
	}

	// 9.4
	if v.pins.Payee == "" {
		g.step("9.4", "the payee is the pinned one", missing("no payee is pinned, and any signature gives some key"))
		return
	}
	g.pin("9.4", "payee", v.invoice.Payee, v.pins.Payee)
	g.prove("the invoice is signed by the pinned node")
}

// policy grades claim 10: POLICY.json is the policy that the receipt names.
func (v *verifier) policy(g grader) {
	doc := v.bundle.Policy
	// 10.1
	if doc == nil {
		g.step("10.1", FilePolicy+" is in the bundle and a policy manifest", missing("it is not in the bundle"))
		return
	}
	hash := hashing.Bytes(doc)
	g.step("10.1", FilePolicy+" is in the bundle and a policy manifest", escapeError(g.deferred.policy(hash, doc)))
	// 10.2
	g.step("10.2", "its hash is policy_bundle_id", match("the hash of "+FilePolicy, hash, v.receipt.PolicyBundleID))
	g.prove("the manifest is the one that quote, session and receipt name")
}

// chain grades claim 11: the receipt continues the provider's sequence.
func (v *verifier) chain(g grader) {
	rec, doc := v.receipt, v.bundle.Previous

	// 11.1
	if rec.PreviousReceiptHash == nil {
		var err error
		if doc != nil {
			err = fmt.Errorf("%w: the first receipt has none before it, and the bundle holds one", ErrMismatch)
		}
		g.step("11.1", "a first receipt has none before it", err)
		g.prove("the first receipt, as the provider counts")
		return
	}

	// 11.2
	if doc == nil {
		g.step("11.2", FilePrevious+" is in the bundle and valid", missing("it is not in the bundle"))
		return
	}
	previous, err := readDocument[Receipt]("receipt", doc, v.keys)
	if !g.step("11.2", FilePrevious+" is in the bundle and valid", err) {
		return
	}

	// 11.3, 11.4
	g.step("11.3", "its hash is previous_receipt_hash", match("the hash of "+FilePrevious, hashing.Bytes(doc), *rec.PreviousReceiptHash))
	g.step("11.4", "it is the same provider's, one number before", firstMismatch(
		v.follows(previous),
		match("sequence", previous.Sequence, rec.Sequence-1),
	))
	g.prove(fmt.Sprintf("receipt %d follows receipt %d; that no other follows it too is not shown", rec.Sequence, previous.Sequence))
}

// follows checks that the receipt before is of the same provider: of its key, or of one
// that led to it, if that was asked for.
func (v *verifier) follows(previous Receipt) error {
	before, err := v.keys.npub(previous.ProviderID)
	asked := slices.ContainsFunc(v.pins.Also, func(key string) bool { return v.pins.Keys.Joins(key, v.provider) })
	if err == nil && asked && v.pins.Keys.Leads(before, v.provider) {
		return nil
	}
	return match("provider_id", previous.ProviderID, v.receipt.ProviderID)
}
