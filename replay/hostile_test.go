package replay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/replay"
)

// encoded are the lines of a session, each with its line end.
func encoded(t testing.TB, lines []replay.Line) [][]byte {
	t.Helper()
	var docs [][]byte
	for _, l := range lines {
		if h, ok := l.(*replay.ReplayHeader); ok {
			h.ReplayVersion = replay.Version
		}
		doc, err := replay.EncodeLine(l)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, append(doc, '\n'))
	}
	return docs
}

// TestEveryBitCounts: a file in which any bit is another is refused, or has another
// hash. The header is the one line that only the hash of the file covers.
func TestEveryBitCounts(t *testing.T) {
	file, hashes := write(t, session())
	header := bytes.IndexByte(file, '\n') + 1
	for i := range file {
		for bit := range 8 {
			changed := bytes.Clone(file)
			changed[i] ^= 1 << bit
			s, err := replay.Check(bytes.NewReader(changed), replay.Limits{})
			switch {
			case err != nil && !errors.Is(err, replay.ErrInvalid):
				t.Fatalf("byte %d, bit %d: %v", i, bit, err)
			case err != nil:
			case s.Replay == hashes.Replay:
				t.Fatalf("byte %d, bit %d: the hash of the file is the same", i, bit)
			case i >= header && s.Trajectory == hashes.Trajectory:
				t.Fatalf("byte %d, bit %d: the trajectory is the same for\n%s", i, bit, changed)
			}
		}
	}
}

// TestEveryCutIsSeen: no beginning of a file passes for the whole of it.
func TestEveryCutIsSeen(t *testing.T) {
	file, _ := write(t, session())
	for n := range len(file) {
		if _, err := replay.Check(bytes.NewReader(file[:n]), replay.Limits{}); !errors.Is(err, replay.ErrInvalid) {
			t.Fatalf("the first %d of %d bytes: %v", n, len(file), err)
		}
	}
}

// isSession says, without the package's own rules, whether the lines of session() with
// these numbers are one.
func isSession(order []int) bool {
	if len(order) < 3 || order[0] != 0 || order[1] != 1 || order[len(order)-1] != 11 {
		return false
	}
	var times [12]int
	at := [12]int{}
	for i, n := range order {
		times[n]++
		if at[n] == 0 {
			at[n] = i
		}
	}
	for _, once := range []int{0, 1, 4, 5, 6, 7, 8, 9, 11} { // 2, the plan, and 3 and 10 are below
		if times[once] > 1 {
			return false
		}
	}
	called := times[4] == 1 && times[6] == 1 // the end counts two
	answered := times[7] == 1 && times[8] == 1 && at[7] > at[6] && at[8] > at[4]
	planned := times[2] == 0 || times[2] == 1 && at[2] < min(at[4], at[6])
	return called && answered && planned
}

// TestOrder: of all ways to swap, leave out or repeat lines, and of many at random,
// those are sessions that the rules allow.
func TestOrder(t *testing.T) {
	docs := encoded(t, session())
	try := func(order []int) {
		t.Helper()
		var file []byte
		for _, n := range order {
			file = append(file, docs[n]...)
		}
		_, err := replay.Check(bytes.NewReader(file), replay.Limits{})
		if want := isSession(order); (err == nil) != want || err != nil && !errors.Is(err, replay.ErrInvalid) {
			t.Fatalf("%v: %v, want a session: %v", order, err, want)
		}
	}

	whole := func() []int { return []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11} }
	try(whole())
	for i := range docs {
		o := whole()
		try(append(o[:i:i], o[i+1:]...))
		try(append(o[:i+1:i+1], o[i:]...))
		for j := range i {
			o := whole()
			o[i], o[j] = o[j], o[i]
			try(o)
		}
	}

	r, sessions := rand.New(rand.NewPCG(1, 2)), 0
	for range 5000 {
		o := whole()[2:11]
		r.Shuffle(len(o), func(i, j int) { o[i], o[j] = o[j], o[i] })
		o = append(append([]int{0, 1}, o[:len(o)-r.IntN(2)]...), 11)
		try(o)
		if isSession(o) {
			sessions++
		}
	}
	if sessions < 100 {
		t.Errorf("%d of the orders are sessions: the test says little", sessions)
	}
}

