// Package replay writes, reads and checks REPLAY.jsonl version 1, the record of a
// session: one JSON object per line, whose "event" field names its type.
//
// A file starts with a [ReplayHeader] and a [SessionStart] and ends with a
// [SessionEnd]. Every [ToolCall] has exactly one [ToolResult] with the same id. Three
// hashes identify a file: the trajectory hash covers its lines in canonical form, the
// redacted trajectory hash covers the same lines without "params" and "payload", and
// the replay hash covers the bytes of the file.
package replay

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
)

// Version is the value of replay_version that this package reads and writes.
const Version = 1

// The names in the "event" field.
const (
	EventHeader       = "ReplayHeader"
	EventSessionStart = "SessionStart"
	EventPlanStart    = "PlanStart"
	EventToolCall     = "ToolCall"
	EventToolResult   = "ToolResult"
	EventStepComplete = "StepComplete"
	EventVerification = "Verification"
	EventSessionEnd   = "SessionEnd"
	EventPayment      = "Payment"
	EventRuntimeEvent = "RuntimeEvent"
)

// Statuses of a step.
const (
	StepSuccess       = "Success"
	StepFailed        = "Failed"
	StepSkipped       = "Skipped"
	StepMaxIterations = "MaxIterationsReached"
)

// Statuses of a session. Readers also take the lower-case forms success,
// failure and cancelled.
const (
	SessionSuccess   = "Success"
	SessionFailed    = "Failed"
	SessionCancelled = "Cancelled"
	SessionTimeout   = "Timeout"
)

// Statuses of a payment seen from inside the session.
const (
	PaymentHeld     = "held"
	PaymentReceived = "received"
)

// Line is one line of a file: a pointer to one of the structs below.
type Line interface {
	// Event is the value of the "event" field.
	Event() string
}

// Time is an instant written as RFC 3339 in UTC with exactly three decimals.
type Time struct{ time.Time }

// timeLayout has a fixed width, so that a time has one spelling.
const timeLayout = "2006-01-02T15:04:05.000Z"

// At is t in UTC, cut to milliseconds.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// MarshalJSON writes the time in timeLayout.
func (t Time) MarshalJSON() ([]byte, error) {
	if !t.inRange() {
		return nil, fmt.Errorf("time %v is outside the years 1970 to 9999", t.UTC())
	}
	return []byte(`"` + t.UTC().Format(timeLayout) + `"`), nil
}

// UnmarshalJSON reads RFC 3339 with any offset and turns it into UTC.
func (t *Time) UnmarshalJSON(b []byte) error {
	s, ok := unquote(b)
	if !ok {
		return fmt.Errorf("a time is a string")
	}
	parsed, err := time.Parse(time.RFC3339Nano, s)
	// Go also accepts a comma before the fraction, which the RFC does not allow.
	if err != nil || strings.ContainsRune(s, ',') || !(Time{parsed}).inRange() {
		return fmt.Errorf("%q is not an RFC 3339 time from 1970 to 9999", clip(s))
	}
	*t = Time{parsed.UTC()}
	return nil
}

func (t Time) inRange() bool { return t.UTC().Year() >= 1970 && t.UTC().Year() <= 9999 }

// ReplayHeader is the first line. Producer is "name@version".
type ReplayHeader struct {
	ReplayVersion int    `json:"replay_version"`
	Producer      string `json:"producer"`
	CreatedAt     Time   `json:"created_at"`
}

// SessionStart is the second line.
type SessionStart struct {
	T              Time   `json:"t"`
	SessionID      string `json:"session_id"`
	IssueNumber    *int64 `json:"issue_number"`
	PolicyBundleID string `json:"policy_bundle_id"`
}

// PlanStart commits to the plan before anything of it runs.
type PlanStart struct {
	T         Time           `json:"t"`
	PlanHash  hashing.Digest `json:"plan_hash"`
	StepCount int64          `json:"step_count"`
}

