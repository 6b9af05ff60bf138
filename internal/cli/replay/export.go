package replay

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/replay"
)

type replayExportCmd struct {
	File   string `arg:"" help:"REPLAY.jsonl, or the folder of a bundle."`
	Format string `help:"jsonl, csv (a row a line, without params and payloads) or html (one page with a picture, without params and payloads). Left out: as the name of --out ends, else jsonl." default:"" enum:",jsonl,csv,html" placeholder:"FORMAT"`
	Redact bool   `aliases:"redacted" help:"Leave out the params and payload of every line; their hashes stand for them. Commands and exit codes of the Verification line stay."`
	Out    string `help:"Write here instead of standard output." placeholder:"FILE"`
}

// Run writes the trajectory, checked.
func (c replayExportCmd) Run(s *app.Streams) error {
	f, sum, err := checkedReplay(c.File)
	if err != nil {
		return err
	}
	defer f.Close()

	if c.Format == "" {
		c.Format = strings.TrimPrefix(filepath.Ext(c.Out), ".")
	}

	var out bytes.Buffer // what is written is whole
	switch {
	case c.Format == "csv":
		err = exportCSV(f, &out)
	case c.Format == "html":
		err = exportHTML(f, sum, &out)
	case c.Redact:
		err = replay.Redact(f, &out)
	default:
		_, err = io.Copy(&out, f)
	}

	if err != nil {
		return err
	}
	return writeNew(c.Out, s.Out, out.Bytes())
}

// exportCSV writes a row for every line. Params and payloads are left out:
// their hashes are in the column hash.
func exportCSV(r io.Reader, out io.Writer) error {
	w := csv.NewWriter(out)
	if err := w.Write([]string{"line", "event", "time", "id", "tool", "step", "status", "exit_code", "latency_ms", "amount_msats", "hash", "detail"}); err != nil {
		return err
	}
	n := 0
	err := eachReplayLine(r, func(line replay.Line, _ []byte) error {
		n++
		row := rowOf(line)
		row[0] = strconv.Itoa(n)
		for i := range row {
			row[i] = harmless(row[i])
		}
		return w.Write(row[:])
	})
	w.Flush()
	return cmp.Or(err, w.Error())
}

func rowOf(line replay.Line) (row [12]string) {
	const event, at, id, tool, step, status, exit, latency, amount, hash, detail = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
	row[event] = line.Event()
	row[at], row[detail] = describe(line)
	row[at] = strings.Replace(row[at], " ", "T", 1)

	switch l := line.(type) {
	case *replay.SessionStart:
		row[id], row[hash] = l.SessionID, l.PolicyBundleID
	case *replay.PlanStart:
		row[hash] = l.PlanHash.String()
	case *replay.Payment:
		row[status], row[amount] = l.Status, strconv.FormatInt(l.AmountMsats, 10)
	case *replay.ToolCall:
		row[id], row[tool], row[step], row[hash] = l.ID, l.Tool, l.StepID, l.ParamsHash.String()
	case *replay.ToolResult:
		row[id], row[latency], row[hash] = l.ID, strconv.FormatInt(l.LatencyMs, 10), l.OutputHash.String()
		if l.ExitCode != nil {
			row[exit] = strconv.FormatInt(*l.ExitCode, 10)
		}
	case *replay.StepComplete:
		row[step], row[status] = l.StepID, l.Status
	case *replay.RuntimeEvent:
		row[hash] = l.PayloadHash.String()
	case *replay.SessionEnd:
		row[status], row[latency] = l.Status, strconv.FormatInt(l.TotalLatencyMs, 10)
	}

	return row
}

// harmless keeps a spreadsheet from taking text for a formula. Numbers, also
// those below zero, stay numbers.
func harmless(cell string) string {
	cell = strings.ReplaceAll(display.Printable(cell), "\n", " ")
	if _, err := strconv.ParseInt(cell, 10, 64); err == nil || cell == "" || !strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return cell
	}
	return "'" + cell
}
