package receipts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/schemas"
)

// Types of a [PaymentProof]. The first two are preimages, the third lists the outputs
// that paid.
const (
	ProofLightningPreimage = "lightning_preimage"
	ProofCashu             = "cashu_proof"
	ProofOnchainTxid       = "onchain_txid"
)

// proofOf is the type of proof in receipts of a rail. This version issues and checks
// receipts of Lightning, Cashu and the chain. Cashu notes are locked to a payment hash
// like Lightning payments, so their proof is a preimage too; what it unlocks is a mint's
// promise. On the chain the proof names the outputs.
func proofOf(r payments.Rail) string {
	switch r {
	case payments.RailCashu:
		return ProofCashu
	case payments.RailOnChain:
		return ProofOnchainTxid
	}
	return ProofLightningPreimage
}

// PaymentProof is the evidence of a payment. For [ProofLightningPreimage] and
// [ProofCashu] the value is the preimage in 64 hex digits; for [ProofOnchainTxid] it is
// the "txid:index" of each output, sorted as text and separated by commas.
type PaymentProof struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// Receipt binds a final payment to the job, the work and the policy that it paid for. A
// free job has none. A provider makes it with [New]; [ParseReceiptEvent] and [Verify]
// check it.
type Receipt struct {
	Version        int            `json:"version"`
	ReceiptID      string         `json:"receipt_id"` // NewReceiptID
	SessionID      string         `json:"session_id"`
	TrajectoryHash hashing.Digest `json:"trajectory_hash"`
	PolicyBundleID hashing.Digest `json:"policy_bundle_id"`
	JobHash        hashing.Digest `json:"job_hash"`
	PaymentProof   PaymentProof   `json:"payment_proof"`
	Rail           payments.Rail  `json:"rail"`
	AssetID        string         `json:"asset_id"`
	AmountMsats    int64          `json:"amount_msats"`
	ProviderID     string         `json:"provider_id"`      // npub
	ApprovalRuleID *string        `json:"approval_rule_id"` // as the acceptance says
	Timestamp      string         `json:"timestamp"`        // of the settlement, from [Timestamp]
	// Purpose is absent from the receipt for a result. The receipt for an engagement
	// fee has it, and its fields about the work are null in JSON and zero here.
	Purpose Purpose `json:"purpose,omitzero"`

	SchemaID               string          `json:"schema_id"`
	Mode                   Mode            `json:"mode"`
	Delivery               Delivery        `json:"delivery"`
	RequestEventID         string          `json:"request_event_id"`
	ResultEventID          string          `json:"result_event_id"`
	AcceptanceEventID      *string         `json:"acceptance_event_id"`
	BuyerID                string          `json:"buyer_id"` // npub
	OutputHash             hashing.Digest  `json:"output_hash"`
	AgreementHash          *hashing.Digest `json:"agreement_hash"`
	PlanHash               hashing.Digest  `json:"plan_hash"`
	QuoteHash              hashing.Digest  `json:"quote_hash"`
	BOLT11                 string          `json:"bolt11"`
	PaymentHash            string          `json:"payment_hash"` // 64 hex digits
	PayeeNode              string          `json:"payee_node"`   // 66 hex digits
	ReplayHash             hashing.Digest  `json:"replay_hash"`
	RedactedTrajectoryHash hashing.Digest  `json:"redacted_trajectory_hash"`
	// Verification is how the request wants its result judged.
	Verification Verification `json:"verification"`
	// Sequence numbers the provider's receipts from 1. PreviousReceiptHash is the
	// [Receipt.Hash] of the one before, nil for the first.
	Sequence            int64           `json:"sequence"`
	PreviousReceiptHash *hashing.Digest `json:"previous_receipt_hash"`
}

// Verification is how the result of a job is judged, as its request says.
type Verification struct {
	Adjudication schemas.Adjudication `json:"adjudication"` // how several results become one
	Redundancy   int64                `json:"redundancy"`   // how many providers run the job
	Tier         string               `json:"tier"`
}

// VerificationOf reads the verification of a request.
func VerificationOf(req *schemas.Request) Verification {
	v := req.Verification()
	return Verification{Adjudication: v.Adjudication, Redundancy: v.Redundancy, Tier: v.Tier()}
}

// verification checks that the tier fits the adjudication.
func (c *checks) verification(v Verification) {
	tiers := map[schemas.Adjudication][]string{
		schemas.NoAdjudication: {schemas.TierObjective, schemas.TierReputation}, schemas.MajorityVote: {schemas.TierConsensus},
		schemas.Merge: {schemas.TierConsensus}, schemas.JudgeModel: {schemas.TierJudge},
	}[v.Adjudication]
	c.that(tiers != nil, "verification.adjudication is unknown")
	c.that(slices.Contains(tiers, v.Tier), "verification.tier is not one of its adjudication")
	c.that(v.Redundancy >= 1 && v.Redundancy <= seatsMax, "verification.redundancy is out of range")
}

