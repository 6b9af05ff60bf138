package replay_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/replay"
)

func readForm(t testing.TB, name string) []byte {
	t.Helper()
	doc, err := os.ReadFile("testdata/openagents/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestImport(t *testing.T) {
	requirements.Covers(t, "OA-5.3")
	for name, want := range map[string]struct {
		form, session, status string
		calls                 int
		holds                 []string
	}{
		"bundle": {replay.FormBundle, "demo-42", replay.SessionSuccess, 2, []string{
			`"id":"tc_1","params":{"path":"src/main.go"}`, `"step_id":"explore","t":"2026-01-15T10:00:00.100Z","tool":"read"`,
			`"exit_code":1,"id":"tc_2","latency_ms":3960`, `"payload":{"text":"The test <fails>."}`,
			`"runtime_event_type":"tool_call"`, `"model":"m-1"`, `"lines_removed":2`,
		}},
		"surface": {replay.FormSurface, "sess-7", replay.SessionSuccess, 2, []string{
			`"params":"go test"`, `"exit_code":0,"id":"tc_3"`, `"latency_ms":12`, `"thought":"now the tests"`, `"never answered"`, `"model":"m-1"`,
		}},
		"history": {replay.FormHistory, "01951d2a-6c15-7c9f-99c2-cf8ad72a23f0", replay.SessionSuccess, 0, []string{
			`"policy_bundle_id":"policy.history.v1"`, `"runtime_event_type":"run.started"`, `"idempotency_key":"finish:happy"`, `"worker_id"`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var file, again bytes.Buffer
			form, hashes, err := replay.Import(readForm(t, name), &file)
			if err != nil {
				t.Fatal(err)
			}
			s := check(t, file.Bytes())
			if form != want.form || s.SessionID != want.session || s.Status != want.status || s.ToolCalls != want.calls || s.Hashes != hashes || !s.IsCanonical {
				t.Errorf("%s: %+v", form, s)
			}
			for _, part := range want.holds {
				if !strings.Contains(file.String(), part) {
					t.Errorf("no %s in\n%s", part, file.String())
				}
			}
			if _, _, err := replay.Import(readForm(t, name), &again); err != nil || !bytes.Equal(file.Bytes(), again.Bytes()) {
				t.Errorf("the same document gives two files (%v)", err)
			}
		})
	}
}

func TestImportRefuses(t *testing.T) {
	history := string(readForm(t, "history"))
	bundle, surface := string(readForm(t, "bundle")), string(readForm(t, "surface"))
	for name, tt := range map[string]struct{ doc, says string }{
		"a changed history":         {strings.Replace(history, `"status": "succeeded"`, `"status": "failed"`, 1), "expected.trajectory_hash"},
		"a history in disorder":     {strings.Replace(history, `"seq": 2`, `"seq": 3`, 1), `events[1]: seq: is 3, want 2`},
		"no form that is known":     {`{"a":1}`, "not a known form"},
		"not JSON":                  {`PDF`, "invalid"},
		"a key twice":               {`{"id":"a","id":"b","timeline":[]}`, "invalid"},
		"a bundle without an id":    {strings.Replace(bundle, `"id": "demo-42"`, `"name": "demo-42"`, 1), "id: missing"},
		"an unknown type":           {strings.Replace(bundle, `"assistant"`, `"dream"`, 1), `timeline[4]: type: unknown value "dream"`},
		"a call without a tool":     {strings.Replace(bundle, `"tool": "edit", `, ``, 1), "timeline[7]: tool: missing"},
		"a time beyond":             {strings.Replace(bundle, `"t": 8000`, `"t": 99999999999999`, 1), "timeline[7]: t"},
		"steps without any time":    {`{"session_id":"s","steps":[{"tool":"a"}],"metadata":{}}`, "metadata.created_at: missing"},
		"steps that are no objects": {`{"session_id":"s","steps":[1],"metadata":{}}`, "steps[0]"},
		"a session without an id":   {strings.Replace(surface, `"session_id"`, `"sessionId"`, 1), "session_id: missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := replay.Import([]byte(tt.doc), &bytes.Buffer{})
			if !errors.Is(err, replay.ErrInvalid) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
}

// Whatever is imported is a record that passes its own check.
func FuzzImport(f *testing.F) {
	for _, name := range []string{"bundle", "surface", "history"} {
		f.Add(readForm(f, name))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var file bytes.Buffer
		if _, _, err := replay.Import(doc, &file); err == nil {
			check(t, file.Bytes())
		}
	})
}

// TestImportOfReplay: what Import wrote is told from what it reads, and what only
// looks like it is not.
func TestImportOfReplay(t *testing.T) {
	header := `{"event":"ReplayHeader","replay_version":1,"producer":"p@1","created_at":"2026-01-15T10:00:00.000Z"}`
	for doc, want := range map[string]error{
		header:                               replay.ErrReplay,
		header + "\n":                        replay.ErrReplay,
		header + "\n{\"event\":\"Whatever\"": replay.ErrReplay,
		"\n" + header:                        replay.ErrInvalid,
		`{"event":"SessionEnd"}` + "\n":      replay.ErrInvalid,
		"":                                   replay.ErrInvalid,
		strings.Replace(header, `"p@1"`, `"`+strings.Repeat("p", 4096)+`"`, 1): replay.ErrInvalid,
	} {
		if _, _, err := replay.Import([]byte(doc), io.Discard); !errors.Is(err, want) {
			t.Errorf("%.60q: %v", doc, err)
		}
	}
}
