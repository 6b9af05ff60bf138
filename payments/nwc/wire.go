package nwc

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/payments"
)

// ErrAnswer is wrapped for a malformed answer of a wallet service.
var ErrAnswer = errors.New("nwc: the wallet's answer is malformed")

// The encrypted messages. Unknown fields are ignored, because NIP-47 grows. Names
// must match exactly and must be unique; numbers must be integers.
type (
	request struct {
		Method Method         `json:"method"`
		Params jsontext.Value `json:"params"`
	}
	response struct {
		ResultType Method         `json:"result_type"`
		Error      *wireError     `json:"error,omitzero"`
		Result     jsontext.Value `json:"result,omitzero"`
	}
	wireError struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Reason  string `json:"reason,omitzero"`
	}
	notification struct {
		Type  string      `json:"notification_type"`
		About transaction `json:"notification"`
	}
)

// The parameters and results of the methods.
type (
	payParams struct {
		Invoice  string `json:"invoice"`
		Amount   int64  `json:"amount,omitzero"`
		FeeLimit *int64 `json:"fee_limit,omitzero"`
	}
	payResult struct {
		Preimage string `json:"preimage"`
		FeesPaid int64  `json:"fees_paid"`
	}
	invoiceParams struct {
		Amount          int64  `json:"amount"`
		Description     string `json:"description,omitzero"`
		DescriptionHash string `json:"description_hash,omitzero"`
		Expiry          int64  `json:"expiry,omitzero"` // seconds
		PaymentHash     string `json:"payment_hash,omitzero"`
		MinCLTV         int    `json:"min_cltv_expiry_delta,omitzero"` // blocks
		Preimage        string `json:"preimage,omitzero"`
	}
	lookupParams struct {
		PaymentHash string `json:"payment_hash,omitzero"`
		Invoice     string `json:"invoice,omitzero"`
	}
	settleParams struct {
		Preimage string `json:"preimage"`
	}
	cancelParams struct {
		PaymentHash string `json:"payment_hash"`
	}
	listParams struct {
		From   int64  `json:"from,omitzero"`
		Until  int64  `json:"until,omitzero"`
		Limit  int    `json:"limit,omitzero"`
		Offset int    `json:"offset,omitzero"`
		Unpaid bool   `json:"unpaid,omitzero"`
		Type   string `json:"type,omitzero"`
	}
	listResult struct {
		Transactions []transaction `json:"transactions"`
	}
	balanceResult struct {
		Balance  int64 `json:"balance"`
		Reserved int64 `json:"reserved,omitzero"`
	}
	budgetResult struct {
		Used     int64  `json:"used_budget"`
		Total    int64  `json:"total_budget"`
		RenewsAt int64  `json:"renews_at,omitzero"`
		Period   string `json:"renewal_period"`
	}
	infoResult struct {
		Alias         string   `json:"alias"`
		Color         string   `json:"color"`
		PubKey        string   `json:"pubkey"`
		Network       string   `json:"network"`
		BlockHeight   int64    `json:"block_height"`
		BlockHash     string   `json:"block_hash"`
		Methods       []string `json:"methods"`
		Notifications []string `json:"notifications"`
	}
)

// Values of transaction.Type and State.
const (
	typeIncoming = "incoming"
	typeOutgoing = "outgoing"

	statePending  = "pending"
	stateSettled  = "settled"
	stateAccepted = "accepted"
	stateExpired  = "expired"
	stateFailed   = "failed"
)

// transaction is an invoice or a payment. Amounts are in msats, times in Unix
// seconds; missing fields are zero.
type transaction struct {
	Type            string `json:"type"`
	State           string `json:"state"`
	Invoice         string `json:"invoice"`
	Description     string `json:"description,omitzero"`
	DescriptionHash string `json:"description_hash,omitzero"`
	Preimage        string `json:"preimage,omitzero"`
	PaymentHash     string `json:"payment_hash"`
	Amount          int64  `json:"amount"`
	FeesPaid        int64  `json:"fees_paid"`
	CreatedAt       int64  `json:"created_at"`
	ExpiresAt       int64  `json:"expires_at,omitzero"`
	SettledAt       int64  `json:"settled_at,omitzero"`
	SettleDeadline  int64  `json:"settle_deadline,omitzero"` // block height
	SettleBy        int64  `json:"settle_by,omitzero"`
	Unsure          bool   `json:"unsure,omitzero"`     // settled, but the money may still go back
	LostMsats       int64  `json:"lost_msats,omitzero"` // payments.Invoice.LostMsats; for a failed payment, its cost
}