// ToolCall is a call with its complete parameters. A [Writer] fills ParamsHash if it is
// zero. In a redacted line Params is nil and only ParamsHash remains.
type ToolCall struct {
	T          Time            `json:"t"`
	ID         string          `json:"id"`
	Tool       string          `json:"tool"`
	Params     json.RawMessage `json:"params,omitempty"`
	ParamsHash hashing.Digest  `json:"params_hash"`
	StepID     string          `json:"step_id"`
}

// ToolResult answers the ToolCall with the same ID. OutputHash covers the
// complete output. ExitCode is nil for a tool that has none. LatencyMs is in
// milliseconds, StepUtility in [-1, 1].
type ToolResult struct {
	T           Time           `json:"t"`
	ID          string         `json:"id"`
	OutputHash  hashing.Digest `json:"output_hash"`
	ExitCode    *int64         `json:"exit_code"`
	StepUtility float64        `json:"step_utility"`
	LatencyMs   int64          `json:"latency_ms"`
}

// StepComplete ends a step of the plan.
type StepComplete struct {
	T          Time   `json:"t"`
	StepID     string `json:"step_id"`
	Status     string `json:"status"`
	Iterations int64  `json:"iterations"`
}

// Verification is a run of checks. Delta is the number of failing tests before minus
// the number after.
type Verification struct {
	T         Time     `json:"t"`
	Commands  []string `json:"commands"`
	ExitCodes []int64  `json:"exit_codes"`
	Delta     int64    `json:"verification_delta"`
}

// SessionEnd is the last line. Confidence is in [0, 1], TotalLatencyMs in
// milliseconds. TotalToolCalls must equal the number of ToolCall lines.
type SessionEnd struct {
	T              Time    `json:"t"`
	Status         string  `json:"status"`
	Confidence     float64 `json:"confidence"`
	TotalToolCalls int64   `json:"total_tool_calls"`
	TotalLatencyMs int64   `json:"total_latency_ms"`
}

// Payment is what the session knew of its payment. A [Writer] requires a null
// PaymentProof: others could use a proof that is public while the money is on its way,
// so only the receipt has it.
type Payment struct {
	T            Time            `json:"t"`
	Rail         string          `json:"rail"`
	AssetID      string          `json:"asset_id"`
	AmountMsats  int64           `json:"amount_msats"`
	PaymentProof json.RawMessage `json:"payment_proof"`
	JobHash      *hashing.Digest `json:"job_hash"`
	Status       string          `json:"status"`
}

// RuntimeEvent is an event of the runtime. Seq grows within a file. A Writer
// fills PayloadHash when it is zero. In a redacted line Payload is nil.
type RuntimeEvent struct {
	T              Time            `json:"t"`
	SessionID      string          `json:"session_id"`
	Seq            int64           `json:"seq"`
	Type           string          `json:"runtime_event_type"`
	PayloadHash    hashing.Digest  `json:"payload_hash"`
	Payload        json.RawMessage `json:"payload,omitempty"`
	IdempotencyKey *string         `json:"idempotency_key"`
}

// Unknown is a line of an event that this version does not know. The hashes cover it,
// no rule applies to it, and a [Writer] refuses it.
type Unknown struct{ Name string }

// Event names the line.
func (*ReplayHeader) Event() string { return EventHeader }

// Event names the line.
func (*SessionStart) Event() string { return EventSessionStart }

// Event names the line.
func (*PlanStart) Event() string { return EventPlanStart }

// Event names the line.
func (*ToolCall) Event() string { return EventToolCall }

// Event names the line.
func (*ToolResult) Event() string { return EventToolResult }

// Event names the line.
func (*StepComplete) Event() string { return EventStepComplete }

// Event names the line.
func (*Verification) Event() string { return EventVerification }

// Event names the line.
func (*SessionEnd) Event() string { return EventSessionEnd }

// Event names the line.
func (*Payment) Event() string { return EventPayment }

// Event names the line.
func (*RuntimeEvent) Event() string { return EventRuntimeEvent }

// Event names the line.
func (u *Unknown) Event() string { return u.Name }
