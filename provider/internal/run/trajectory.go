package run

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
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
func planHash(j *openjob.Job, tool string) (hashing.Digest, error) {
	params := hashing.Bytes(j.Input) // which is canonical
	return hashing.SumValue(plan{1, j.JobHash.String(), []planStep{{stepID, tool, params.String()}}})
}

// trajectory writes the session of the run as REPLAY.jsonl and gathers the
// hashes that the result event and the receipt carry.
func (a *Attempt) trajectory(result *schemas.Result, out job.Outcome, finished time.Time) (*openjob.Made, error) {
	r := job.Result{
		SessionID: fmt.Sprintf("%s-%d", a.job.RequestID[:16], a.job.Run),
		Output:    result.Canonical, OutputHash: result.OutputHash, PlanHash: a.job.PlanHash,
		StartedAt: a.began, FinishedAt: finished,
	}
	agreement, err := a.job.Typed.AgreementHash(result)
	if err != nil && !errors.Is(err, schemas.ErrNoAgreement) {
		return nil, err
	}
	if err == nil {
		r.AgreementHash = &agreement
	}

	paramsHash := hashing.Bytes(a.job.Input)
	call := job.Call{Asked: a.began, Answered: finished, Params: paramsHash, Output: r.OutputHash}
	if out.Call != nil {
		if call = *out.Call; call.Params != paramsHash || call.Output != r.OutputHash {
			return nil, errJournal
		}
	}

	var file bytes.Buffer
	w := replay.NewWriter(&file)
	for _, line := range a.lines(r, result, call) {
		if err := w.Write(line); err != nil {
			return nil, err
		}
	}

	hashes, err := w.Close()
	if err != nil {
		return nil, err
	}
	r.Trajectory, r.Redacted, r.Replay = hashes.Trajectory, hashes.Redacted, hashes.Replay
	return &openjob.Made{Result: r, Replay: file.Bytes(), Artifacts: out.Artifacts}, nil
}

func (a *Attempt) lines(r job.Result, result *schemas.Result, call job.Call) []replay.Line {
	j, node := a.job, a.cfg.Node()
	latency := r.FinishedAt.Sub(r.StartedAt).Milliseconds()
	ok, exit, commands, exits := outcome(result)
	utility, step, session := 1.0, replay.StepSuccess, replay.SessionSuccess
	if !ok {
		utility, step, session = -1, replay.StepFailed, replay.SessionFailed
	}
	begin, end := replay.At(r.StartedAt), replay.At(r.FinishedAt)
	lines := []replay.Line{
		&replay.ReplayHeader{ReplayVersion: replay.Version, Producer: a.cfg.Producer, CreatedAt: begin},
		&replay.SessionStart{T: begin, SessionID: r.SessionID, PolicyBundleID: j.PolicyID.String()},
		&replay.PlanStart{T: begin, PlanHash: r.PlanHash, StepCount: 1},
	}
	if j.Payment != nil {
		status := replay.PaymentReceived
		if j.Payment.State == payments.InvoiceHeld {
			status = replay.PaymentHeld
		}
		lines = append(lines, &replay.Payment{
			T: begin, Rail: string(node.Rail()), AssetID: payments.AssetID(node.Network),
			AmountMsats: j.PriceMsats, JobHash: &j.JobHash, Status: status,
		})
	}

	return append(lines,
		&replay.ToolCall{T: replay.At(call.Asked), ID: "tc_1", Tool: a.tool, Params: j.Input, ParamsHash: call.Params, StepID: stepID},
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
