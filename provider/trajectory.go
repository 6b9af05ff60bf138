package provider

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/replay"
	"github.com/lightwork-market/lightwork/schemas"
)

const stepID = "step-1"

// plan is what will be done, fixed before it is done.
type plan struct {
	Version int        `json:"version"`
	JobHash string     `json:"job_hash"`
	Steps   []planStep `json:"steps"`
}

type planStep struct {
	StepID     string `json:"step_id"`
	Tool       string `json:"tool"`
	ParamsHash string `json:"params_hash"`
}

// errJournal: what ran is not what the journal says. Such a result is not
// delivered.
var errJournal = errors.New("the journal has another call")

// planHash is the hash of what a run of the job will do: it is committed before
// the tool is called (OA-6.3).
func planHash(job Job, tool string) (hashing.Digest, error) {
	params := hashing.Bytes(job.Input) // which is canonical
	return hashing.SumValue(plan{1, job.JobHash.String(), []planStep{{stepID, tool, params.String()}}})
}

// trajectory writes the session of one run as REPLAY.jsonl and gathers the
// hashes that the result event and the receipt carry.
func (p *Provider) trajectory(job Job, req *schemas.Request, result *schemas.Result, tool string, out Outcome, started, finished time.Time) (Result, []byte, error) {
	r := Result{
		SessionID: fmt.Sprintf("%s-%d", job.RequestID[:16], job.Run),
		Output:    result.Canonical, OutputHash: result.OutputHash, PlanHash: job.PlanHash,
		StartedAt: started, FinishedAt: finished,
	}
	agreement, err := req.AgreementHash(result)
	if err != nil && !errors.Is(err, schemas.ErrNoAgreement) {
		return Result{}, nil, err
	}
	if err == nil {
		r.AgreementHash = &agreement
	}
	paramsHash := hashing.Bytes(job.Input)
	call := Call{Asked: started, Answered: finished, Params: paramsHash, Output: r.OutputHash}
	if out.Call != nil {
		if call = *out.Call; call.Params != paramsHash || call.Output != r.OutputHash {
			return Result{}, nil, errJournal
		}
	}

	var file bytes.Buffer
	w := replay.NewWriter(&file)
	for _, line := range p.lines(job, r, result, tool, call) {
		if err := w.Write(line); err != nil {
			return Result{}, nil, err
		}
	}

	hashes, err := w.Close()
	if err != nil {
		return Result{}, nil, err
	}
	r.Trajectory, r.Redacted, r.Replay = hashes.Trajectory, hashes.Redacted, hashes.Replay
	return r, file.Bytes(), nil
}

func (p *Provider) lines(job Job, r Result, result *schemas.Result, tool string, call Call) []replay.Line {
	latency := r.FinishedAt.Sub(r.StartedAt).Milliseconds()
	ok, exit, commands, exits := outcome(result)
	utility, step, session := 1.0, replay.StepSuccess, replay.SessionSuccess
	if !ok {
		utility, step, session = -1, replay.StepFailed, replay.SessionFailed
	}
	begin, end := replay.At(r.StartedAt), replay.At(r.FinishedAt)
	lines := []replay.Line{
		&replay.ReplayHeader{ReplayVersion: replay.Version, Producer: p.cfg.Profile.Producer, CreatedAt: begin},
		&replay.SessionStart{T: begin, SessionID: r.SessionID, PolicyBundleID: job.PolicyID.String()},
		&replay.PlanStart{T: begin, PlanHash: r.PlanHash, StepCount: 1},
	}
	if job.Payment != nil {
		status := replay.PaymentReceived
		if job.Payment.State == payments.InvoiceHeld {
			status = replay.PaymentHeld
		}
		lines = append(lines, &replay.Payment{
			T: begin, Rail: string(p.node.Rail()), AssetID: payments.AssetID(p.node.Network),
			AmountMsats: job.PriceMsats, JobHash: &job.JobHash, Status: status,
		})
	}

	return append(lines,
		&replay.ToolCall{T: replay.At(call.Asked), ID: "tc_1", Tool: tool, Params: job.Input, ParamsHash: call.Params, StepID: stepID},
		&replay.ToolResult{
			T: replay.At(call.Answered), ID: "tc_1", OutputHash: call.Output, ExitCode: exit, StepUtility: utility,
			LatencyMs: call.Answered.Sub(call.Asked).Milliseconds(),
		},
		&replay.StepComplete{T: end, StepID: stepID, Status: step, Iterations: 1},
		&replay.Verification{T: end, Commands: commands, ExitCodes: exits},
		&replay.SessionEnd{T: end, Status: session, Confidence: float64(result.Confidence()) / 100, TotalToolCalls: 1, TotalLatencyMs: latency},
	)
}

// outcome reads success, exit code and the commands from an objective result.
func outcome(result *schemas.Result) (ok bool, exit *int64, commands []string, exits []int64) {
	out, isRun := result.Value.(*schemas.SandboxRunResult)
	if !isRun {
		return true, nil, []string{}, []int64{}
	}
	commands, exits = []string{}, []int64{}
	for _, run := range out.Runs {
		commands, exits = append(commands, run.Cmd), append(exits, int64(run.ExitCode))
	}
	if n := len(exits); n > 0 {
		exit = &exits[n-1]
	}
	return out.Status == "success", exit, commands, exits
}