// FuzzOrder has a file of any lines in any order.
func FuzzOrder(f *testing.F) {
	docs := encoded(f, session())
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
	f.Add([]byte{0, 1, 6, 4, 8, 7, 10, 10, 3, 3, 11})
	f.Add([]byte{0, 1, 11})
	f.Fuzz(func(t *testing.T, picks []byte) {
		var file []byte
		var order []int
		for _, p := range picks[:min(len(picks), 64)] {
			n := int(p) % len(docs)
			file, order = append(file, docs[n]...), append(order, n)
		}
		if _, err := replay.Check(bytes.NewReader(file), replay.Limits{}); (err == nil) != isSession(order) {
			t.Errorf("%v: %v", order, err)
		}
	})
}

// inserted is a file with a line before its end.
func inserted(file []byte, line string) []byte {
	end := bytes.LastIndexByte(file[:len(file)-1], '\n') + 1
	return append(append(bytes.Clone(file[:end]), line+"\n"...), file[end:]...)
}

// TestUnknownEvents: lines of later versions are read, covered by the hashes, and
// redacted; they are no way around the rules of the known ones.
func TestUnknownEvents(t *testing.T) {
	file, plain := write(t, session())
	for line, ok := range map[string]bool{
		`{"event":"Thought"}`: true,
		`{"event":"Thought","t":"never","id":7,"params":{"a":1},"payload":[1],"z":null}`: true,
		`{"event":"sessionEnd","status":"Success"}`:                                      true,
		`{"event":"ToolCall "}`:                         true,
		`{"event":"` + strings.Repeat("e", 1024) + `"}`: true,
		`{"event":"` + strings.Repeat("e", 1025) + `"}`: false,
		`{"event":""}`:                                        false,
		`{"event":null}`:                                      false,
		`{"event":["Thought"]}`:                               false,
		`{"Event":"Thought"}`:                                 false,
		`{"event":"Thought","event":"Thought"}`:               false,
		`{"event":"Thought","a":` + strings.Repeat("[", 5000): false,
	} {
		s, err := replay.Check(bytes.NewReader(inserted(file, line)), replay.Limits{})
		if (err == nil) != ok || err != nil && !errors.Is(err, replay.ErrInvalid) {
			t.Errorf("%.60s: %v", line, err)
			continue
		}
		if !ok {
			continue
		}
		if s.Trajectory == plain.Trajectory || s.Redacted == plain.Redacted || s.ToolCalls != 2 {
			t.Errorf("%.60s is outside the hashes: %+v", line, s)
		}
		r := check(t, redact(t, inserted(file, line)))
		if r.Redacted != s.Redacted || !r.IsRedacted {
			t.Errorf("%.60s: redacted as %+v", line, r)
		}
	}

	line, err := replay.ParseLine([]byte(`{"event":"Thought","text":"hm"}`))
	if err != nil || line.Event() != "Thought" {
		t.Errorf("%+v, %v", line, err)
	}
	for _, at := range []int{0, bytes.IndexByte(file, '\n') + 1, len(file)} { // before the header, before the start, after the end
		odd := append(append(bytes.Clone(file[:at]), `{"event":"Thought"}`+"\n"...), file[at:]...)
		if _, err := replay.Check(bytes.NewReader(odd), replay.Limits{}); !errors.Is(err, replay.ErrInvalid) {
			t.Errorf("at byte %d: %v", at, err)
		}
	}
}

