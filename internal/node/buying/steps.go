package buying

import (
	"encoding/json"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// steps are those that were told of purchases that another process works on: what the
// store knows of them, each once.
type steps map[step]bool

type step struct{ request, who, what, of string }

// tell tells what is new of a purchase. next says that it is a further request of its
// order.
func (s steps) tell(p buyer.Purchase, feedback [][]byte, next bool, tell func(buyer.Progress)) {
	say := func(who, what string, msats int64, hash, text string) {
		key := step{p.RequestID, who, what, hash + text}
		if s[key] {
			return
		}
		s[key] = true
		tell(buyer.Progress{At: time.Now().UTC(), Who: who, What: what, Msats: msats, Hash: hash, Text: text})
	}

	if next {
		say("buyer", "next", 0, "", "")
	}
	say("buyer", "requested", p.MaxMsats, p.JobHash.String(), p.SchemaID)
	if p.Engagement != nil {
		chargeSteps(*p.Engagement, say)
	}
	chargeSteps(p.Charge, say)
	for _, raw := range feedback {
		feedbackStep(raw, say)
	}

	if p.SealedEvent != nil && p.Output == nil {
		say("provider", "sealed", 0, "", "")
	}
	if p.Output != nil {
		say("provider", "result", 0, hashing.Bytes(p.Output).String(), "")
	}
	if p.ReceiptID != "" {
		say("provider", "receipt", 0, p.ReceiptID, "")
	}
	if p.Cancel != nil {
		say("buyer", "cancels", 0, "", "")
	}

	switch {
	case p.GivenUp():
		say("buyer", "given_up", 0, "", p.Reason)
	case p.State == buyer.StateDone && p.Reason != "":
		say("buyer", "done_unproved", 0, "", p.Reason)
	case p.State.Terminal():
		say("buyer", string(p.State), 0, "", p.Reason)
	}
}

// chargeSteps are those of a payment, for the result or the attempt.
func chargeSteps(c buyer.Charge, say func(who, what string, msats int64, hash, text string)) {
	if c.Attempt == nil {
		return
	}
	say("buyer", "accepted", c.Attempt.AmountMsats, hashing.Bytes(c.Quote).String(), "")
	switch {
	case c.Payment == nil:
	case c.Payment.State == payments.PaymentSucceeded:
		say("wallet", "paid", c.Payment.AmountMsats, c.Payment.Hash.String(), "")
	default:
		say("wallet", "payment_failed", c.Payment.AmountMsats, c.Payment.Hash.String(), c.Payment.FailureReason)
	}
}

// feedbackStep is what the provider said, as far as it is said of no other step.
func feedbackStep(raw []byte, say func(who, what string, msats int64, hash, text string)) {
	var ev nostr.Event
	if json.Unmarshal(raw, &ev) != nil {
		return // it is of no use to who looks on
	}
	status := ev.Tags.Find("status")
	if status == nil {
		return
	}
	text := ""
	if len(status) > 2 {
		text = status[2]
	}
	switch what := status[1]; what {
	case "processing", "success", "error", "refund":
		say("provider", what, 0, "", text)
	}
}
