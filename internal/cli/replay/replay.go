// Package replay has the commands that show, verify, compare, export and import
// trajectories.
package replay

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/replay"
)

// Cmd is lightwork replay.
type Cmd struct {
	Show   replayShowCmd   `cmd:"" help:"Show a trajectory as a timeline."`
	Verify replayVerifyCmd `cmd:"" help:"Check a trajectory and print its hashes."`
	Diff   replayDiffCmd   `cmd:"" help:"Compare what two sessions did; exit status 1 where they differ."`
	Export replayExportCmd `cmd:"" help:"Write a trajectory as jsonl, csv or a page, redacted if asked."`
	Import replayImportCmd `cmd:"" help:"Turn a ReplayBundle or run history of OpenAgents into REPLAY.jsonl."`
}

// openReplay opens REPLAY.jsonl, also by the name of its bundle.
func openReplay(path string) (*os.File, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, receipts.FileReplay)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, advice.Usage("name a REPLAY.jsonl or the folder of a bundle", "%w", err)
	}
	return f, nil
}

type replayShowCmd struct {
	File string `arg:"" help:"REPLAY.jsonl, or the folder of a bundle."`
	JSON bool   `help:"Print a JSON array of its lines."`
}

// Run prints a line for every line. The file is checked first: what is shown
// is what the hashes cover.
func (c replayShowCmd) Run(s *app.Streams) error {
	f, sum, err := checkedReplay(c.File)
	if err != nil {
		return err
	}
	defer f.Close()

	if c.JSON {
		return printReplayLines(s.Out, f)
	}
	fmt.Fprintf(s.Out, "session %s by %s, %s\n", display.Printable(sum.SessionID), display.Printable(sum.Producer), sum.Status)
	return eachReplayLine(f, func(line replay.Line, _ []byte) error {
		when, what := describe(line)
		_, err := fmt.Fprintf(s.Out, "  %-24s  %-16s %s\n", when, display.Printable(line.Event()), strings.ReplaceAll(display.Printable(what), "\n", " "))
		return err
	})
}

// printReplayLines writes the lines as one array.
func printReplayLines(w io.Writer, f *os.File) error {
	before := "[\n"
	err := eachReplayLine(f, func(_ replay.Line, raw []byte) error {
		_, err := io.WriteString(w, before+"  "+display.PlainJSON(bytes.TrimSpace(raw)))
		before = ",\n"
		return err
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, "\n]\n") // a checked file has lines
	return err
}

// describe says when a line was and what of it matters to a reader.
func describe(line replay.Line) (when, what string) {
	at := func(t replay.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }
	switch l := line.(type) {
	case *replay.ReplayHeader:
		return at(l.CreatedAt), l.Producer
	case *replay.SessionStart:
		return at(l.T), l.SessionID + ", policy " + display.Short(l.PolicyBundleID)
	case *replay.PlanStart:
		return at(l.T), fmt.Sprintf("%s, plan %s", display.Count(int64(l.StepCount), "step"), display.Short(l.PlanHash.String()))
	case *replay.Payment:
		return at(l.T), fmt.Sprintf("%s %s, %s", display.Msats(l.AmountMsats), l.AssetID, l.Status)
	case *replay.ToolCall:
		return at(l.T), fmt.Sprintf("%s %s, params %s", l.ID, l.Tool, display.Short(l.ParamsHash.String()))
	case *replay.ToolResult:
		return at(l.T), fmt.Sprintf("%s %s, %d ms, output %s", l.ID, exitOf(l), l.LatencyMs, display.Short(l.OutputHash.String()))
	case *replay.StepComplete:
		return at(l.T), l.StepID + " " + l.Status
	case *replay.Verification:
		return at(l.T), fmt.Sprintf("exit codes %v of %q", l.ExitCodes, l.Commands)
	case *replay.RuntimeEvent:
		return at(l.T), l.Type
	case *replay.SessionEnd:
		return at(l.T), fmt.Sprintf("%s, %s, %d ms", l.Status, display.Count(int64(l.TotalToolCalls), "tool call"), l.TotalLatencyMs)
	}

	return "", ""
}

func exitOf(l *replay.ToolResult) string {
	if l.ExitCode == nil {
		return "no exit code"
	}
	return fmt.Sprintf("exit %d", *l.ExitCode)
}

type replayVerifyCmd struct {
	File string `arg:"" help:"REPLAY.jsonl, or the folder of a bundle."`
	JSON bool   `help:"Print JSON."`
}

// Run checks order, pairs, counts and hashes.
func (c replayVerifyCmd) Run(s *app.Streams) error {
	f, err := openReplay(c.File)
	if err != nil {
		return err
	}
	defer f.Close()

	sum, err := replay.Check(f, replay.Limits{})
	if err != nil {
		return advice.Hint(err, "the file is not what its writer made, or not complete")
	}
	if c.JSON {
		return app.PrintJSON(s.Out, map[string]any{
			"session_id": sum.SessionID, "status": sum.Status, "policy_bundle_id": sum.PolicyBundleID,
			"tool_calls": sum.ToolCalls, "lines": sum.Hashes.Lines, "redacted": sum.IsRedacted,
			"trajectory_hash": sum.Hashes.Trajectory, "redacted_trajectory_hash": sum.Hashes.Redacted, "replay_hash": sum.Hashes.Replay,
		})
	}

	if sum.IsRedacted {
		fmt.Fprintln(s.Out, "redacted: only redacted_trajectory_hash identifies the session")
	}
	fmt.Fprintf(s.Out, "session                   %s, %s\nlines                     %d\ntrajectory_hash           %s\nredacted_trajectory_hash  %s\nreplay_hash               %s\n",
		display.Printable(sum.SessionID), sum.Status, sum.Hashes.Lines, sum.Hashes.Trajectory, sum.Hashes.Redacted, sum.Hashes.Replay)
	return nil
}