// TestBoundsOfNames: a name is refused with its first byte too many, whatever line it
// is in.
func TestBoundsOfNames(t *testing.T) {
	const most = 1024
	for name, set := range map[string]func([]replay.Line, string){
		"producer": func(l []replay.Line, s string) { l[0].(*replay.ReplayHeader).Producer = s },
		"session_id": func(l []replay.Line, s string) {
			l[1].(*replay.SessionStart).SessionID, l[5].(*replay.RuntimeEvent).SessionID = s, s
		},
		"policy_bundle_id": func(l []replay.Line, s string) { l[1].(*replay.SessionStart).PolicyBundleID = s },
		"asset_id":         func(l []replay.Line, s string) { l[3].(*replay.Payment).AssetID = s },
		"call id":          func(l []replay.Line, s string) { l[4].(*replay.ToolCall).ID, l[8].(*replay.ToolResult).ID = s, s },
		"tool":             func(l []replay.Line, s string) { l[4].(*replay.ToolCall).Tool = s },
		"call's step":      func(l []replay.Line, s string) { l[4].(*replay.ToolCall).StepID = s },
		"type":             func(l []replay.Line, s string) { l[5].(*replay.RuntimeEvent).Type = s },
		"idempotency_key":  func(l []replay.Line, s string) { l[5].(*replay.RuntimeEvent).IdempotencyKey = &s },
		"step_id":          func(l []replay.Line, s string) { l[9].(*replay.StepComplete).StepID = s },
	} {
		for _, n := range []int{1, most, most + 1} {
			lines := session()
			set(lines, strings.Repeat("n", n))
			w, err := replay.NewWriter(io.Discard), error(nil)
			for _, l := range lines {
				if err = w.Write(l); err != nil {
					break
				}
			}
			if (err == nil) != (n <= most) {
				t.Errorf("%s of %d bytes: %v", name, n, err)
			}
		}
	}
}

// TestBoundsOfAFile: each limit holds at its last byte and not one further.
func TestBoundsOfAFile(t *testing.T) {
	file, _ := write(t, session())
	longest := 0
	for line := range bytes.Lines(file) {
		longest = max(longest, len(line))
	}
	for _, tt := range []struct {
		limits replay.Limits
		ok     bool
	}{
		{replay.Limits{Bytes: int64(len(file)), LineBytes: longest, Lines: 12}, true},
		{replay.Limits{Bytes: int64(len(file)) - 1, LineBytes: longest, Lines: 12}, false},
		{replay.Limits{Bytes: int64(len(file)), LineBytes: longest - 1, Lines: 12}, false},
		{replay.Limits{Bytes: int64(len(file)), LineBytes: longest, Lines: 11}, false},
	} {
		if _, err := replay.Check(bytes.NewReader(file), tt.limits); (err == nil) != tt.ok || err != nil && !errors.Is(err, replay.ErrTooLarge) {
			t.Errorf("%+v: %v", tt.limits, err)
		}
	}

	// A limit is on what is read, not on what was sent: no more than a block of it is taken.
	taken := &counting{r: endlessly('a')}
	if err := replay.Redact(taken, io.Discard); !errors.Is(err, replay.ErrTooLarge) || taken.n > 8<<20+64<<10 {
		t.Errorf("an endless line: %v after %d bytes", err, taken.n)
	}
}

