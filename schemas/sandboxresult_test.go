package schemas

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
)

// run is one entry of runs.
func run(cmd string, exit int) string {
	return fmt.Sprintf(`{"cmd":%q,"exit_code":%d,"duration_ms":1,"stdout_sha256":"%s","stderr_sha256":"%s"}`, cmd, exit, zeros, zeros)
}

func sandboxResult(status string, runs, artifacts []string) string {
	return `{"env_info":{"image_digest":"` + ones + `"},"runs":[` + strings.Join(runs, ",") + `],"artifacts":[` +
		strings.Join(artifacts, ",") + `],"status":"` + status + `",` + provenance + `}`
}

func artifact(path, digest string) string {
	return fmt.Sprintf(`{"path":"%s","sha256":"%s","size_bytes":1}`, path, digest)
}

func TestSandboxStatus(t *testing.T) {
	for _, tt := range []struct {
		status string
		exits  []int
		reason string // empty: consistent
	}{
		{"success", []int{0, 0}, ""},
		{"success", nil, "nothing ran"},
		{"success", []int{0, 2}, "runs[1] exited with 2"},
		{"failed", []int{0, 1}, ""},
		{"failed", []int{1}, ""},
		{"failed", []int{0}, "every run exited with 0"},
		{"failed", nil, "every run exited with 0"},
		{"timeout", []int{0, 137}, ""},
		{"timeout", nil, ""},
		{"cancelled", []int{0}, ""},
		{"error", nil, ""},
		{"done", []int{0}, "must be one of"},
	} {
		var runs []string
		for _, exit := range tt.exits {
			runs = append(runs, run("c", exit))
		}
		_, err := lookup(t, SandboxRun).ParseResult([]byte(sandboxResult(tt.status, runs, nil)))
		if tt.reason != "" {
			refusal(t, err, "status", tt.reason)
		} else if err != nil {
			t.Errorf("%s %v: %v", tt.status, tt.exits, err)
		}
	}
}

