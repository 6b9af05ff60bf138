package receipts

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/lightwork-market/lightwork/payments"
)

// checkOutpoints wants the value of an onchain_txid: "txid:index", or several
// in their order as text, separated by commas, none twice.
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

// outputs takes the proof of a payment on the chain through step 5: a receipt
// can say where to look, and no more.
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
	g.step("5.4", "bolt11 decodes, and its signature is valid", escaped(v.invoiceErr))
	g.step("5.5", "payment_hash is the invoice's", match("payment_hash", v.invoice.PaymentHash.String(), rec.PaymentHash))

	// 5.6
	address, err := v.invoice.ChainAddress()
	if err == nil {
		err = lacking(fmt.Sprintf("only the chain shows it: ask a node of yours whether %s pays %s at least %d sat",
			shown(rec.PaymentProof.Value), address, (rec.AmountMsats+999)/1000))
	}

	g.step("5.6", "the outputs pay the invoice's address, and are confirmed", err)
}

// shown is the first of a list of outputs, and how many follow.
func shown(outpoints string) string {
	first, rest, more := strings.Cut(outpoints, ",")
	if !more {
		return first
	}
	return fmt.Sprintf("%s and %d more", first, strings.Count(rest, ",")+1)
}
