package replay_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/replay"
)

// published are the eight example lines of the published format, with the
// values that it leaves out filled in.
func published(t *testing.T, params string) []string {
	t.Helper()
	sum, err := hashing.Sum([]byte(params))
	if err != nil {
		t.Fatal(err)
	}
	d := hashing.Bytes([]byte("x")).String()
	return []string{
		`{"event":"ReplayHeader","replay_version":1,"producer":"adjutant@1.2.3","created_at":"2026-01-15T09:00:00Z"}`,
		`{"event":"SessionStart","session_id":"sess-1","issue_number":42,"policy_bundle_id":"policy-1","t":"2026-01-15T09:00:00.5Z"}`,
		`{"event":"PlanStart","plan_hash":"` + d + `","step_count":3,"t":"2026-01-15T10:00:01+01:00"}`,
		`{"event":"ToolCall","id":"tc_001","tool":"file_read","params":` + params + `,"params_hash":"` + sum.String() + `","step_id":"step-1","t":"2026-01-15T09:00:02Z"}`,
		`{"event":"ToolResult","id":"tc_001","output_hash":"` + d + `","step_utility":0.8,"latency_ms":45,"t":"2026-01-15T09:00:03Z"}`,
		`{"event":"StepComplete","step_id":"step-1","status":"Success","iterations":1,"t":"2026-01-15T09:00:04Z"}`,
		`{"event":"Verification","commands":["cargo check","cargo test"],"exit_codes":[0,0],"verification_delta":3,"t":"2026-01-15T09:00:05Z"}`,
		`{"event":"SessionEnd","status":"Success","confidence":0.92,"total_tool_calls":15,"total_latency_ms":12500,"t":"2026-01-15T09:00:06Z"}`,
	}
}

