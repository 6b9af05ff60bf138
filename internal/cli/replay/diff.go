package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/replay"
)

type replayDiffCmd struct {
	A    string `arg:"" help:"REPLAY.jsonl, or the folder of a bundle."`
	B    string `arg:"" help:"Another one."`
	JSON bool   `help:"Print JSON: whether they did the same, and what differs."`
}

// replayDiffView is what --json says.
type replayDiffView struct {
	Same bool   `json:"same"`
	Diff string `json:"diff"` // unified; "" where they did the same
}

// Run compares what two sessions did. It ends with 1 where they differ.
func (c replayDiffCmd) Run(s *app.Streams) error {
	a, err := readDeeds(c.A)
	if err != nil {
		return err
	}
	b, err := readDeeds(c.B)
	if err != nil {
		return err
	}
	changes := diff.Diff(c.A, a, c.B, b)
	if c.JSON {
		if err := app.PrintJSON(s.Out, replayDiffView{changes == nil, string(changes)}); err != nil || changes == nil {
			return err
		}
		return advice.Exit(1)
	}
	if changes == nil {
		fmt.Fprintln(s.Out, "the two sessions did the same: only times, latencies and their own names may differ")
		return nil
	}
	if _, err := s.Out.Write(changes); err != nil {
		return err
	}

	return advice.Exit(1)
}

// passing are the fields that differ between two runs of one job.
var passing = []string{"t", "created_at", "latency_ms", "total_latency_ms", "session_id", "producer", "params", "payload"}

// readDeeds gives a line for every line, without what differs from run to run.
// The hash at the end is over everything else, so that no difference hides in
// what is not shown. Params and payloads count by their hashes, so that a
// redacted session compares with a full one.
func readDeeds(path string) ([]byte, error) {
	f, _, err := checkedReplay(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	var out bytes.Buffer
	err = eachReplayLine(f, func(line replay.Line, raw []byte) error {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			return err
		}
		for _, name := range passing {
			delete(fields, name)
		}
		sum, err := hashing.SumValue(fields)
		if err != nil {
			return err
		}
		what := strings.ReplaceAll(display.Printable(deed(line)), "\n", " ")
		fmt.Fprintf(&out, "%-16s %s  #%s\n", display.Printable(line.Event()), what, display.Short(sum.String()))
		return nil
	})
	return out.Bytes(), err
}

// deed is describe without times and names of the session.
func deed(line replay.Line) string {
	switch l := line.(type) {
	case *replay.ReplayHeader:
		return ""
	case *replay.SessionStart:
		return "policy " + display.Short(l.PolicyBundleID)
	case *replay.ToolResult:
		return fmt.Sprintf("%s %s, output %s", l.ID, exitOf(l), display.Short(l.OutputHash.String()))
	case *replay.SessionEnd:
		return fmt.Sprintf("%s, %s", l.Status, display.Count(l.TotalToolCalls, "tool call"))
	}

	_, what := describe(line)
	return what
}
