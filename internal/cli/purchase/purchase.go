// Package purchase shows purchases, writes what they bought to files, and asks for
// approvals: what the commands about buying share.
package purchase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/lease"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// PurchaseView is a purchase as --json shows it.
type PurchaseView struct {
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

// ViewOf is a purchase as --json shows it.
func ViewOf(p buyer.Purchase) PurchaseView {
	v := PurchaseView{
		RequestID: p.RequestID, State: p.State, Reason: p.Reason, Provider: p.Provider, SchemaID: p.SchemaID,
		JobHash: p.JobHash.String(), MaxMsats: p.MaxMsats, ReceiptID: p.ReceiptID, SettledFast: p.SettledTooEarly,
		AddedAt: p.AddedAt, Output: jsonOutput(p), Outside: p.Plain, Unproved: p.Unproved(), RefundMsats: p.RefundMsats, UnknownMsats: p.GivenUpMsats(),
	}
	if res, ok := SandboxResult(p); ok {
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

// Money is what a listing shows as paid.
func (v PurchaseView) Money() string {
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

// Why is the reason of a purchase that failed, or how the commands ended of one
// that did not.
func (v PurchaseView) Why() string {
	if v.Reason == "" && v.Result != "" && v.Result != schemas.StatusSuccess {
		return "commands: " + string(v.Result)
	}
	return v.Reason
}

// SandboxResult reads the result of a sandbox job.
func SandboxResult(p buyer.Purchase) (schemas.SandboxRunResult, bool) {
	var res schemas.SandboxRunResult
	ok := p.Output != nil && p.SchemaID == string(schemas.SandboxRun) && json.Unmarshal(p.Output, &res) == nil
	return res, ok
}

// Unmet says why a job that was bought and delivered is not what the buyer
// hoped for; nil if it is.
func Unmet(p buyer.Purchase) error {
	if p.State == buyer.StateDone && p.Attempt != nil && p.ReceiptID == "" && !p.Plain {
		return &advice.Error{Code: advice.ExitUnmet, Err: fmt.Errorf("the job was done and paid %s", p.Reason)}
	}
	res, ok := SandboxResult(p)
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

// ShowOutput prints what the commands printed, as far as the result has it.
func ShowOutput(w io.Writer, p buyer.Purchase) {
	res, ok := SandboxResult(p)
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

// Asker lets the person at the terminal decide about payments; nil where there
// is no terminal to ask on.
func Asker(s *app.Streams) func(context.Context, buyer.Approval) (bool, error) {
	in, ok := s.In.(*os.File)
	if !ok || !app.IsTerminal(in) {
		return nil
	}

	return func(ctx context.Context, a buyer.Approval) (bool, error) {
		npub, err := receipts.Npub(a.Provider)
		if err != nil {
			return false, err
		}
		fmt.Fprintf(s.Err, "\nRule %s asks: pay %s, and at most %s of routing fees, to\n%s\nfor %s in mode %s? [y/N] ",
			display.Printable(a.RuleID), display.Msats(a.PriceMsats), display.Msats(a.FeeLimitMsats), npub, display.Printable(a.SchemaID), a.Mode)
		answer, err := app.ReadLine(ctx, in)
		return answer == "y" || answer == "yes", err
	}
}

// WithBuyer opens the buyer for writing and connects it.
func WithBuyer(ctx context.Context, s *app.Streams, g *app.Globals, do func(context.Context, *node.Buyer) error) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	n, err := node.OpenBuyer(ctx, c, Asker(s), s.Log)
	if err != nil {
		return err
	}
	return n.Use(ctx, func(ctx context.Context) error { return do(ctx, n) })
}

// ReadBuyer opens the buyer's database for reading, also beside a running one.
// Before the first purchase there is none: do gets nil.
func ReadBuyer(ctx context.Context, s *app.Streams, g *app.Globals, do func(*node.Purchases) error) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	return c.Databases().ReadPurchases(ctx, do)
}

// ListPurchases lists purchases; none if there is no store yet.
func ListPurchases(ctx context.Context, store *node.Purchases, limit int) ([]buyer.Purchase, error) {
	if store == nil {
		return nil, nil
	}
	return store.Purchases(ctx, limit)
}

// Find is the purchase whose id begins with id.
func Find(ctx context.Context, store *node.Purchases, id string) (buyer.Purchase, error) {
	if store == nil {
		return buyer.Purchase{}, advice.Usage("lightwork buyer submit makes the first purchase", "purchase %q: nothing was bought yet", id)
	}
	p, err := store.FindPurchase(ctx, id)
	if err != nil {
		return p, advice.Usage("lightwork buyer list shows the ids", "%w", err)
	}
	return p, nil
}

// CameBack says what our own wallet has seen of the refund of a purchase that ended
// without its result; "" where none was due. The reason of the purchase is older: it
// is what the provider said when it began to pay back.
func CameBack(p buyer.Purchase) string {
	switch {
	case p.RefundMsats > 0:
		return display.Msats(p.RefundMsats) + " came back to our wallet"
	case buyer.RefundDue(p):
		return "our wallet has not seen it come back yet, lightwork buyer resume " + display.Short(p.RequestID) + " looks again"
	}
	return ""
}

// TellWorker says that another process works on a purchase, and that we look on.
func TellWorker(s *app.Streams, id string, err error) {
	var held *lease.HeldError
	if !errors.As(err, &held) {
		return
	}
	fmt.Fprintf(s.Err, "lightwork: process %d works on %s; this shows what becomes of it\n", held.PID, Name(id))
}

// Name is the id of a panel, or the short one of a purchase.
func Name(id string) string {
	if strings.HasPrefix(id, "panel_") {
		return id
	}
	return display.Short(id)
}

// Left says what an interrupted purchase goes on as without us.
func Left(p buyer.Purchase) string {
	switch v := ViewOf(p); {
	case v.HeldMsats > 0:
		return display.Msats(v.HeldMsats) + " are held, the job goes on"
	case v.PaidMsats > 0:
		return display.Msats(v.PaidMsats) + " are paid, the job goes on"
	}
	return "nothing is paid, the request is out"
}

// WriteBundle writes the bundle of a purchase to out: a folder, or a .tar.
func WriteBundle(ctx context.Context, bought *node.Purchases, id, out string) error {
	p, err := bought.Purchase(ctx, id)
	if err != nil {
		return err
	}
	b, err := buyer.WorkOf(ctx, bought, p)
	if err != nil {
		return err
	}
	return WriteFolder(out, b)
}

// CheckOut wants a folder that is new or empty; "" is fine.
func CheckOut(dir string) error { return checkFolder("--out", dir) }

// WriteFolder writes a bundle into a new or empty folder.
func WriteFolder(dir string, b *receipts.Bundle) error {
	if err := CheckOut(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	for name, data := range b.Files() {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// RefusedByRule is a refusal of the approval rules with the next step.
func RefusedByRule(rule buyer.ApprovalRule, err error) error {
	hint := "buyer.approvals in the configuration says what may be paid"
	if rule.Do == buyer.Ask {
		hint = "run it on a terminal, or let a rule of buyer.approvals approve it"
	}
	return advice.Hint(err, hint)
}