func TestPublishedLines(t *testing.T) {
	requirements.Covers(t, "OA-5.2")
	lines := published(t, `{"path":"src/lib.rs","lines":[1,20]}`)
	for _, text := range lines {
		line, err := replay.ParseLine([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		doc, err := replay.EncodeLine(line)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		again, err := replay.ParseLine(doc)
		if err != nil || fmt.Sprint(again) == "" {
			t.Fatalf("%s: %v", doc, err)
		}
		twice, err := replay.EncodeLine(again)
		if err != nil || !bytes.Equal(doc, twice) {
			t.Errorf("encoded %s, then %s (%v)", doc, twice, err)
		}
	}
	// As one file they are an excerpt: one call of the fifteen. With the count
	// that the file really has, it is whole.
	file := strings.Join(lines, "\n") + "\n"
	if _, err := replay.Check(strings.NewReader(file), replay.Limits{}); !errors.Is(err, replay.ErrInvalid) || !strings.Contains(err.Error(), "total_tool_calls") {
		t.Errorf("an excerpt passes for a whole session: %v", err)
	}
	s := check(t, []byte(strings.Replace(file, `"total_tool_calls":15`, `"total_tool_calls":1`, 1)))
	if s.SessionID != "sess-1" || s.ToolCalls != 1 || s.Status != replay.SessionSuccess {
		t.Errorf("summary %+v", s)
	}
}

func whole(t *testing.T) string {
	t.Helper()
	file := strings.Join(published(t, `{}`), "\n") + "\n"
	return strings.Replace(file, `"total_tool_calls":15`, `"total_tool_calls":1`, 1)
}

// Lines in another order of fields give the same trajectory hash, and unknown
// events and fields are covered by it.
func TestForeignSpelling(t *testing.T) {
	file := whole(t)
	plain := check(t, []byte(file))
	spaced := check(t, []byte(strings.ReplaceAll(file, `","`, `" , "`)))
	if spaced.Trajectory != plain.Trajectory || spaced.Replay == plain.Replay {
		t.Error("white space must change the file's hash and no other")
	}
	more := check(t, []byte(strings.Replace(file, `"iterations":1`, `"iterations":1,"extra":true`, 1)))
	if more.Trajectory == plain.Trajectory {
		t.Error("an unknown field is outside the hash")
	}
	line := `{"event":"Thought","payload":{"text":"hm"},"t":"2026-01-15T09:00:06Z"}`
	note := check(t, []byte(strings.Replace(file, `{"event":"SessionEnd"`, line+"\n"+`{"event":"SessionEnd"`, 1)))
	if note.Trajectory == plain.Trajectory || note.Lines != plain.Lines+1 {
		t.Error("an unknown event is outside the hash")
	}
}

func TestLowerCaseStatuses(t *testing.T) {
	for in, want := range map[string]string{"success": "Success", "failure": "Failed", "cancelled": "Cancelled", "Timeout": "Timeout"} {
		s := check(t, []byte(strings.Replace(whole(t), `"status":"Success","confidence"`, `"status":"`+in+`","confidence"`, 1)))
		if s.Status != want {
			t.Errorf("%s gives %s, want %s", in, s.Status, want)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	file := whole(t)
	lines := strings.SplitAfter(strings.TrimSuffix(file, "\n"), "\n")
	replace := func(old, new string) string {
		t.Helper()
		if !strings.Contains(file, old) {
			t.Fatalf("no %s in the file", old)
		}
		return strings.Replace(file, old, new, 1)
	}
	without := func(i int) string {
		return strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), "") + "\n"
	}
	for name, text := range map[string]string{
		"empty":                   "",
		"only a line end":         "\n",
		"no header":               without(0),
		"no start":                without(1),
		"no call":                 without(3),
		"no result":               without(4),
		"no end":                  strings.Join(lines[:7], ""),
		"no pair":                 strings.Join(append(append([]string{}, lines[:3]...), lines[5:]...), "") + "\n",
		"cut inside the last":     strings.TrimSuffix(file, "}\n"),
		"no last line end":        strings.TrimSuffix(file, "\n"),
		"empty line":              replace("\n", "\n\n"),
		"empty line at the end":   file + "\n",
		"carriage returns":        strings.ReplaceAll(file, "\n", "\r"),
		"twice":                   file + file,
		"not JSON":                replace(`"ReplayHeader"`, `ReplayHeader`),
		"no object":               replace(lines[5], "[]\n"),
		"null line":               replace(lines[5], "null\n"),
		"no event":                replace(`{"event":"StepComplete",`, `{`),
		"two values in a line":    replace(`"iterations":1,"t":"2026-01-15T09:00:04Z"}`, `"iterations":1,"t":"2026-01-15T09:00:04Z"}{}`),
		"duplicate key":           replace(`"iterations":1`, `"iterations":1,"iterations":2`),
		"name case":               replace(`"iterations":1`, `"Iterations":1`),
		"bare UTF-8":              replace(`adjutant`, "adjutant\xff"),
		"version 2":               replace(`"replay_version":1`, `"replay_version":2`),
		"version 1.0":             replace(`"replay_version":1`, `"replay_version":1.0`),
		"no time":                 replace(`,"t":"2026-01-15T09:00:04Z"`, ``),
		"time":                    replace(`2026-01-15T09:00:04Z`, `15.01.2026`),
		"year 0":                  replace(`2026-01-15T09:00:04Z`, `0000-01-15T09:00:04Z`),
		"year 10000 in UTC":       replace(`2026-01-15T09:00:04Z`, `9999-12-31T23:59:59-01:00`),
		"comma in a time":         replace(`2026-01-15T09:00:04Z`, `2026-01-15T09:00:04,5Z`),
		"params changed":          replace(`"params":{}`, `"params":{"a":1}`),
		"hash of another kind":    replace(`"params_hash":"sha256:`, `"params_hash":"sha512:`),
		"result of another call":  replace(`"ToolResult","id":"tc_001"`, `"ToolResult","id":"tc_002"`),
		"iterations as text":      replace(`"iterations":1`, `"iterations":"1"`),
		"iterations null":         replace(`"iterations":1`, `"iterations":null`),
		"exit codes":              replace(`"exit_codes":[0,0]`, `"exit_codes":[0]`),
		"exit code null":          replace(`"exit_codes":[0,0]`, `"exit_codes":[0,null]`),
		"command null":            replace(`["cargo check","cargo test"]`, `["cargo check",null]`),
		"integer beyond 2^53":     replace(`"latency_ms":45`, `"latency_ms":9007199254740993`),
		"latency with exponent":   replace(`"latency_ms":45`, `"latency_ms":4.5e1`),
		"utility":                 replace(`0.8`, `1.8`),
		"long name":               replace(`"sess-1"`, `"`+strings.Repeat("s", 2000)+`"`),
		"deep nesting":            replace(`"params":{}`, `"params":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)),
		"partly redacted":         replace(`{"event":"ToolCall"`, `{"event":"ToolCall","id":"tc_0","tool":"x","params_hash":"`+hashing.Bytes(nil).String()+`","step_id":"s","t":"2026-01-15T09:00:02Z"}`+"\n"+`{"event":"ToolResult","id":"tc_0","output_hash":"`+hashing.Bytes(nil).String()+`","step_utility":0,"latency_ms":0,"t":"2026-01-15T09:00:02Z"}`+"\n"+`{"event":"ToolCall"`),
		"header of a redacted":    replace(`adjutant@1.2.3`, `redacted@1`),
		"redacted, other header":  replace(`"params":{},`, ``),
		"seventy payments":        replace(`{"event":"SessionEnd"`, strings.Repeat(`{"event":"Payment","rail":"lightning","asset_id":"A_B","amount_msats":1,"payment_proof":null,"job_hash":null,"status":"held","t":"2026-01-15T09:00:02Z"}`+"\n", 70)+`{"event":"SessionEnd"`),
		"payment in another word": replace(`{"event":"SessionEnd"`, `{"event":"Payment","rail":"lightning","asset_id":"A_B","amount_msats":-1,"payment_proof":null,"job_hash":null,"status":"held","t":"2026-01-15T09:00:02Z"}`+"\n"+`{"event":"SessionEnd"`),
	} {
		s, err := replay.Check(strings.NewReader(text), replay.Limits{})
		if !errors.Is(err, replay.ErrInvalid) || s != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckLimits(t *testing.T) {
	file := whole(t)
	size := int64(len(file))
	if _, err := replay.Check(strings.NewReader(file), replay.Limits{Bytes: size, Lines: 8}); err != nil {
		t.Errorf("a file at its limits: %v", err)
	}
	for name, limits := range map[string]replay.Limits{"bytes": {Bytes: size - 1}, "line": {LineBytes: 100}, "lines": {Lines: 7}} {
		if _, err := replay.Check(strings.NewReader(file), limits); !errors.Is(err, replay.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A line without end must not be collected.
	endless := io.MultiReader(strings.NewReader(`{"event":"`), endlessly('a'))
	if _, err := replay.Check(endless, replay.Limits{Bytes: 1 << 40, LineBytes: 1 << 20}); !errors.Is(err, replay.ErrTooLarge) {
		t.Errorf("endless line: %v", err)
	}
	if _, err := replay.Check(iotest.ErrReader(io.ErrClosedPipe), replay.Limits{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("broken reader: %v", err)
	}
	if _, err := replay.Check(iotest.OneByteReader(strings.NewReader(file)), replay.Limits{}); err != nil {
		t.Errorf("slow reader: %v", err)
	}
}

type endlessly byte

func (c endlessly) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(c)
	}
	return len(p), nil
}

func FuzzCheck(f *testing.F) {
	full, _ := write(f, session())
	f.Add(full)
	f.Add(redact(f, full))
	f.Add([]byte(`{"event":"ReplayHeader","replay_version":1,"producer":"a","created_at":"2026-01-15T09:00:00Z"}` + "\n"))
	limits := replay.Limits{Bytes: 64 << 10, LineBytes: 16 << 10, Lines: 256}
	f.Fuzz(func(t *testing.T, file []byte) {
		s, err := replay.Check(bytes.NewReader(file), limits)
		if err != nil {
			return
		}
		if s.Replay != hashing.Bytes(file) || s.Lines > 256 {
			t.Fatalf("summary %+v", s)
		}
		// What passes can be redacted, and only the hash of that form stays.
		var out bytes.Buffer
		if err := replay.Redact(bytes.NewReader(file), &out); err != nil {
			t.Fatal(err)
		}
		r, err := replay.Check(&out, replay.Limits{})
		if err != nil || !r.IsRedacted || r.Redacted != s.Redacted || r.ToolCalls != s.ToolCalls {
			t.Fatalf("redacted: %+v, %v", r, err)
		}
	})
}

func FuzzParseLine(f *testing.F) {
	for _, l := range session() {
		doc, err := replay.EncodeLine(l)
		if h, ok := l.(*replay.ReplayHeader); ok {
			h.ReplayVersion = replay.Version
			doc, err = replay.EncodeLine(h)
		}
		if err != nil {
			f.Fatal(err)
		}
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		line, err := replay.ParseLine(doc)
		if err != nil {
			return
		}
		if _, unknown := line.(*replay.Unknown); unknown {
			return
		}
		again, err := replay.EncodeLine(line)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := replay.ParseLine(again); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	var lines []replay.Line
	template := session()
	lines = append(lines, template[:2]...)
	for i := range 1000 {
		call, result := *template[4].(*replay.ToolCall), *template[8].(*replay.ToolResult)
		call.ID, result.ID = fmt.Sprint(i), fmt.Sprint(i)
		lines = append(lines, &call, &result)
	}
	end := *template[11].(*replay.SessionEnd)
	end.TotalToolCalls = 1000
	file, _ := write(b, append(lines, &end))
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := replay.Check(bytes.NewReader(file), replay.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestIsCanonical(t *testing.T) {
	file, _ := write(t, session())
	if !check(t, file).IsCanonical {
		t.Error("what a Writer writes is not taken for canonical")
	}
	for _, change := range [][2]string{
		{`{"created_at"`, `{ "created_at"`}, {`"step_count":2`, `"step_count": 2`}, {`"confidence":0.92`, `"confidence":0.920`}, {`SessionEnd`, `\u0053essionEnd`},
	} {
		spelt := bytes.Replace(file, []byte(change[0]), []byte(change[1]), 1)
		if s := check(t, spelt); s.IsCanonical || bytes.Equal(spelt, file) {
			t.Errorf("%s is taken for canonical", change[1])
		}
	}
}
