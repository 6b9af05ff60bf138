package receipts

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// ChainPayment is what a buyer says that it paid on the chain. It proves nothing:
// it says what to ask one's own node for.
type ChainPayment struct {
	Outputs       string `json:"outputs"` // "txid:index", or several, as in a receipt
	Sats          int64  `json:"amount_sats"`
	Confirmations int64  `json:"confirmations"` // that the buyer's wallet waited for

	// Address is the invoice's, set by Rule.
	Address string `json:"address,omitempty"`
}

// File is the payment as FileOutputs has it.
func (c ChainPayment) File() ([]byte, error) {
	c.Address = ""
	doc, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", FileOutputs, err)
	}
	return append(doc, '\n'), nil
}

// maxConfirmations is far more than any wallet waits for.
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

// checkOutputs holds what is said to have paid against the quote and its invoice.
// It never ends well: that the outputs are there is for a node of the reader's to
// say.
func (j *judge) checkOutputs() error {
	c, err := parseChainPayment(j.d.Outputs)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(j.d.Invoice))
	inv, err := bolt11.Decode(text)
	if err != nil {
		return escaped(err)
	}
	if _, err := CheckInvoice(j.quote, text, inv.Network.OnChain()); err != nil {
		return err
	}
	if c.Address, err = inv.ChainAddress(); err != nil {
		return escaped(err)
	}
	if least := (j.quote.PriceMsats + 999) / 1000; c.Sats < least {
		return &MismatchError{"amount", fmt.Sprintf("%d sat", c.Sats), fmt.Sprintf("at least %d sat", least)}
	}

	j.ruling.Chain = &c
	return lacking(fmt.Sprintf("only the chain shows it: ask a node of yours whether %s pays %s %d sat, with at least %d confirmations",
		shown(c.Outputs), c.Address, c.Sats, c.Confirmations))
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