// check bounds the fields that are used.
func (t *transaction) check() error {
	for _, msats := range []int64{t.Amount, t.FeesPaid, t.LostMsats} {
		if err := payments.CheckMsats(msats); err != nil {
			return fmt.Errorf("%w: %w", ErrAnswer, err)
		}
	}
	for _, unix := range []int64{t.CreatedAt, t.ExpiresAt, t.SettledAt, t.SettleDeadline, t.SettleBy} {
		if unix < 0 || unix > maxUnix {
			return fmt.Errorf("%w: a time out of range", ErrAnswer)
		}
	}
	return nil
}

// maxUnix is the end of the year 9999.
const maxUnix = 253402300799

// hash returns the payment hash, which some wallets write in capitals.
func (t *transaction) hash() (payments.Hash, error) {
	h, err := payments.ParseHash(strings.ToLower(t.PaymentHash))
	if err != nil {
		return payments.Hash{}, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return h, nil
}

// proof returns the preimage if it matches the hash.
func proof(text string, hash payments.Hash) (payments.Preimage, bool) {
	p, err := payments.ParsePreimage(strings.ToLower(text))
	return p, err == nil && !p.IsZero() && p.Hash() == hash
}

func unix(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// parseResponse returns the result of a method's answer, or an *Error.
func parseResponse(doc []byte, m Method) (jsontext.Value, error) {
	var r response
	if err := json.Unmarshal(doc, &r); err != nil {
		return nil, fmt.Errorf("%w: it does not parse", ErrAnswer)
	}

	switch {
	case r.Error != nil:
		// Some wallets leave out result_type in errors.
		if r.ResultType != m && r.ResultType != "" {
			break
		}
		return nil, asError(m, r.Error)
	case r.ResultType == m && r.Result.Kind() == '{':
		return r.Result, nil
	case r.ResultType == m:
		return nil, fmt.Errorf("%w: neither result nor error", ErrAnswer)
	}

	return nil, fmt.Errorf("%w: it answers %q to a request of %s", ErrAnswer, clip.Line(string(r.ResultType), 40), m)
}

// decodeResult decodes the result of a method.
func decodeResult(result jsontext.Value, v any) error {
	if err := json.Unmarshal(result, v); err != nil {
		return fmt.Errorf("%w: the result does not match NIP-47", ErrAnswer)
	}
	return nil
}

// parseNotification returns type and payment hash of a notification.
func parseNotification(doc []byte) (string, payments.Hash, error) {
	var n notification
	if err := json.Unmarshal(doc, &n); err != nil {
		return "", payments.Hash{}, fmt.Errorf("%w: notification does not parse", ErrAnswer)
	}
	h, err := n.About.hash()
	return n.Type, h, err
}

// parseRequest parses a request of an app.
func parseRequest(doc []byte) (request, error) {
	var r request
	if err := json.Unmarshal(doc, &r); err != nil {
		return request{}, fmt.Errorf("%w: the request does not parse", payments.ErrBadRequest)
	}
	return r, nil
}

// decodeParams decodes a request's parameters; missing ones are an empty object.
func decodeParams(params jsontext.Value, v any) error {
	if len(params) == 0 {
		return nil
	}
	if err := json.Unmarshal(params, v); err != nil {
		return fmt.Errorf("%w: the parameters do not match NIP-47", payments.ErrBadRequest)
	}
	return nil
}

// parseDigest parses a description hash: 64 hex digits.
func parseDigest(text string) (hashing.Digest, error) {
	h, err := payments.ParseHash(strings.ToLower(text))
	return hashing.Digest(h), err
}
