package receipts

import (
	"encoding/json"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/schemas"
)

// Price is a provider's announced price table for a job type. Both sides compute a
// job's price from it before the run, so it charges the most that the request allows.
type Price struct {
	BaseMsats      int64 `json:"base_msats"`
	PerMinuteMsats int64 `json:"per_minute_msats"` // for each begun minute of the request's limit
	// The prices of 1000 tokens. Input counts one token for every 4 bytes of the
	// canonical request. Output counts the request's max_tokens, or MaxOutputTokens if
	// it states none.
	InputMsats      int64 `json:"input_tokens_per_1k_msats"`
	OutputMsats     int64 `json:"output_tokens_per_1k_msats"`
	MaxOutputTokens int64 `json:"max_output_tokens"`
	// EngagementMsats is the fee for attempting a job whose result may go unpaid, on
	// top of the price; see [Price.Engagement].
	EngagementMsats int64 `json:"engagement_msats,omitzero"`
}

// Engagement is the engagement fee of a request in msats, 0 if there is none. It is
// charged for jobs that can be done as ordered and still go unpaid: those whose request
// states conditions for the result, and those in a panel where a judge or a merge
// decides afterwards which results are paid.
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

// BytesPerToken defines a token, so that both sides count alike without a tokenizer.
const BytesPerToken = 4

// Valid reports whether all prices are in range.
func (p Price) Valid() bool {
	for _, n := range []int64{p.BaseMsats, p.PerMinuteMsats, p.InputMsats, p.OutputMsats, p.MaxOutputTokens, p.EngagementMsats} {
		if payments.CheckMsats(n) != nil {
			return false
		}
	}
	return p.OutputMsats == 0 || p.MaxOutputTokens > 0
}

// For is the price of a request in msats. It reports false if that exceeds every
// amount, or if the request wants more output than the table allows.
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

// RunLimit is the time limit that a request states, or one minute.
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
