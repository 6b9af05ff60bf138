package receipts

import (
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// Evidence is what a provider has when a payment is final. [New] makes the receipt.
type Evidence struct {
	Quote    Quote
	Invoice  string // BOLT 11
	Preimage payments.Preimage
	// Outpoints are the outputs that paid, for a payment on the chain; Preimage is then
	// ignored.
	Outpoints string
	// Result and ResultEventID (the id of the signed result event) are zero for an
	// engagement fee.
	Result        ResultTerms
	ResultEventID string
	// Verification is the request's, from [VerificationOf].
	Verification Verification
	// Acceptance is the buyer's event, nil if it sent none.
	Acceptance *Event
	// SettledAt becomes the receipt's timestamp.
	SettledAt time.Time
	// Sequence and Previous continue the provider's chain.
	Sequence int64
	Previous *hashing.Digest
}

// New makes the receipt of a payment. It refuses evidence that contradicts itself: an
// invoice that is not the quote's, a preimage that is not the invoice's, or another
// buyer's acceptance. Errors wrap [ErrMismatch], [ErrInvalid] or those of
// [bolt11.Decode].
func New(e Evidence) (Receipt, error) {
	r, err := newReceipt(e)
	if err != nil {
		return Receipt{}, fmt.Errorf("make receipt: %w", err)
	}
	return r, nil
}

func newReceipt(e Evidence) (Receipt, error) {
	decoded, err := bolt11.Decode(e.Invoice)
	if err != nil {
		return Receipt{}, err
	}
	network := decoded.Network
	if e.Outpoints != "" {
		network = network.OnChain()
	}
	inv, err := CheckInvoice(e.Quote, e.Invoice, network)
	if err != nil {
		return Receipt{}, err
	}
	quoteHash, err := e.Quote.Hash()
	if err != nil {
		return Receipt{}, err
	}
	proof, err := e.proof(network, inv.PaymentHash)
	if err != nil {
		return Receipt{}, err
	}
	bound, err := e.binds(quoteHash)
	if err != nil {
		return Receipt{}, err
	}
	r := Receipt{
		Version: Version, ReceiptID: NewReceiptID(quoteHash, inv.PaymentHash),
		PaymentProof: proof,
		Rail:         network.Rail(), AssetID: payments.AssetID(network), AmountMsats: inv.AmountMsats,
		Timestamp: Timestamp(e.SettledAt), Mode: e.Quote.Mode, Delivery: e.Quote.Delivery,
		RequestEventID: e.Quote.RequestID, ResultEventID: e.ResultEventID,
		Verification: e.Verification,
		BOLT11:       e.Invoice, PaymentHash: inv.PaymentHash.String(), PayeeNode: inv.Payee,
		Sequence: e.Sequence, PreviousReceiptHash: e.Previous,
	}
	if e.Quote.Purpose == PurposeEngagement {
		r.Purpose = PurposeEngagement
	}
	r.bindResult(bound)
	if r.ProviderID, err = Npub(e.Quote.Provider); err != nil {
		return Receipt{}, err
	}
	if r.BuyerID, err = Npub(e.Quote.Buyer); err != nil {
		return Receipt{}, err
	}

	if e.Acceptance != nil {
		if err := r.bindAcceptance(*e.Acceptance, e.Quote, inv.PaymentHash, e.SettledAt); err != nil {
			return Receipt{}, err
		}
	}

	return r, r.validate(keyring{})
}

// proof is the proof of the payment: the preimage, or the outputs on the chain.
func (e Evidence) proof(network payments.Network, hash payments.Hash) (PaymentProof, error) {
	kind := proofOf(network.Rail())
	switch {
	case kind == ProofOnchainTxid:
		return PaymentProof{kind, e.Outpoints}, checkOutpoints(e.Outpoints)
	case e.Preimage.IsZero() || e.Preimage.Hash() != hash:
		return PaymentProof{}, fmt.Errorf("%w: the preimage is not the invoice's", ErrMismatch)
	}
	return PaymentProof{kind, e.Preimage.String()}, nil
}

func (r *Receipt) bindResult(t ResultTerms) {
	r.SchemaID, r.JobHash, r.OutputHash, r.AgreementHash = t.SchemaID, t.JobHash, t.OutputHash, t.AgreementHash
	r.PlanHash, r.TrajectoryHash, r.RedactedTrajectoryHash = t.PlanHash, t.TrajectoryHash, t.RedactedTrajectoryHash
	r.ReplayHash, r.QuoteHash, r.PolicyBundleID, r.SessionID = t.ReplayHash, t.QuoteHash, t.PolicyBundleID, t.SessionID
}

func (r *Receipt) bindAcceptance(ev Event, q Quote, hash payments.Hash, settledAt time.Time) error {
	a, err := CheckAcceptance(ev, q, hash)
	if err != nil {
		return err
	}
	if ev.CreatedAt > settledAt.Unix() {
		return &MismatchError{"created_at of the acceptance", fmt.Sprint(ev.CreatedAt), "not after the settlement"}
	}
	id := ev.ID
	r.AcceptanceEventID, r.ApprovalRuleID = &id, a.ApprovalRuleID
	return nil
}

// ReceiptEvent makes the unsigned event of a receipt; createdAt is in unix seconds. Its
// kind is [kinds.Receipt], which the caller may change before signing.
func ReceiptEvent(r Receipt, createdAt int64) (Event, error) {
	doc, err := r.Canonical()
	if err != nil {
		return Event{}, err
	}
	buyer, err := ParseNpub(r.BuyerID)
	if err != nil {
		return Event{}, err
	}
	tags := [][]string{{"e", r.RequestEventID}}
	for _, id := range r.resultsOf() {
		tags = append(tags, []string{"e", id})
	}
	tags = append(tags, []string{"p", buyer}, []string{"alt", "Lightwork receipt " + r.ReceiptID}, domain.Receipt.Tag())
	return Event{Kind: kinds.Receipt, CreatedAt: createdAt, Content: string(doc), Tags: tags}, nil
}

// ParseReceiptEvent verifies a receipt event and returns its receipt. It checks that the
// signature is the provider's and that the tags name the request, the result and the
// buyer. Errors wrap [ErrInvalid] or [ErrMismatch].
func ParseReceiptEvent(ev Event) (Receipt, error) {
	if err := ev.Verify(); err != nil {
		return Receipt{}, fmt.Errorf("receipt event: %w", err)
	}
	if err := requireDomain(domain.Receipt)(&ev); err != nil {
		return Receipt{}, fmt.Errorf("receipt event: %w", err)
	}

	r, err := ParseReceipt([]byte(ev.Content))
	if err != nil {
		return Receipt{}, fmt.Errorf("receipt event: %w", err)
	}
	provider, err := ParseNpub(r.ProviderID)
	if err != nil {
		return Receipt{}, err
	}
	if err := firstMismatch(match("pubkey", ev.PubKey, provider), r.checkEventTags(ev)); err != nil {
		return Receipt{}, fmt.Errorf("receipt event: %w", err)
	}

	return r, nil
}

// checkEventTags checks that the event's tags name the request, the result and the
// buyer.
func (r Receipt) checkEventTags(ev Event) error {
	buyer, err := ParseNpub(r.BuyerID)
	if err != nil {
		return err
	}
	for _, want := range append(r.resultsOf(), r.RequestEventID) {
		if !ev.has("e", want) {
			return &MismatchError{"tag e", "another event", want}
		}
	}
	return onlyTag(ev, "p", buyer)
}
