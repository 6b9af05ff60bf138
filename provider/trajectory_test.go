package provider_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/replay"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestWhatIsHashedWhen: the plan is committed before its tool is called; params
// and output are hashed in full, whatever a display shows of them; the trajectory
// is the whole session; the policy is its manifest.
func TestWhatIsHashedWhen(t *testing.T) {
	requirements.Covers(t, "OA-6.3")
	w := markettest.New(t)
	var before hashing.Digest
	w.Runner.Do = func(ctx context.Context, run provider.Run) (provider.Outcome, error) {
		job, err := w.Store.Job(ctx, run.RequestID)
		before = job.PlanHash
		if err != nil || job.Result != nil {
			t.Errorf("a job with a result runs (%v)", err)
		}
		run.OnStream("stdout", "shown in part")
		return w.Runner.Good(func(r *schemas.SandboxRunResult) { r.Runs[0].StdoutPreview = strings.Repeat("long ", 500) })
	}
	w.Serve(t, nil)
	c := w.NewCustomer(t, nil)
	p := w.Sold(t, c, w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil), receipts.ModeHold)
	job, err := w.Store.Job(w.Ctx, p.RequestID)
	markettest.Check(t, err)

	params, output := hashing.Bytes(job.Input), hashing.Bytes(p.Output)
	plan, err := hashing.SumValue(map[string]any{
		"version": 1, "job_hash": job.JobHash.String(),
		"steps": []any{map[string]any{"step_id": "step-1", "tool": "worker/count", "params_hash": params.String()}},
	})
	markettest.Check(t, err)
	file, err := w.Store.Content(w.Ctx, job.Result.Replay)
	markettest.Check(t, err)
	seen := 0
	for _, doc := range bytes.Split(bytes.TrimSpace(file), []byte("\n")) {
		line, err := replay.ParseLine(doc)
		markettest.Check(t, err)
		switch l := line.(type) {
		case *replay.PlanStart:
			seen++
			same(t, "plan in the trajectory", l.PlanHash, plan)
		case *replay.ToolCall:
			seen++
			same(t, "params", l.ParamsHash, params)
		case *replay.ToolResult:
			seen++
			same(t, "output", l.OutputHash, output)
		}
	}
	if seen != 3 {
		t.Errorf("the trajectory has %d of plan, call and result", seen)
	}
	session, err := replay.Check(bytes.NewReader(file), replay.Limits{})
	markettest.Check(t, err)
	rec, err := receipts.ParseReceipt(job.Receipt)
	markettest.Check(t, err)
	same(t, "plan before the run", before, plan)
	same(t, "plan in the receipt", rec.PlanHash, plan)
	same(t, "output in the receipt", rec.OutputHash, output)
	same(t, "trajectory", rec.TrajectoryHash, session.Hashes.Trajectory)
	manifest, err := markettest.Policy().Canonical()
	markettest.Check(t, err)
	same(t, "policy", rec.PolicyBundleID, hashing.Bytes(manifest))
}

func same(t *testing.T, what string, got, want hashing.Digest) {
	t.Helper()
	if got != want || got.IsZero() {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}