func TestSandboxResultBounds(t *testing.T) {
	s := lookup(t, SandboxRun)
	parse := func(doc string) error {
		_, err := s.ParseResult([]byte(doc))
		return err
	}
	preview := func(which, text string) string {
		return strings.Replace(run("c", 0), `"duration_ms"`, `"`+which+`":"`+text+`","duration_ms"`, 1)
	}
	for _, which := range []string{"stdout_preview", "stderr_preview"} {
		if err := parse(sandboxResult("success", []string{preview(which, strings.Repeat("x", MaxPreviewBytes))}, nil)); err != nil {
			t.Errorf("%s of 16 KiB: %v", which, err)
		}
		refusal(t, parse(sandboxResult("success", []string{preview(which, strings.Repeat("x", MaxPreviewBytes+1))}, nil)), "runs[0]."+which, "at most 16384")
		refusal(t, parse(sandboxResult("success", []string{preview(which, strings.Repeat("é", MaxPreviewBytes/2+1))}, nil)), "runs[0]."+which, "at most 16384")
	}
	var many []string
	for i := range MaxArtifacts {
		many = append(many, artifact(fmt.Sprint(i), zeros))
	}
	if err := parse(sandboxResult("success", []string{run("c", 0)}, many)); err != nil {
		t.Errorf("128 artifacts: %v", err)
	}
	refusal(t, parse(sandboxResult("success", []string{run("c", 0)}, append(many, artifact("x", zeros)))), "artifacts", "at most 128")

	for path, reason := range map[string]string{
		"":                         "at least 1",
		"/etc/passwd":              "relative",
		"..":                       "without ..",
		"../x":                     "without ..",
		"a/../../x":                "without ..",
		"a/../b":                   "clean",
		"./a":                      "clean",
		"a//b":                     "clean",
		"a/":                       "clean",
		".":                        "clean",
		`a\u0000b`:                 "NUL",
		strings.Repeat("x", 1025):  "at most 1024",
		strings.Repeat("é", 512+1): "at most 1024",
	} {
		refusal(t, parse(sandboxResult("success", []string{run("c", 0)}, []string{artifact(path, zeros)})), "artifacts[0].path", reason)
	}
	for _, path := range []string{"a", "a/b.txt", "..a", "a..b/c", strings.Repeat("x", 1024)} {
		if err := parse(sandboxResult("success", []string{run("c", 0)}, []string{artifact(path, zeros)})); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
	refusal(t, parse(sandboxResult("success", []string{run("c", 0)}, []string{artifact("a", zeros), artifact("a", ones)})), "artifacts[1].path", "twice")
}

func TestSandboxResultAgainstRequest(t *testing.T) {
	order := parseRequest(t, SandboxRun, `{"sandbox":{"image_digest":"`+ones+`"},"commands":[{"cmd":"a"},{"cmd":"b","continue_on_fail":true},{"cmd":"c"}]}`)
	for _, tt := range []struct {
		name, status string
		runs         []string
		field        string // empty: it answers the request
	}{
		{"all", "success", []string{run("a", 0), run("b", 0), run("c", 0)}, ""},
		{"stopped at the first failure", "failed", []string{run("a", 1)}, ""},
		{"went on after b", "failed", []string{run("a", 0), run("b", 1), run("c", 0)}, ""},
		{"timeout after a", "timeout", []string{run("a", 0)}, ""},
		{"cancelled at once", "cancelled", nil, ""},
		{"success too early", "success", []string{run("a", 0), run("b", 0)}, "status"},
		{"stopped at b", "failed", []string{run("a", 0), run("b", 1)}, "runs"},
		{"went on after a", "failed", []string{run("a", 1), run("b", 0), run("c", 0)}, "runs[1]"},
		{"other command", "success", []string{run("a", 0), run("true", 0), run("c", 0)}, "runs[1].cmd"},
		{"too many", "success", []string{run("a", 0), run("b", 0), run("c", 0), run("d", 0)}, "runs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := order.CheckResult(parseResult(t, SandboxRun, sandboxResult(tt.status, tt.runs, nil)))
			if tt.field != "" {
				refusal(t, err, tt.field, "")
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	elsewhere := strings.Replace(sandboxResult("cancelled", nil, nil), ones, zeros, 1)
	refusal(t, order.CheckResult(parseResult(t, SandboxRun, elsewhere)), "env_info.image_digest", "not the image")
}

func TestExpectationMet(t *testing.T) {
	request := func(expected string) *SandboxRunRequest {
		doc := `{"sandbox":{"image_digest":"` + ones + `"},"commands":[{"cmd":"a"},{"cmd":"b"}]`
		if expected != "" {
			doc += `,"verification":{"expected":{` + expected + `}}`
		}
		return parseRequest(t, SandboxRun, doc+"}").Value.(*SandboxRunRequest)
	}
	result := func(status string, runs, artifacts []string) *SandboxRunResult {
		return parseResult(t, SandboxRun, sandboxResult(status, runs, artifacts)).Value.(*SandboxRunResult)
	}
	good := result("success", []string{run("a", 0), run("b", 0)}, []string{artifact("out", ones), artifact("log", zeros)})
	bad := result("failed", []string{run("a", 0), run("b", 1)}, []string{artifact("out", zeros)})
	stopped := result("failed", []string{run("a", 1)}, nil)
	for _, tt := range []struct {
		expected string
		result   *SandboxRunResult
		reason   string // empty: met
	}{
		{"", good, ""},
		{"", bad, ""}, // a valid result is enough where nothing is expected
		{"", result("error", nil, nil), "its status is error"},
		{"", result("cancelled", []string{run("a", 0)}, nil), "its status is cancelled"},
		{`"exit_codes":[0,0]`, good, ""},
		{`"exit_codes":[0,0]`, bad, "runs[1] exited with 1, expected 0"},
		{`"exit_codes":[0,0]`, stopped, "1 runs, expected 2"},
		{`"exit_codes":[0,1]`, bad, ""},
		{`"exit_codes":[1]`, stopped, ""},
		{`"artifacts":{"out":"` + ones + `"}`, good, ""},
		{`"artifacts":{"out":"` + ones + `"}`, bad, "artifacts.out has another digest"},
		{`"artifacts":{"out":"` + ones + `"}`, stopped, "artifacts.out is missing"},
		{`"exit_codes":[0,0],"artifacts":{"out":"` + ones + `","x":"` + ones + `"}`, good, "artifacts.x is missing"},
	} {
		ok, reason := request(tt.expected).ExpectationMet(tt.result)
		if ok != (tt.reason == "") || reason != tt.reason {
			t.Errorf("expected %s: %v %q, want %q", tt.expected, ok, reason, tt.reason)
		}
	}
}

func TestSandboxAgreement(t *testing.T) {
	base := sandboxResult("failed", []string{run("a", 0), run("b", 1)}, []string{artifact("x", zeros), artifact("y", ones)})
	agree := func(doc string) hashing.Digest {
		t.Helper()
		d, err := parseRequest(t, SandboxRun, minimal[SandboxRun]).AgreementHash(parseResult(t, SandboxRun, doc))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	want, err := hashing.Sum([]byte(`{"image_digest":"` + ones + `","commands":["a","b"],"exit_codes":[0,1],"artifacts":[{"path":"x","sha256":"` + zeros +
		`"},{"path":"y","sha256":"` + ones + `"}],"status":"failed"}`))
	if err != nil || agree(base) != want {
		t.Errorf("agreement %s, want %s (%v)", agree(base), want, err)
	}
	for _, same := range [][2]string{
		{`"duration_ms":1`, `"duration_ms":99`},
		{`"stdout_sha256":"` + zeros, `"stdout_sha256":"` + ones},
		{`"env_info":{`, `"env_info":{"hostname":"h","system_info":"s",`},
		{artifact("x", zeros) + "," + artifact("y", ones), artifact("y", ones) + "," + artifact("x", zeros)},
		{pubkey, strings.Repeat("ab", 32)},
		{`"model_id":"m"`, `"model_id":"n","executed_at":5`},
	} {
		if doc := strings.Replace(base, same[0], same[1], 1); doc == base || agree(doc) != want {
			t.Errorf("%s changes the agreement", same[0])
		}
	}
	for _, other := range [][2]string{
		{`"image_digest":"` + ones, `"image_digest":"` + zeros},
		{`"cmd":"a"`, `"cmd":"A"`},
		{`"exit_code":1`, `"exit_code":2`},
		{`"path":"x"`, `"path":"z"`},
		{`"path":"x","sha256":"` + zeros, `"path":"x","sha256":"` + ones},
		{`"failed"`, `"timeout"`},
	} {
		if doc := strings.Replace(base, other[0], other[1], 1); doc == base || agree(doc) == want {
			t.Errorf("%s does not change the agreement", other[0])
		}
	}
}

// TestStandardOutputCountsWhereAsked: what was printed to standard output is part
// of the agreement where the request says so, and nothing else changes it.
func TestStandardOutputCountsWhereAsked(t *testing.T) {
	asked := parseRequest(t, SandboxRun, strings.Replace(minimal[SandboxRun], `{`, `{"verification":{"compare_stdout":true},`, 1))
	agree := func(doc string) hashing.Digest {
		t.Helper()
		d, err := asked.AgreementHash(parseResult(t, SandboxRun, doc))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	base := sandboxResult("failed", []string{run("a", 0), run("b", 1)}, nil)
	want, err := hashing.Sum([]byte(`{"image_digest":"` + ones + `","commands":["a","b"],"exit_codes":[0,1],"artifacts":[],"status":"failed","stdout_sha256":["` +
		zeros + `","` + zeros + `"]}`))
	if err != nil || agree(base) != want {
		t.Errorf("agreement %s, want %s (%v)", agree(base), want, err)
	}
	if doc := strings.Replace(base, `"stdout_sha256":"`+zeros, `"stdout_sha256":"`+ones, 1); doc == base || agree(doc) == want {
		t.Error("another standard output agrees")
	}
	if doc := strings.Replace(base, `"stderr_sha256":"`+zeros, `"stderr_sha256":"`+ones, 1); doc == base || agree(doc) != want {
		t.Error("another standard error does not agree")
	}
	nothing := sandboxResult("timeout", nil, nil)
	plain, err := parseRequest(t, SandboxRun, minimal[SandboxRun]).AgreementHash(parseResult(t, SandboxRun, nothing))
	if err != nil || agree(nothing) == plain {
		t.Errorf("what was asked does not show where no command ran: %v", err)
	}
	possible, err := parseResult(t, SandboxRun, base).AgreementHashes()
	if err != nil || len(possible) != 2 || possible[0] == want || possible[1] != want {
		t.Errorf("possible hashes %v, %v", possible, err)
	}
	if what, apart := asked.Compared(); !strings.Contains(what, "standard output") || strings.Contains(apart, "standard output") {
		t.Errorf("compared %q, not %q", what, apart)
	}
}
