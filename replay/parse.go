package replay

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/lightwork-market/lightwork/hashing"
)

var rails = []string{"lightning", "cashu", "onchain", "taproot_assets"}

// ParseLine reads one line, which is a JSON object without its line end.
// Unknown fields are ignored; an optional field may be null or absent; an
// unknown event gives *Unknown. A params_hash or payload_hash that is not the
// hash of its value is an error.
func ParseLine(doc []byte) (Line, error) {
	line, err := parse(newObject(bytes.Clone(doc)))
	if err != nil {
		return nil, fmt.Errorf("replay line: %w", err)
	}
	return line, nil
}

func parse(o *object) (Line, error) {
	event := o.name("event")
	if o.err != nil {
		return nil, o.err
	}

	var line Line
	switch event {
	case EventHeader:
		line = &ReplayHeader{
			ReplayVersion: int(o.integer("replay_version", Version, Version)),
			Producer:      o.name("producer"),
			CreatedAt:     o.time("created_at"),
		}
	case EventSessionStart:
		line = &SessionStart{
			T: o.time("t"), SessionID: o.name("session_id"),
			IssueNumber: o.optionalInteger("issue_number"), PolicyBundleID: o.name("policy_bundle_id"),
		}
	case EventPlanStart:
		line = &PlanStart{T: o.time("t"), PlanHash: o.digest("plan_hash"), StepCount: o.count("step_count")}
	case EventToolCall:
		c := &ToolCall{T: o.time("t"), ID: o.name("id"), Tool: o.name("tool"), StepID: o.text("step_id", maxName)}
		c.Params, c.ParamsHash = o.hashedValue("params", "params_hash")
		line = c
	case EventToolResult:
		line = &ToolResult{
			T: o.time("t"), ID: o.name("id"), OutputHash: o.digest("output_hash"), ExitCode: o.optionalInteger("exit_code"),
			StepUtility: o.ratio("step_utility", -1, 1), LatencyMs: o.count("latency_ms"),
		}
	case EventStepComplete:
		line = &StepComplete{
			T: o.time("t"), StepID: o.name("step_id"), Iterations: o.count("iterations"),
			Status: o.oneOf("status", StepSuccess, StepFailed, StepSkipped, StepMaxIterations),
		}
	case EventSessionEnd:
		line = parseSessionEnd(o)
	case EventVerification:
		line = parseVerification(o)
	case EventPayment:
		line = parsePayment(o)
	case EventRuntimeEvent:
		e := &RuntimeEvent{
			T: o.time("t"), SessionID: o.name("session_id"), Seq: o.count("seq"),
			Type: o.name("runtime_event_type"), IdempotencyKey: o.optionalName("idempotency_key"),
		}
		e.Payload, e.PayloadHash = o.hashedValue("payload", "payload_hash")
		line = e
	default:
		line = &Unknown{Name: event}
	}

	if o.err != nil {
		return nil, fmt.Errorf("%q: %w", clip(event), o.err)
	}
	return line, nil
}

func parseSessionEnd(o *object) *SessionEnd {
	status := o.oneOf("status", SessionSuccess, SessionFailed, SessionCancelled, SessionTimeout, "success", "failure", "cancelled")
	switch status {
	case "success":
		status = SessionSuccess
	case "failure":
		status = SessionFailed
	case "cancelled":
		status = SessionCancelled
	}

	return &SessionEnd{
		T: o.time("t"), Status: status, Confidence: o.ratio("confidence", 0, 1),
		TotalToolCalls: o.count("total_tool_calls"), TotalLatencyMs: o.count("total_latency_ms"),
	}
}

func parseVerification(o *object) *Verification {
	v := &Verification{
		T: o.time("t"), Commands: o.texts("commands"), ExitCodes: o.integers("exit_codes"),
		Delta: o.integer("verification_delta", -maxInteger, maxInteger),
	}
	if len(v.Commands) != len(v.ExitCodes) {
		o.fail("exit_codes", "%d for %d commands", len(v.ExitCodes), len(v.Commands))
	}
	return v
}

func parsePayment(o *object) *Payment {
	p := &Payment{
		T: o.time("t"), Rail: o.oneOf("rail", rails...), AssetID: o.name("asset_id"),
		AmountMsats: o.count("amount_msats"), Status: o.name("status"), PaymentProof: json.RawMessage("null"),
	}
	if !o.absent("payment_proof") {
		p.PaymentProof = bytes.Clone(o.raw("payment_proof")) // a Summary outlives the line
	}
	if !o.absent("job_hash") {
		d := o.digest("job_hash")
		p.JobHash = &d
	}
	return p
}

// EncodeLine returns the canonical form of a line, without a line end. It fills a zero
// params_hash or payload_hash and refuses a line that [ParseLine] would refuse.
func EncodeLine(line Line) ([]byte, error) {
	doc, _, err := encode(line)
	return doc, err
}

// encode is EncodeLine and also returns the encoded line as an object.
func encode(line Line) ([]byte, *object, error) {
	body, err := prepare(line)
	if err != nil {
		return nil, nil, err
	}
	doc, err := json.Marshal(body)
	if err != nil {
		return nil, nil, fmt.Errorf("encode %s: %w", line.Event(), err)
	}

	// No event that can be written has a name that needs escapes.
	tagged := append([]byte(`{"event":"`+line.Event()+`",`), doc[1:]...)
	doc, err = hashing.CanonicalValue(json.RawMessage(tagged))
	if err != nil {
		return nil, nil, fmt.Errorf("encode %s: %w", line.Event(), err)
	}
	o := newObject(doc)
	if _, err := parse(o); err != nil {
		return nil, nil, fmt.Errorf("encode %w", err)
	}
	return doc, o, nil
}

// prepare returns a copy of the line in which hashes and null fields are set.
func prepare(line Line) (any, error) {
	switch l := line.(type) {
	case *ToolCall:
		c := *l
		var err error
		c.Params, c.ParamsHash, err = fillHash(c.Params, c.ParamsHash)
		return c, err
	case *RuntimeEvent:
		e := *l
		var err error
		e.Payload, e.PayloadHash, err = fillHash(e.Payload, e.PayloadHash)
		return e, err
	case *Payment:
		p := *l
		if len(p.PaymentProof) == 0 {
			p.PaymentProof = json.RawMessage("null")
		}
		return p, nil
	case *Verification:
		v := *l
		v.Commands, v.ExitCodes = append([]string{}, v.Commands...), append([]int64{}, v.ExitCodes...)
		return v, nil
	case *Unknown:
		return nil, fmt.Errorf("encode %q: unknown event", clip(l.Name))
	case nil:
		return nil, fmt.Errorf("encode: no line")
	}

	return line, nil
}

func fillHash(value json.RawMessage, digest hashing.Digest) (json.RawMessage, hashing.Digest, error) {
	if len(value) == 0 || !digest.IsZero() {
		return value, digest, nil
	}
	digest, err := hashing.Sum(value)
	return value, digest, err
}
