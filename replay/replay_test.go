package replay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/replay"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 123_456_789, time.FixedZone("", 3600))

func at(ms int) replay.Time { return replay.At(start.Add(time.Duration(ms) * time.Millisecond)) }

// session is a complete one that uses every kind of line.
func session() []replay.Line {
	zero, key := int64(0), "idem-1"
	job := hashing.Bytes([]byte("job"))
	return []replay.Line{
		&replay.ReplayHeader{Producer: "lightwork@test", CreatedAt: at(0)},
		&replay.SessionStart{T: at(0), SessionID: "s-1", PolicyBundleID: "sha256:policy"},
		&replay.PlanStart{T: at(0), PlanHash: hashing.Bytes([]byte("plan")), StepCount: 2},
		&replay.Payment{T: at(1), Rail: "lightning", AssetID: "PLAY_LN", AmountMsats: 21, JobHash: &job, Status: replay.PaymentHeld},
		&replay.ToolCall{T: at(2), ID: "tc_1", Tool: "read", Params: json.RawMessage(`{"b":1, "a":"<&>"}`), StepID: "step-1"},
		&replay.RuntimeEvent{T: at(3), SessionID: "s-1", Seq: 7, Type: "stdout", Payload: json.RawMessage(`{"secret":"x"}`), IdempotencyKey: &key},
		&replay.ToolCall{T: at(3), ID: "tc_2", Tool: "read", Params: json.RawMessage(`null`), StepID: "step-1"},
		&replay.ToolResult{T: at(4), ID: "tc_2", OutputHash: hashing.Bytes([]byte("two")), StepUtility: -1, LatencyMs: 1},
		&replay.ToolResult{T: at(5), ID: "tc_1", OutputHash: hashing.Bytes([]byte("one")), ExitCode: &zero, StepUtility: 0.8, LatencyMs: 45},
		&replay.StepComplete{T: at(5), StepID: "step-1", Status: replay.StepSuccess, Iterations: 1},
		&replay.Verification{T: at(6), Commands: []string{"make check"}, ExitCodes: []int64{0}, Delta: 3},
		&replay.SessionEnd{T: at(7), Status: replay.SessionSuccess, Confidence: 0.92, TotalToolCalls: 2, TotalLatencyMs: 46},
	}
}

func write(t testing.TB, lines []replay.Line) ([]byte, replay.Hashes) {
	t.Helper()
	var out bytes.Buffer
	w := replay.NewWriter(&out)
	for _, l := range lines {
		if err := w.Write(l); err != nil {
			t.Fatal(err)
		}
	}
	hashes, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), hashes
}

