package receipts

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// ChainPayment is a buyer's statement of a payment on the chain. It proves nothing by
// itself: the reader has to look the outputs up with a node.
type ChainPayment struct {
	Outputs       string `json:"outputs"` // "txid:index", or several, as in a receipt
	Sats          int64  `json:"amount_sats"`
	Confirmations int64  `json:"confirmations"` // that the buyer's wallet waited for

	// Address is the invoice's, set by [Dispute.Rule].
	Address string `json:"address,omitempty"`
}

// File is the content of [FileOutputs].
func (c ChainPayment) File() ([]byte, error) {
	c.Address = ""
	doc, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", FileOutputs, err)
	}
	return append(doc, '\n'), nil
}

// maxConfirmations is far above the number that any wallet waits for.
const maxConfirmations = 1000

func parseChainPayment(doc []byte) (c ChainPayment, err error) {
	if err := hashing.Unmarshal(doc, &c); err != nil {
		return c, fmt.Errorf("%w: %s: %w", ErrInvalid, FileOutputs, err)
	}
	if err := checkOutpoints(c.Outputs); err != nil {
		return c, err
	}
	if c.Address != "" || c.Sats < 1 || c.Sats > payments.MaxMsats/1000 || c.Confirmations < 1 || c.Confirmations > maxConfirmations {
		return c, fmt.Errorf("%w: %s: amount or confirmations out of range", ErrInvalid, FileOutputs)
	}
	return c, nil
}

// checkOutputs compares the stated payment with the quote and its invoice. It never
// returns nil: only a node can tell whether the outputs exist.
func (j *judge) checkOutputs() error {
	c, err := parseChainPayment(j.d.Outputs)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(j.d.Invoice))
	inv, err := bolt11.Decode(text)
	if err != nil {
		return escapeError(err)
	}
	if _, err := CheckInvoice(j.quote, text, inv.Network.OnChain()); err != nil {
		return err
	}
	if c.Address, err = inv.ChainAddress(); err != nil {
		return escapeError(err)
	}
	if least := (j.quote.PriceMsats + 999) / 1000; c.Sats < least {
		return &MismatchError{"amount", fmt.Sprintf("%d sat", c.Sats), fmt.Sprintf("at least %d sat", least)}
	}

	j.ruling.Chain = &c
	return missing(fmt.Sprintf("only the chain shows it: ask a node of yours whether %s pays %s %d sat, with at least %d confirmations",
		abbreviate(c.Outputs), c.Address, c.Sats, c.Confirmations))
}

func (j *judge) sealedQuote() string {
	if j.d.Outputs != nil {
		return ""
	}
	return " of a sealed result"
}

func (j *judge) paymentStep() string {
	if j.d.Outputs != nil {
		return "outputs on the chain pay the address of an invoice that commits to the quote"
	}
	return "the payment's secret is out, for an invoice that commits to the quote"
}

// checkOutpoints checks the value of an onchain_txid proof: one "txid:index", or
// several, separated by commas, sorted as text, without repetition.
func checkOutpoints(value string) error {
	list := strings.Split(value, ",")
	if len(list) > payments.MaxOutpoints {
		return fmt.Errorf("%w: more than %d outputs", ErrInvalid, payments.MaxOutpoints)
	}

	for i, o := range list {
		txid, index, _ := strings.Cut(o, ":")
		raw, err := hex.DecodeString(txid)
		n, indexErr := strconv.ParseUint(index, 10, 32)
		if err != nil || indexErr != nil || len(raw) != 32 || txid != hex.EncodeToString(raw) || index != strconv.FormatUint(n, 10) {
			return fmt.Errorf("%w: not a transaction id of 64 hex digits, a colon, and an output's index", ErrInvalid)
		}
		if i > 0 && list[i-1] >= o {
			return fmt.Errorf("%w: outputs are not in their order, or one is there twice", ErrInvalid)
		}
	}

	return nil
}

// outputs makes the checks of step 5 for a payment on the chain. The receipt can only
// say which outputs to look up.
func (v *verifier) outputs(g grader) {
	rec := v.receipt
	// 5.2
	g.step("5.2", "it names outputs of transactions", checkOutpoints(rec.PaymentProof.Value))

	// 5.3
	var err error
	if rec.Mode != ModePrepay {
		err = fmt.Errorf("%w: mode %s", ErrMismatch, rec.Mode)
	}
	g.step("5.3", "the job was paid beforehand: nothing on the chain is held", err)

	// 5.4, 5.5: without an invoice that decodes the rail is not the chain
	g.step("5.4", "bolt11 decodes, and its signature is valid", escapeError(v.invoiceErr))
	g.step("5.5", "payment_hash is the invoice's", match("payment_hash", v.invoice.PaymentHash.String(), rec.PaymentHash))

	// 5.6
	address, err := v.invoice.ChainAddress()
	if err == nil {
		err = missing(fmt.Sprintf("only the chain shows it: ask a node of yours whether %s pays %s at least %d sat",
			abbreviate(rec.PaymentProof.Value), address, (rec.AmountMsats+999)/1000))
	}

	g.step("5.6", "the outputs pay the invoice's address, and are confirmed", err)
}

// abbreviate is the first of a list of outputs and the number of the others.
func abbreviate(outpoints string) string {
	first, rest, more := strings.Cut(outpoints, ",")
	if !more {
		return first
	}
	return fmt.Sprintf("%s and %d more", first, strings.Count(rest, ",")+1)
}
