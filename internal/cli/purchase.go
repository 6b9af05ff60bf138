package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// purchaseView is a purchase as --json shows it.
type purchaseView struct {
	RequestID   string      `json:"request_id"`
	State       buyer.State `json:"state"`
	Reason      string      `json:"reason,omitempty"`
	Provider    string      `json:"provider"`
	SchemaID    string      `json:"schema_id"`
	JobHash     string      `json:"job_hash"`
	MaxMsats    int64       `json:"max_msats"`
	PaidMsats   int64       `json:"paid_msats"`
	FeeMsats    int64       `json:"fee_msats"`
	HeldMsats   int64       `json:"held_msats,omitempty"` // on their way, not the provider's yet
	RefundMsats int64       `json:"refunded_msats,omitempty"`
	// At most: of a purchase that was given up with its wallet.
	UnknownMsats int64         `json:"unknown_msats,omitempty"`
	Mode         receipts.Mode `json:"mode,omitempty"`
	ReceiptID    string        `json:"receipt_id,omitempty"`
	// Of the fee for the attempt, which is paid apart from the price.
	EngagementMsats   int64  `json:"engagement_msats,omitempty"`
	EngagementReceipt string `json:"engagement_receipt_id,omitempty"`
	SettledFast       bool   `json:"settled_before_result,omitempty"`
	// Of a purchase from a program that knows NIP-90 alone.
	Outside  bool             `json:"outside,omitempty"`
	Unproved []receipts.Claim `json:"not_provable,omitempty"` // once it is done
	AddedAt  time.Time        `json:"added_at"`
	Result   schemas.Status   `json:"result_status,omitempty"` // how the commands ended
	Output   json.RawMessage  `json:"output,omitempty"`
}

func viewOf(p buyer.Purchase) purchaseView {
	v := purchaseView{
		RequestID: p.RequestID, State: p.State, Reason: p.Reason, Provider: p.Provider, SchemaID: p.SchemaID,
		JobHash: p.JobHash.String(), MaxMsats: p.MaxMsats, ReceiptID: p.ReceiptID, SettledFast: p.SettledTooEarly,
		AddedAt: p.AddedAt, Output: jsonOutput(p), Outside: p.Plain, Unproved: p.Unproved(), RefundMsats: p.RefundMsats, UnknownMsats: p.GivenUpMsats(),
	}
	if res, ok := sandboxResult(p); ok {
		v.Result = res.Status
	}
	if e := p.Engagement; e != nil && e.Payment != nil && e.Payment.State == payments.PaymentSucceeded {
		v.EngagementMsats, v.EngagementReceipt = e.Payment.AmountMsats, e.ReceiptID
	}

	switch {
	case p.Payment != nil && p.Payment.State == payments.PaymentSucceeded:
		v.PaidMsats, v.FeeMsats = p.Payment.AmountMsats, p.Payment.FeeMsats
	case p.State == buyer.StatePaying && p.Attempt != nil && !p.GivenUp():
		v.HeldMsats = p.Attempt.AmountMsats
	}

	if q, err := receipts.ParseQuote(p.Quote); err == nil {
		v.Mode = q.Mode
	}
	return v
}

// jsonOutput is the output as JSON: an outside provider's words are a string.
func jsonOutput(p buyer.Purchase) json.RawMessage {
	s, ok := schemas.Lookup(p.SchemaID)
	if !ok || p.Output == nil || !p.Plain {
		return p.Output
	}
	if _, err := s.ParseResult(p.Output); err == nil {
		return p.Output
	}

	text, err := json.Marshal(strings.ToValidUTF8(string(p.Output), "\uFFFD"))
	if err != nil {
		return nil
	}
	return text
}

// money is what a listing shows as paid.
func (v purchaseView) money() string {
	if v.UnknownMsats > 0 {
		return "unknown, up to " + display.Msats(v.UnknownMsats)
	}
	if v.HeldMsats > 0 {
		return "held " + display.Msats(v.HeldMsats)
	}
	if v.RefundMsats > 0 {
		return display.Msats(v.PaidMsats) + ", came back"
	}
	return display.Msats(v.PaidMsats)
}

// why is the reason of a purchase that failed, or how the commands ended of one
// that did not.
func (v purchaseView) why() string {
	if v.Reason == "" && v.Result != "" && v.Result != schemas.StatusSuccess {
		return "commands: " + string(v.Result)
	}
	return v.Reason
}

// sandboxResult reads the result of a sandbox job.
func sandboxResult(p buyer.Purchase) (schemas.SandboxRunResult, bool) {
	var res schemas.SandboxRunResult
	ok := p.Output != nil && p.SchemaID == string(schemas.SandboxRun) && json.Unmarshal(p.Output, &res) == nil
	return res, ok
}

// unmet says why a job that was bought and delivered is not what the buyer
// hoped for; nil if it is.
func unmet(p buyer.Purchase) error {
	if p.State == buyer.StateDone && p.Attempt != nil && p.ReceiptID == "" && !p.Plain {
		return &advice.Error{Code: advice.ExitUnmet, Err: fmt.Errorf("the job was done and paid %s", p.Reason)}
	}
	res, ok := sandboxResult(p)
	if !ok || p.State != buyer.StateDone || res.Status == schemas.StatusSuccess {
		return nil
	}

	why := "the job was done and its commands failed"
	switch res.Status {
	case schemas.StatusTimeout:
		why = fmt.Sprintf("the job was done and its commands were stopped at %s", limitText(p))
	case schemas.StatusCancelled, schemas.StatusError:
		why = "the job ended as " + string(res.Status)
		if res.Error != "" {
			why += ": " + res.Error
		}
	}

	return &advice.Error{Code: advice.ExitUnmet, Err: fmt.Errorf("%s", why)}
}

// limitText is the time limit that the request states.
func limitText(p buyer.Purchase) string {
	var ev nostr.Event
	var req schemas.SandboxRunRequest
	if err := json.Unmarshal(p.Request, &ev); err == nil {
		if input := ev.Tags.Find("i"); input != nil && json.Unmarshal([]byte(input[1]), &req) == nil {
			return fmt.Sprintf("their %d s limit", req.Sandbox.Resources.TimeoutSecs)
		}
	}
	return "their time limit"
}

// showOutput prints what the commands printed, as far as the result has it.
func showOutput(w io.Writer, p buyer.Purchase) {
	res, ok := sandboxResult(p)
	if !ok {
		fmt.Fprintln(w, display.Printable(answerOf(p)))
		return
	}
	for _, r := range res.Runs {
		fmt.Fprintf(w, "$ %s\n%s%s[exit %d, %d ms]\n", display.Printable(r.Cmd), wholeLines(r.StdoutPreview), wholeLines(r.StderrPreview), r.ExitCode, r.DurationMS)
	}
	if res.Status == schemas.StatusTimeout {
		fmt.Fprintf(w, "stopped at %s\n", strings.Replace(limitText(p), "their", "its", 1))
	}
	for _, a := range res.Artifacts {
		fmt.Fprintf(w, "artifact %s  %s  %d bytes\n", display.Printable(a.Path), a.SHA256, a.SizeBytes)
	}
}

// answerOf is the output of a text generation without what is about it, or any
// other output as it is.
func answerOf(p buyer.Purchase) string {
	var text schemas.TextResult
	if p.SchemaID == string(schemas.TextGeneration) && json.Unmarshal(p.Output, &text) == nil && text.Text != "" {
		return text.Text
	}
	return string(p.Output)
}

// wholeLines ends what a command printed with a newline if the command did not.
func wholeLines(text string) string {
	text = display.Printable(text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}