type counting struct {
	r io.Reader
	n int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// TestPaymentsAreBounded: 64 are kept in a summary, and the next is refused.
func TestPaymentsAreBounded(t *testing.T) {
	for n, ok := range map[int]bool{63: true, 64: false} { // besides the session's own
		lines := session()
		for range n {
			lines = append(lines[:4:4], append([]replay.Line{session()[3]}, lines[4:]...)...)
		}
		file := bytes.Join(encoded(t, lines), nil)
		s, err := replay.Check(bytes.NewReader(file), replay.Limits{})
		if (err == nil) != ok || ok && len(s.Payments) != n+1 {
			t.Errorf("%d payments: %v", n+1, err)
		}
	}
}

// failsAt writes until so many calls were made.
type failsAt struct{ left int }

func (f *failsAt) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

// TestRedactFails: whatever breaks, the error says so, and none of it passes for a
// redacted file.
func TestRedactFails(t *testing.T) {
	file, _ := write(t, session())
	for calls := range 12 {
		if err := replay.Redact(bytes.NewReader(file), &failsAt{calls}); !errors.Is(err, errBroken) {
			t.Errorf("a disk that takes %d lines: %v", calls, err)
		}
	}
	for name, input := range map[string]struct {
		r    io.Reader
		want error
	}{
		"cut short":    {bytes.NewReader(file[:len(file)-30]), replay.ErrInvalid},
		"no JSON":      {strings.NewReader("{\n"), replay.ErrInvalid},
		"no header":    {strings.NewReader(`{"event":"Thought"}` + "\n"), replay.ErrInvalid},
		"broken input": {io.MultiReader(bytes.NewReader(file[:400]), readFails{}), errBroken},
	} {
		var out bytes.Buffer
		if err := replay.Redact(input.r, &out); !errors.Is(err, input.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := replay.Check(&out, replay.Limits{}); err == nil {
			t.Errorf("%s: what was written passes for a session", name)
		}
	}
}

type readFails struct{}

func (readFails) Read([]byte) (int, error) { return 0, errBroken }

// TestRedactedIsOneFile: a redacted file has one spelling, so nobody can hide
// anything in it, and redacting it again changes nothing.
func TestRedactedIsOneFile(t *testing.T) {
	file, hashes := write(t, session())
	clean := redact(t, file)
	if again := redact(t, clean); !bytes.Equal(clean, again) {
		t.Error("redacting twice gives another file")
	}
	if bytes.Contains(clean, []byte("secret")) || bytes.Contains(clean, []byte(`"params"`)) || bytes.Contains(clean, []byte("lightwork@test")) {
		t.Errorf("left in it:\n%s", clean)
	}
	s := check(t, clean)
	if s.Trajectory != hashes.Redacted || s.Redacted != hashes.Redacted || s.Trajectory == hashes.Trajectory {
		t.Errorf("%+v, was %+v", s.Hashes, hashes)
	}

	for name, change := range map[string][2]string{
		"white space":          {`{"event":"StepComplete"`, `{ "event":"StepComplete"`},
		"another order":        {`"iterations":1,"status":"Success"`, `"status":"Success","iterations":1`},
		"a field in a header":  {`"producer":"redacted@1"`, `"note":"hello","producer":"redacted@1"`},
		"the header's time":    {`{"created_at":"2026-01-01T11:00:00.123Z"`, `{"created_at":"2026-01-01T11:00:00.124Z"`},
		"params that are back": {`"event":"ToolCall","id":"tc_2"`, `"event":"ToolCall","id":"tc_2","params":null`},
		"params of no call":    {`"event":"StepComplete"`, `"event":"StepComplete","params":"x"`},
		"another producer":     {`redacted@1`, `redacted@2`},
	} {
		odd := bytes.Replace(clean, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(odd, clean) {
			t.Fatalf("%s: nothing to change in\n%s", name, clean)
		}
		if _, err := replay.Check(bytes.NewReader(odd), replay.Limits{}); !errors.Is(err, replay.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRoundTrip: each line, with values at their bounds, is read as it was written.
func TestRoundTrip(t *testing.T) {
	lowest, highest, none := int64(-1<<53+1), int64(1<<53-1), ""
	first, last := replay.At(time.Unix(0, 0)), replay.At(time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC))
	for _, l := range []replay.Line{
		&replay.ReplayHeader{ReplayVersion: 1, Producer: "p", CreatedAt: first},
		&replay.SessionStart{T: last, SessionID: "\x00\u2028\"", IssueNumber: &lowest, PolicyBundleID: "é"},
		&replay.PlanStart{T: first, StepCount: highest},
		&replay.ToolCall{T: first, ID: "i", Tool: "t", Params: json.RawMessage(`{"b":[1e3,"\u00e9"],"a":{}}`)},
		&replay.ToolResult{T: first, ID: "i", ExitCode: &highest, StepUtility: -1, LatencyMs: highest},
		&replay.Verification{T: last},
		&replay.Payment{T: last, Rail: "lightning", AssetID: "A_B", AmountMsats: highest, Status: "s", PaymentProof: json.RawMessage(`{"x":1}`)},
		&replay.RuntimeEvent{T: last, SessionID: "s", Seq: highest, Type: "t", Payload: json.RawMessage(`"x"`), IdempotencyKey: &none},
		&replay.SessionEnd{T: last, Status: replay.SessionTimeout, Confidence: 1, TotalToolCalls: highest, TotalLatencyMs: highest},
	} {
		doc, err := replay.EncodeLine(l)
		if err != nil {
			t.Errorf("%s: %v", l.Event(), err)
			continue
		}
		read, err := replay.ParseLine(doc)
		if err != nil || read.Event() != l.Event() {
			t.Errorf("%s read as %+v, %v", doc, read, err)
			continue
		}
		if again, err := replay.EncodeLine(read); err != nil || !bytes.Equal(again, doc) {
			t.Errorf("%s\nand again\n%s (%v)", doc, again, err)
		}
	}

	for name, l := range map[string]replay.Line{
		"before 1970":     &replay.PlanStart{T: replay.At(time.Unix(-1, 0))},
		"after 9999":      &replay.PlanStart{T: replay.At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))},
		"steps below 0":   &replay.PlanStart{T: first, StepCount: -1},
		"over 2^53":       &replay.PlanStart{T: first, StepCount: highest + 1},
		"utility over 1":  &replay.ToolResult{T: first, ID: "i", StepUtility: 1.5},
		"params no JSON":  &replay.ToolCall{T: first, ID: "i", Tool: "t", Params: json.RawMessage(`{`)},
		"a foreign rail":  &replay.Payment{T: first, Rail: "gold", AssetID: "A_B", Status: "s"},
		"proof no JSON":   &replay.Payment{T: first, Rail: "lightning", AssetID: "A_B", Status: "s", PaymentProof: json.RawMessage(`[`)},
		"a seq below 0":   &replay.RuntimeEvent{T: first, SessionID: "s", Seq: -1, Type: "t", Payload: json.RawMessage(`1`)},
		"no session":      &replay.SessionStart{T: first, PolicyBundleID: "p"},
		"confident twice": &replay.SessionEnd{T: first, Status: replay.SessionSuccess, Confidence: 2},
	} {
		if doc, err := replay.EncodeLine(l); err == nil {
			t.Errorf("%s is written as %s", name, doc)
		}
	}
}

// TestImportOfStates: a record's own words for its end, and what is missing in it, say
// no more than they do.
func TestImportOfStates(t *testing.T) {
	const base = `"created_at":"2026-01-15T10:00:00Z"`
	bundle := func(receipts string) string {
		return `{"id":"b","timeline":[],"receipts":` + receipts + `,` + base + `}`
	}
	history := func(status string) string {
		return `{"run_id":"h","events":[{"seq":1,"event_type":"run.ended","payload":{"status":` + status + `},"recorded_at":"2026-01-15T10:00:00Z"}],` + base + `}`
	}
	surface := func(status string) string {
		return `{"session_id":"s","steps":[],"metadata":{"status":` + status + `,` + base + `}}`
	}
	for doc, want := range map[string]string{
		bundle(`{"ci_status":"success"}`):              replay.SessionSuccess,
		bundle(`{"ci_status":"passed"}`):               replay.SessionSuccess,
		bundle(`{"ci_status":"green"}`):                replay.SessionFailed,
		bundle(`{"tests_run":3,"tests_passed":3}`):     replay.SessionSuccess,
		bundle(`{"tests_run":3,"tests_passed":2}`):     replay.SessionFailed,
		bundle(`{"tests_run":0,"tests_passed":0}`):     replay.SessionFailed,
		bundle(`{"tests_run":"3","tests_passed":"3"}`): replay.SessionFailed,
		bundle(`null`):         replay.SessionFailed,
		bundle(`[]`):           replay.SessionFailed,
		history(`"succeeded"`): replay.SessionSuccess,
		history(`"failed"`):    replay.SessionFailed,
		history(`"canceled"`):  replay.SessionCancelled,
		history(`"cancelled"`): replay.SessionCancelled,
		history(`"timed_out"`): replay.SessionTimeout,
		history(`"timeout"`):   replay.SessionTimeout,
		history(`7`):           replay.SessionFailed,
		history(`"` + strings.Repeat("s", 2000) + `"`): replay.SessionFailed,
		surface(`"success"`):                           replay.SessionSuccess,
		surface(`"cancelled"`):                         replay.SessionCancelled,
		surface(`"Cancelled"`):                         replay.SessionCancelled,
		surface(`"lost"`):                              replay.SessionFailed,
	} {
		var file bytes.Buffer
		if _, _, err := replay.Import([]byte(doc), &file); err != nil {
			t.Errorf("%.200s: %v", doc, err)
			continue
		}
		if s := check(t, file.Bytes()); s.Status != want || s.ToolCalls != 0 {
			t.Errorf("%.200s is %s with %d calls, want %s", doc, s.Status, s.ToolCalls, want)
		}
	}
}

// TestImportOfOddSteps: times and results in odd forms lose nothing of a record.
func TestImportOfOddSteps(t *testing.T) {
	for name, tt := range map[string]struct {
		doc   string
		calls int
		holds []string
	}{
		"offsets": {
			`{"session_id":"s","steps":[{"tool":"a","output":1,"t":5,"duration_ms":7},{"tool":"a","output":2}],"metadata":{"started_at":"2026-01-15T10:00:00Z"}}`,
			2,
			[]string{`"t":"2026-01-15T10:00:00.005Z"`, `"latency_ms":7`, `"params":null`},
		},
		"a duration that is none": {
			`{"session_id":"s","steps":[{"tool":"a","output":1,"t":"2026-01-15T10:00:00Z","duration_ms":-7},{"tool":"a","output":1,"duration_ms":"7"}]}`,
			2,
			[]string{`"latency_ms":0`},
		},
		"results in another order": {
			`{"id":"b","created_at":"2026-01-15T10:00:00Z","timeline":[
			{"t":0,"type":"tool_call","tool":"x"},{"t":1,"type":"tool_call","tool":"y"},{"t":2,"type":"tool_result","tool":"y"},{"t":9,"type":"tool_result"},{"t":9,"type":"tool_result"}]}`,
			2,
			[]string{`"id":"tc_1","latency_ms":1`, `"id":"tc_0","latency_ms":9`, `"runtime_event_type":"tool_result"`},
		},
		"a history that counts nothing": {
			`{"run_id":"h","created_at":"2026-01-15T10:00:00Z","metadata":7,"events":[{"seq":1,"event_type":"e","recorded_at":"2026-01-15T10:00:00Z"}]}`,
			0,
			[]string{`"policy_bundle_id":"none"`, `"payload":null`, `"metadata":7`},
		},
	} {
		var file bytes.Buffer
		if _, _, err := replay.Import([]byte(tt.doc), &file); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s := check(t, file.Bytes()); s.ToolCalls != tt.calls {
			t.Errorf("%s: %d calls", name, s.ToolCalls)
		}
		for _, part := range tt.holds {
			if !strings.Contains(file.String(), part) {
				t.Errorf("%s: no %s in\n%s", name, part, &file)
			}
		}
	}

	for name, doc := range map[string]string{
		"an offset over a year": fmt.Sprintf(`{"session_id":"s","steps":[{"t":%d}],"metadata":{"started_at":"2026-01-15T10:00:00Z"}}`, 367*24*3600*1000),
		"steps that are none":   `{"session_id":"s","steps":7,"metadata":{"started_at":"2026-01-15T10:00:00Z"}}`,
		"too many steps":        `{"session_id":"s","steps":[` + strings.Repeat("{},", 50_000) + `{}],"metadata":{"started_at":"2026-01-15T10:00:00Z"}}`,
		"a step of two keys":    `{"session_id":"s","steps":[{"t":1,"t":2}],"metadata":{"started_at":"2026-01-15T10:00:00Z"}}`,
		"a key without a name":  `{"run_id":"h","created_at":"2026-01-15T10:00:00Z","events":[{"seq":1,"event_type":"","recorded_at":"2026-01-15T10:00:00Z"}]}`,
	} {
		if _, _, err := replay.Import([]byte(doc), io.Discard); !errors.Is(err, replay.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}

	if _, _, err := replay.Import(make([]byte, 64<<20+1), io.Discard); !errors.Is(err, replay.ErrTooLarge) {
		t.Errorf("a document over its bound: %v", err)
	}
	for calls := range 3 {
		if _, _, err := replay.Import(readForm(t, "bundle"), &failsAt{calls}); !errors.Is(err, errBroken) {
			t.Errorf("a disk that takes %d lines: %v", calls, err)
		}
	}
}
