package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/cli/jobs"
	"github.com/lightwork-market/lightwork/internal/node/organisms"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/testclass"
	"github.com/lightwork-market/lightwork/receipts"
)

// demoed is what a demo left: a sold and bought job.
type demoed struct {
	dir    string
	sold   jobs.TraceView
	bought jobs.TraceView
	replay []map[string]any // the lines of REPLAY.jsonl
}

func runDemo(t *testing.T) demoed {
	t.Helper()
	d := demoed{dir: filepath.Join(t.TempDir(), "d")}
	program := filepath.Join(binDir, "lightwork")
	if out, err := exec.CommandContext(t.Context(), program, "demo", "--out", d.dir).CombinedOutput(); err != nil {
		t.Fatalf("demo: %v\n%s", err, out)
	}
	conf := filepath.Join(d.dir, "lightwork.yaml")
	var list []jobs.JobView
	var traces []jobs.TraceView
	for _, ask := range []struct {
		args func() []string
		into any
	}{
		{func() []string { return []string{"-c", conf, "jobs", "list", "--json"} }, &list},
		{func() []string { return []string{"-c", conf, "jobs", "trace", list[0].RequestID, "--json"} }, &traces},
	} {
		out, err := exec.CommandContext(t.Context(), program, ask.args()...).Output()
		if err == nil {
			err = json.Unmarshal(out, ask.into)
		}
		if err != nil || len(list) != 1 {
			t.Fatalf("%d jobs, %v\n%s", len(list), err, out)
		}
	}
	if len(traces) != 2 {
		t.Fatalf("%d traces", len(traces))
	}
	d.sold, d.bought = traces[0], traces[1]
	doc, err := os.ReadFile(filepath.Join(d.dir, "bundle", "REPLAY.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(doc) {
		var v map[string]any
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		d.replay = append(d.replay, v)
	}
	return d
}

// line is the one of the record that an event names.
func (d demoed) line(t *testing.T, event string) map[string]any {
	t.Helper()
	i := slices.IndexFunc(d.replay, func(v map[string]any) bool { return v["event"] == event })
	if i < 0 {
		t.Fatalf("the record has no %s", event)
	}
	return d.replay[i]
}

// entry is the journal entry of a direction: its time, tag and payload hash.
func (d demoed) entry(t *testing.T, direction string) (at time.Time, tag, hash string) {
	t.Helper()
	for _, l := range d.sold.Lines {
		if f := strings.Fields(l.Text); l.Kind == "message" && f[0] == direction {
			return l.At, f[2], f[3]
		}
	}
	t.Fatalf("the journal has nothing that is %s", direction)
	return at, "", ""
}

// TestRecordIsTheJournals: what REPLAY.jsonl says of a call is what the journal
// says of it, entry by entry, and the receipt is of that very record.
func TestRecordIsTheJournals(t *testing.T) {
	requirements.Covers(t, "M-4")
	d := runDemo(t)
	asked, tag, params := d.entry(t, "Outbound")
	answered, answer, output := d.entry(t, "Inbound")
	if answer != tag+organisms.ResultSuffix {
		t.Errorf("%s answers %s", answer, tag)
	}
	// Rebuilt from the two entries alone:
	for event, want := range map[string]map[string]any{
		"ToolCall":   {"t": stamp(asked), "params_hash": params},
		"ToolResult": {"t": stamp(answered), "output_hash": output, "latency_ms": float64(answered.Sub(asked).Milliseconds())},
	} {
		line := d.line(t, event)
		for field, v := range want {
			if line[field] != v {
				t.Errorf("%s.%s is %v, the journal has %v", event, field, line[field], v)
			}
		}
	}
	if ids := d.sold.Names["session_id"]; len(ids) != 1 || d.line(t, "SessionStart")["session_id"] != ids[0] {
		t.Errorf("session %v, the record has %v", ids, d.line(t, "SessionStart")["session_id"])
	}
	doc, err := os.ReadFile(filepath.Join(d.dir, "bundle", "RECEIPT.json"))
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := receipts.ParseReceipt(doc)
	if err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile(filepath.Join(d.dir, "bundle", "REPLAY.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	_, lines, _ := bytes.Cut(bytes.TrimSpace(record), []byte("\n")) // all but the header
	session := slices.Concat([]byte("["), bytes.ReplaceAll(lines, []byte("\n"), []byte(",")), []byte("]"))
	if got := hashing.Bytes(session); got != receipt.TrajectoryHash {
		t.Errorf("the record is %s, the receipt is of %s", got, receipt.TrajectoryHash)
	}
	if receipt.JobHash.String() != params {
		t.Errorf("the receipt is of job %s, the journal's call of %s", receipt.JobHash, params)
	}
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// TestOneStateMachine: a job that succeeds, one that fails and one that is
// canceled, as the provider's state, the relays, the journal and the agent's call
// have them.
func TestOneStateMachine(t *testing.T) {
	requirements.Covers(t, "M-3")
	sdk, err := filepath.Abs("../../sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		testclass.NotInstalled(t, "python3")
	}
	runScripts(t, testscript.Params{
		Files: []string{"testdata/named/states.txtar"},
		Setup: func(e *testscript.Env) error { e.Setenv("SDK", sdk); return nil },
	})
}

// TestRegistry: what there is of agents is read off one table, in every view.
func TestRegistry(t *testing.T) {
	requirements.Covers(t, "M-7")
	runScripts(t, testscript.Params{Files: []string{"testdata/named/registry.txtar"}, Setup: withSeller})
}