// NewReceiptID derives the receipt's id from the quote and its payment, so that making
// a receipt twice gives the same one.
func NewReceiptID(quoteHash hashing.Digest, paymentHash payments.Hash) string {
	h := sha256.New()
	h.Write([]byte("lightwork/receipt/v1"))
	h.Write(quoteHash[:])
	h.Write(paymentHash[:])
	return receiptIDPrefix + hex.EncodeToString(h.Sum(nil))[:32]
}

// receiptIDPrefix precedes the 32 hex digits of a receipt_id.
const receiptIDPrefix = "rcpt_"

// Canonical validates the receipt and returns its canonical JSON: the exact
// bytes of RECEIPT.json and of the signed event's content.
func (r Receipt) Canonical() ([]byte, error) {
	if err := r.validate(keyring{}); err != nil {
		return nil, err
	}
	if r.isEngagement() {
		return hashing.CanonicalValue(feeReceipt{Receipt: r})
	}
	return hashing.CanonicalValue(r)
}

// Hash is the digest of Canonical.
func (r Receipt) Hash() (hashing.Digest, error) { return sumOf(r.Canonical()) }

// ParseReceipt reads a receipt, which must be canonical. It does not check whether the
// receipt is true; [Verify] does. Errors wrap [ErrInvalid].
func ParseReceipt(doc []byte) (Receipt, error) {
	return readDocument[Receipt]("receipt", doc, keyring{})
}

func (r Receipt) validate(keys keyring) error {
	c := checks{document: "receipt", keys: keys}
	c.version(r.Version)
	c.work(r)
	c.digest("policy_bundle_id", r.PolicyBundleID)
	c.digest("job_hash", r.JobHash)
	c.digest("quote_hash", r.QuoteHash)
	c.payment(r)
	c.npub("provider_id", r.ProviderID)
	c.npub("buyer_id", r.BuyerID)
	c.timestamp("timestamp", r.Timestamp)
	c.schema("schema_id", r.SchemaID)
	c.that(r.Mode == ModeHold || r.Mode == ModePrepay || r.Mode == ModePostpay, "mode is not one that is paid")
	c.delivery(r.Delivery, r.Mode)
	c.verification(r.Verification)
	c.id("request_event_id", r.RequestEventID)
	if r.AcceptanceEventID != nil {
		c.id("acceptance_event_id", *r.AcceptanceEventID)
	}
	if r.ApprovalRuleID != nil {
		c.text("approval_rule_id", *r.ApprovalRuleID)
	}
	c.that(r.Sequence >= 1 && r.Sequence <= maxInteger, "sequence is out of range")
	c.that((r.Sequence == 1) == (r.PreviousReceiptHash == nil), "previous_receipt_hash is null for sequence 1 and for no other")
	return c.failed
}

func (c *checks) payment(r Receipt) {
	c.that(isOneOf(r.PaymentProof.Type, ProofLightningPreimage, ProofCashu, ProofOnchainTxid), "payment_proof.type is unknown")
	c.text("payment_proof.value", r.PaymentProof.Value)
	c.that(isOneOf(r.Rail, payments.RailLightning, payments.RailCashu, payments.RailOnChain, payments.RailTaprootAssets), "rail is unknown")
	c.that(isAssetID(r.AssetID), "asset_id is not qualified by its rail")
	c.that(r.AmountMsats > 0 && r.AmountMsats <= payments.MaxMsats, "amount_msats is out of range")
	c.that(r.BOLT11 != "" && len(r.BOLT11) <= bolt11.MaxLength, "bolt11 is empty or too long")
	c.hash("payment_hash", r.PaymentHash)
	c.err(c.keys.node("payee_node", r.PayeeNode))
	hash, err := payments.ParseHash(r.PaymentHash)
	if err == nil {
		c.that(r.ReceiptID == NewReceiptID(r.QuoteHash, hash), "receipt_id is not that of quote_hash and payment_hash")
	}
}

func (c *checks) npub(field, s string) {
	key, err := c.keys.npub(s)
	if err != nil {
		c.err(fmt.Errorf("%s: %w", field, err))
		return
	}
	c.err(c.keys.key(field, key))
}

// isAssetID reports whether s is NAME_RAIL or NAME_RAIL(issuer). A bare name such as
// USD does not say who owes the money.
func isAssetID(s string) bool {
	name, issuer, qualified := splitIssuer(s)
	if len(s) > 256 || qualified && issuer == "" {
		return false
	}

	underscore := false
	for i, c := range []byte(name) {
		switch {
		case c == '_':
			underscore = underscore || i > 0 && i < len(name)-1
		case (c < 'A' || c > 'Z') && (c < '0' || c > '9'):
			return false
		}
	}

	for _, c := range []byte(issuer) {
		if c <= ' ' || c >= 0x7f || c == '(' || c == ')' {
			return false
		}
	}

	return underscore
}

// splitIssuer splits NAME(issuer).
func splitIssuer(s string) (name, issuer string, qualified bool) {
	for i := range len(s) {
		if s[i] == '(' && s[len(s)-1] == ')' {
			return s[:i], s[i+1 : len(s)-1], true
		}
	}
	return s, "", false
}

func isOneOf[T comparable](value T, allowed ...T) bool { return slices.Contains(allowed, value) }
