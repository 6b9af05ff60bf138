package receipts

import (
	"encoding/json"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/schemas"
)

// Price is what a provider announces for a job type, and what both sides compute
// a job's price from: a worst case that is known before the run.
type Price struct {
	BaseMsats      int64 `json:"base_msats"`
	PerMinuteMsats int64 `json:"per_minute_msats"` // a begun minute of the request's limit
	// Prices of 1000 tokens. What goes in counts a token for every 4 bytes of the
	// canonical request; what comes out counts the request's max_tokens, or
	// MaxOutputTokens where it states none.
	InputMsats      int64 `json:"input_tokens_per_1k_msats"`
	OutputMsats     int64 `json:"output_tokens_per_1k_msats"`
	MaxOutputTokens int64 `json:"max_output_tokens"`
	// EngagementMsats is the fee for the attempt at a job whose result may not be
	// paid for: Engagement. It comes on top of the price.
	EngagementMsats int64 `json:"engagement_msats,omitzero"`
}

// Engagement is the engagement fee of a request in msats, 0 if none is asked: it
// is for jobs that may do all that was ordered and not be paid. That is where
// the request states what the result must be, and where it is judged: a judge or
// a merge of several providers' results decides afterwards what each is worth.
func (p Price) Engagement(req *schemas.Request, judged bool) int64 {
	var stated struct {
		Verification struct {
			Expected json.RawMessage `json:"expected"`
		} `json:"verification"`
	}
	if json.Unmarshal(req.Canonical, &stated) != nil || stated.Verification.Expected == nil && !judged {
		return 0
	}
	return p.EngagementMsats
}

// BytesPerToken is a convention, so that nobody needs another's tokenizer.
const BytesPerToken = 4

// Valid reports whether the price table can be computed with.
func (p Price) Valid() bool {
	for _, n := range []int64{p.BaseMsats, p.PerMinuteMsats, p.InputMsats, p.OutputMsats, p.MaxOutputTokens, p.EngagementMsats} {
		if payments.CheckMsats(n) != nil {
			return false
		}
	}
	return p.OutputMsats == 0 || p.MaxOutputTokens > 0
}

// For is the price of a request in msats; false if it is no amount, or the
// request wants more output than the table allows.
func (p Price) For(req *schemas.Request) (msats int64, ok bool) {
	out := outputLimit(req)
	if !p.Valid() || p.MaxOutputTokens > 0 && out > p.MaxOutputTokens {
		return 0, false
	}
	if out == 0 {
		out = p.MaxOutputTokens
	}

	in := InputTokens(req)
	minutes := max(1, int64((RunLimit(req)+time.Minute-1)/time.Minute))
	msats, ok = p.BaseMsats, true
	for _, part := range []struct{ count, each, per int64 }{
		{minutes, p.PerMinuteMsats, 1}, {in, p.InputMsats, 1000}, {out, p.OutputMsats, 1000},
	} {
		if part.each > 0 && part.count > payments.MaxMsats/part.each {
			return 0, false
		}
		msats += (part.count*part.each + part.per - 1) / part.per
		ok = ok && payments.CheckMsats(msats) == nil
	}

	return msats, ok
}

// InputTokens is how many tokens a request counts as.
func InputTokens(req *schemas.Request) int64 {
	return (int64(len(req.Canonical)) + BytesPerToken - 1) / BytesPerToken
}

// RunLimit is the longest a request may take by its own words, or else a minute.
func RunLimit(req *schemas.Request) time.Duration {
	if sr, ok := req.Value.(*schemas.SandboxRunRequest); ok {
		return time.Duration(sr.Sandbox.Resources.TimeoutSecs) * time.Second
	}
	return time.Minute
}

// outputLimit is the max_tokens that a request states, 0 if none.
func outputLimit(req *schemas.Request) int64 {
	var stated struct {
		MaxTokens int64 `json:"max_tokens"`
	}
	if json.Unmarshal(req.Canonical, &stated) != nil {
		return 0
	}
	return max(0, stated.MaxTokens)
}