func check(t testing.TB, file []byte) *replay.Summary {
	t.Helper()
	s, err := replay.Check(bytes.NewReader(file), replay.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func redact(t testing.TB, file []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := replay.Redact(bytes.NewReader(file), &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestWriteThenCheck(t *testing.T) {
	requirements.Covers(t, "OA-5.1")
	file, hashes := write(t, session())
	s := check(t, file)
	if s.Hashes != hashes {
		t.Errorf("checked %+v, wrote %+v", s.Hashes, hashes)
	}
	if s.Lines != 12 || s.SessionID != "s-1" || s.PolicyBundleID != "sha256:policy" || s.Status != replay.SessionSuccess ||
		s.ToolCalls != 2 || s.IsRedacted || s.Producer != "lightwork@test" {
		t.Errorf("summary %+v", s)
	}
	if *s.Plan != hashing.Bytes([]byte("plan")) || *s.Output != hashing.Bytes([]byte("one")) {
		t.Errorf("plan %s, output %s", s.Plan, s.Output)
	}
	if len(s.Payments) != 1 || s.Payments[0].AmountMsats != 21 || string(s.Payments[0].PaymentProof) != "null" {
		t.Errorf("payments %+v", s.Payments)
	}
	if !s.PaidFirst {
		t.Error("the payment before the first call is not seen as such")
	}
	late := session()
	late[3], late[4] = late[4], late[3]
	file, _ = write(t, late)
	if check(t, file).PaidFirst {
		t.Error("a payment after the first call is taken for one before it")
	}
	both := append(late[:5:5], append([]replay.Line{session()[3]}, late[5:]...)...)
	file, _ = write(t, both)
	if check(t, file).PaidFirst {
		t.Error("a second payment makes up for a late first one")
	}
}

// The three hashes, computed here from their definitions alone.
func TestHashesByDefinition(t *testing.T) {
	file, hashes := write(t, session())
	lines := strings.Split(strings.TrimSuffix(string(file), "\n"), "\n")
	if got := hashing.Bytes(file); got != hashes.Replay {
		t.Errorf("replay_hash %s, want the file's %s", hashes.Replay, got)
	}
	array := "[" + strings.Join(lines[1:], ",") + "]"
	want, err := hashing.Sum([]byte(array))
	if err != nil {
		t.Fatal(err)
	}
	if hashes.Trajectory != want {
		t.Errorf("trajectory_hash %s, want %s", hashes.Trajectory, want)
	}
	var values []map[string]any
	if err := json.Unmarshal([]byte(array), &values); err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		delete(v, "params")
		delete(v, "payload")
	}
	if want, err = hashing.SumValue(values); err != nil || hashes.Redacted != want {
		t.Errorf("redacted_trajectory_hash %s, want %s (%v)", hashes.Redacted, want, err)
	}
	// The header is outside the trajectory.
	other := session()
	other[0].(*replay.ReplayHeader).Producer = "else@1"
	_, moved := write(t, other)
	if moved.Trajectory != hashes.Trajectory || moved.Replay == hashes.Replay {
		t.Error("the producer must change the file's hash and no other")
	}
}

func TestLinesAreCanonicalAndComplete(t *testing.T) {
	file, _ := write(t, session())
	for _, line := range bytes.Split(bytes.TrimSuffix(file, []byte("\n")), []byte("\n")) {
		canonical, err := hashing.Canonical(line)
		if err != nil || !bytes.Equal(canonical, line) {
			t.Errorf("not canonical: %s (%v)", line, err)
		}
	}
	for _, want := range []string{
		`"t":"2026-01-01T11:00:00.123Z"`, `"issue_number":null`, `"exit_code":null`, `"payment_proof":null`, `"replay_version":1`,
		`"params":{"a":"<&>","b":1}`, `"params":null`,
	} {
		if !bytes.Contains(file, []byte(want)) {
			t.Errorf("no %s", want)
		}
	}
}

func TestRedact(t *testing.T) {
	file, hashes := write(t, session())
	redacted := redact(t, file)
	for _, gone := range []string{`"params":`, `"payload":`, "secret", "lightwork@test"} {
		if bytes.Contains(redacted, []byte(gone)) {
			t.Errorf("still has %s", gone)
		}
	}
	s := check(t, redacted)
	if !s.IsRedacted || s.Redacted != hashes.Redacted || s.Trajectory != hashes.Redacted || s.ToolCalls != 2 {
		t.Errorf("summary %+v", s)
	}
	if again := redact(t, redacted); !bytes.Equal(again, redacted) {
		t.Error("redacting twice is not redacting once")
	}
	// Nothing but its hash binds a redacted file, so its form is fixed.
	for name, change := range map[string][2]string{
		"producer":       {`"redacted@1"`, `"redacted@2"`},
		"time of header": {`"created_at":"2026-01-01T11:00:00.123Z"`, `"created_at":"2026-01-01T11:00:00.124Z"`},
		"extra field":    {`{"created_at"`, `{"a":1,"created_at"`},
		"white space":    {`"replay_version":1}`, `"replay_version":1 }`},
		"white space 2":  {`{"confidence"`, `{ "confidence"`},
		"params back":    {`"params_hash"`, `"params":1,"params_hash"`},
		"stray payload":  {`"iterations":1`, `"iterations":1,"payload":1`},
	} {
		spoiled := bytes.Replace(redacted, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(spoiled, redacted) {
			t.Fatalf("%s: nothing changed", name)
		}
		if _, err := replay.Check(bytes.NewReader(spoiled), replay.Limits{}); !errors.Is(err, replay.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRedactOfASessionWithoutCalls(t *testing.T) {
	lines := []replay.Line{
		session()[0], session()[1],
		&replay.SessionEnd{T: at(7), Status: replay.SessionCancelled, Confidence: 0},
	}
	file, hashes := write(t, lines)
	if s := check(t, file); s.IsRedacted {
		t.Error("a full file is taken for a redacted one")
	}
	if s := check(t, redact(t, file)); !s.IsRedacted || s.Redacted != hashes.Redacted {
		t.Errorf("summary %+v", s)
	}
}

func TestRedactRefusesABrokenFile(t *testing.T) {
	file, _ := write(t, session())
	if err := replay.Redact(bytes.NewReader(file[:len(file)-1]), &bytes.Buffer{}); !errors.Is(err, replay.ErrInvalid) {
		t.Errorf("%v", err)
	}
	if err := replay.Redact(bytes.NewReader(file), brokenWriter{}); !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
}

var errBroken = errors.New("disk full")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestWriterRefuses(t *testing.T) {
	for name, change := range map[string]func([]replay.Line) []replay.Line{
		"no header":           func(l []replay.Line) []replay.Line { return l[1:] },
		"no start":            func(l []replay.Line) []replay.Line { return append(l[:1:1], l[2:]...) },
		"header twice":        func(l []replay.Line) []replay.Line { return append(l[:1:1], l...) },
		"start twice":         func(l []replay.Line) []replay.Line { return append(l[:2:2], l[1:]...) },
		"plan twice":          func(l []replay.Line) []replay.Line { return append(l[:3:3], l[2:]...) },
		"plan after a call":   func(l []replay.Line) []replay.Line { return append(append(l[:2:2], l[4]), l[2:]...) },
		"call id twice":       func(l []replay.Line) []replay.Line { l[6].(*replay.ToolCall).ID = "tc_1"; return l },
		"result first":        func(l []replay.Line) []replay.Line { return append(l[:4:4], l[7:]...) },
		"result twice":        func(l []replay.Line) []replay.Line { return append(l[:8:8], l[7:]...) },
		"call without result": func(l []replay.Line) []replay.Line { return append(l[:7:7], l[8:]...) },
		"too few calls":       func(l []replay.Line) []replay.Line { l[11].(*replay.SessionEnd).TotalToolCalls = 3; return l },
		"line after the end":  func(l []replay.Line) []replay.Line { return append(l, l[10]) },
		"no end":              func(l []replay.Line) []replay.Line { return l[:11] },
		"step twice":          func(l []replay.Line) []replay.Line { return append(l[:10:10], l[9:]...) },
		"more steps":          func(l []replay.Line) []replay.Line { l[2].(*replay.PlanStart).StepCount = 0; return l },
		"other session":       func(l []replay.Line) []replay.Line { l[5].(*replay.RuntimeEvent).SessionID = "s-2"; return l },
		"seq back":            func(l []replay.Line) []replay.Line { return append(l[:6:6], l[5:]...) },
		"version":             func(l []replay.Line) []replay.Line { l[0].(*replay.ReplayHeader).ReplayVersion = 2; return l },
		"no producer":         func(l []replay.Line) []replay.Line { l[0].(*replay.ReplayHeader).Producer = ""; return l },
		"no session id":       func(l []replay.Line) []replay.Line { l[1].(*replay.SessionStart).SessionID = ""; return l },
		"params left out":     func(l []replay.Line) []replay.Line { l[4].(*replay.ToolCall).Params = nil; return l },
		"payload left out":    func(l []replay.Line) []replay.Line { l[5].(*replay.RuntimeEvent).Payload = nil; return l },
		"wrong params hash":   func(l []replay.Line) []replay.Line { l[4].(*replay.ToolCall).ParamsHash[0]++; return l },
		"params not JSON":     func(l []replay.Line) []replay.Line { l[4].(*replay.ToolCall).Params = json.RawMessage("x"); return l },
		"params two keys": func(l []replay.Line) []replay.Line {
			l[4].(*replay.ToolCall).Params = json.RawMessage(`{"a":1,"a":2}`)
			return l
		},
		"proof in the session": func(l []replay.Line) []replay.Line {
			l[3].(*replay.Payment).PaymentProof = json.RawMessage(`"aa"`)
			return l
		},
		"payment status":       func(l []replay.Line) []replay.Line { l[3].(*replay.Payment).Status = "settled"; return l },
		"payment rail":         func(l []replay.Line) []replay.Line { l[3].(*replay.Payment).Rail = "cash"; return l },
		"negative amount":      func(l []replay.Line) []replay.Line { l[3].(*replay.Payment).AmountMsats = -1; return l },
		"amount over 2^53-1":   func(l []replay.Line) []replay.Line { l[3].(*replay.Payment).AmountMsats = 1 << 53; return l },
		"utility":              func(l []replay.Line) []replay.Line { l[7].(*replay.ToolResult).StepUtility = 1.5; return l },
		"negative latency":     func(l []replay.Line) []replay.Line { l[7].(*replay.ToolResult).LatencyMs = -1; return l },
		"step status":          func(l []replay.Line) []replay.Line { l[9].(*replay.StepComplete).Status = "OK"; return l },
		"commands, exit codes": func(l []replay.Line) []replay.Line { l[10].(*replay.Verification).ExitCodes = nil; return l },
		"confidence":           func(l []replay.Line) []replay.Line { l[11].(*replay.SessionEnd).Confidence = 92; return l },
		"session status":       func(l []replay.Line) []replay.Line { l[11].(*replay.SessionEnd).Status = "Done"; return l },
		"year 10000": func(l []replay.Line) []replay.Line {
			l[11].(*replay.SessionEnd).T = replay.At(start.AddDate(8000, 0, 0))
			return l
		},
		"unknown event": func(l []replay.Line) []replay.Line { l[9] = &replay.Unknown{Name: "Note"}; return l },
		"nothing":       func([]replay.Line) []replay.Line { return nil },
		"nil":           func(l []replay.Line) []replay.Line { l[9] = nil; return l },
	} {
		t.Run(name, func(t *testing.T) {
			w := replay.NewWriter(&bytes.Buffer{})
			var err error
			for _, l := range change(session()) {
				if err = w.Write(l); err != nil {
					break
				}
			}
			if _, closeErr := w.Close(); closeErr == nil {
				t.Fatal("a broken session was closed")
			}
			if err == nil && name != "no end" && name != "nothing" {
				t.Error("only Close noticed")
			}
		})
	}
}

func TestWriterStopsAtTheFirstError(t *testing.T) {
	w := replay.NewWriter(brokenWriter{})
	first := w.Write(session()[0])
	if !errors.Is(first, errBroken) {
		t.Fatalf("%v", first)
	}
	if again := w.Write(session()[0]); !errors.Is(again, errBroken) {
		t.Errorf("%v", again)
	}
	_, closed := write(t, session())
	if closed.Lines != 12 {
		t.Error("unrelated writers share something")
	}
	w = replay.NewWriter(&bytes.Buffer{})
	for _, l := range session() {
		if err := w.Write(l); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(session()[9]); !errors.Is(err, replay.ErrInvalid) {
		t.Errorf("write after close: %v", err)
	}
}
