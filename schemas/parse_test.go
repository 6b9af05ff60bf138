package schemas

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

const (
	zeros  = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	ones   = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	pubkey = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
)

// minimal requests: everything that has a default left out.
var minimal = map[ID]string{
	CodeChunkAnalysis: `{"task":"Analyze this code","chunk":{"path":"src/lib.rs","start_line":1,"end_line":10,"content":"fn main() {}"}}`,
	RetrievalRerank:   `{"user_task":"Find auth code","k":5,"candidates":[{"id":"1","content":"content1"},{"id":"2","content":"content2"}]}`,
	SandboxRun:        `{"sandbox":{"image_digest":"` + ones + `"},"commands":[{"cmd":"echo hello"}]}`,
	Embedding:         `{"texts":["Hello","World"]}`,
}

// minimalResults answer them.
var minimalResults = map[ID]string{
	CodeChunkAnalysis: `{"summary":"s","symbols":[{"name":"main","kind":"function","line":1}],"suspected_faults":[{"line":1,"severity":"low","description":"d"}],
		"recommended_next_probes":[{"path":"a.rs","reason":"r"}],"confidence":0.5,` + provenance + `}`,
	RetrievalRerank: `{"topk":[{"rank":1,"id":"2","score":0.9},{"rank":2,"id":"1","score":0.1}],` + provenance + `}`,
	SandboxRun: `{"env_info":{"image_digest":"` + ones + `"},"runs":[{"cmd":"echo hello","exit_code":0,"duration_ms":3,
		"stdout_sha256":"` + zeros + `","stderr_sha256":"` + zeros + `"}],"artifacts":[],"status":"success",` + provenance + `}`,
	Embedding: `{"embeddings":[[0.5,-1e-9],[1,2]],"model_id":"m","dimensions":2,` + provenance + `}`,
}

const provenance = `"provenance":{"model_id":"m","provider_pubkey":"` + pubkey + `"}`

func parseRequest(t testing.TB, id ID, doc string) *Request {
	t.Helper()
	r, err := lookup(t, id).ParseRequest([]byte(doc))
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return r
}

func parseResult(t testing.TB, id ID, doc string) *Result {
	t.Helper()
	r, err := lookup(t, id).ParseResult([]byte(doc))
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return r
}

// refusal fails unless err is a FieldError that names field and mentions reason.
func refusal(t *testing.T, err error, field, reason string) {
	t.Helper()
	var f *FieldError
	if !errors.As(err, &f) {
		t.Errorf("error %v (%T), want a FieldError for %q", err, err, field)
		return
	}
	if f.Field != field || !strings.Contains(f.Reason, reason) {
		t.Errorf("got field %q, reason %q; want field %q, reason with %q", f.Field, f.Reason, field, reason)
	}
}

func TestDefaultsAreFilledBeforeHashing(t *testing.T) {
	requirements.Covers(t, "AP-2.3.2")
	for id, want := range map[ID]string{
		SandboxRun: `{"commands":[{"cmd":"echo hello","continue_on_fail":false}],"repo":{"mount_path":"/workspace","source":""},` +
			`"sandbox":{"image_digest":"` + ones + `","network_policy":"none","provider":"docker",` +
			`"resources":{"cpus":1,"memory_mb":512,"timeout_secs":60}},"verification":{"adjudication":"none","mode":"objective","redundancy":1}}`,
		Embedding: `{"texts":["Hello","World"],"verification":{"adjudication":"none","mode":"objective","redundancy":1}}`,
	} {
		r := parseRequest(t, id, minimal[id])
		if string(r.Canonical) != want {
			t.Errorf("%s: canonical form\n%s, want\n%s", id, r.Canonical, want)
		}
		if r.JobHash != hashing.Bytes([]byte(want)) || r.SchemaID != id {
			t.Errorf("%s: %s, job_hash %s", id, r.SchemaID, r.JobHash)
		}
		// Writing a default out, or spelling a number otherwise, is the same job.
		again := parseRequest(t, id, strings.Replace(want, `"cpus":1,"memory_mb":512`, `"memory_mb":5.12e2,"cpus":1.000`, 1))
		if again.JobHash != r.JobHash {
			t.Errorf("%s: explicit defaults change the job_hash", id)
		}
	}
	if k := parseRequest(t, RetrievalRerank, strings.Replace(minimal[RetrievalRerank], `"k":5,`, "", 1)).Value.(*RerankRequest).K; k != 10 {
		t.Errorf("k = %d, want 10", k)
	}
}

// The canonical requests and hashes that OpenAgents recorded for the same
// minimal requests, so the defaults are theirs.
func TestJobHashesMatchUpstream(t *testing.T) {
	var vectors struct {
		Derived []struct {
			Name          string `json:"name"`
			SHA256        string `json:"sha256"`
			CanonicalJSON string `json:"canonical_json"`
		} `json:"derived"`
	}
	if err := json.Unmarshal(readFile(t, "../hashing/testdata/openagents/canonical-hash.json"), &vectors); err != nil {
		t.Fatal(err)
	}
	names := map[string]ID{"chunk test_hash": CodeChunkAnalysis, "rerank test_hash": RetrievalRerank}
	found := 0
	for _, v := range vectors.Derived {
		id, ok := names[v.Name]
		if !ok {
			continue
		}
		found++
		r := parseRequest(t, id, minimal[id])
		if string(r.Canonical) != v.CanonicalJSON || r.JobHash.Hex() != v.SHA256 {
			t.Errorf("%s: %s %s, want %s %s", id, r.Canonical, r.JobHash.Hex(), v.CanonicalJSON, v.SHA256)
		}
	}
	if found != len(names) {
		t.Errorf("%d vectors found, want %d", found, len(names))
	}
}

func TestRequestsThatBreakTheirSchema(t *testing.T) {
	for _, tt := range []struct {
		id            ID
		old, new      string // replaced in the minimal request
		field, reason string
	}{
		{SandboxRun, `"commands"`, `"command"`, "command", "not a field"},
		{SandboxRun, `"image_digest"`, `"imageDigest":"x","image_digest"`, "sandbox.imageDigest", "not a field"},
		{SandboxRun, `{"cmd"`, `{"Cmd":"x","cmd"`, "commands[0].Cmd", "not a field"},
		{SandboxRun, `"sandbox":{"image_digest":"` + ones + `"}`, `"sandbox":{}`, "sandbox.image_digest", "required"},
		{SandboxRun, `,"commands":[{"cmd":"echo hello"}]`, ``, "commands", "required"},
		{SandboxRun, `"sandbox":{`, `"sandbox":null,"x":{`, "x", "not a field"},
		{SandboxRun, `{"image_digest":"` + ones + `"}`, `null`, "sandbox", "is null, must be an object"},
		{SandboxRun, `[{"cmd":"echo hello"}]`, `[]`, "commands", "at least 1"},
		{SandboxRun, `"cmd":"echo hello"`, `"cmd":""`, "commands[0].cmd", "at least 1"},
		{SandboxRun, `"cmd":"echo hello"`, `"cmd":7`, "commands[0].cmd", "is an integer, must be a string"},
		{SandboxRun, `[{"cmd"`, `[{"cmd":"a"},{"continue_on_fail":"no","cmd"`, "commands[1].continue_on_fail", "must be a boolean"},
		{SandboxRun, `"commands"`, `"verification":{"redundancy":0},"commands"`, "verification.redundancy", "at least 1"},
		{SandboxRun, `"commands"`, `"verification":{"mode":"Objective"},"commands"`, "verification.mode", "objective, subjective"},
		{SandboxRun, `"commands"`, `"commands":[],"commands"`, "commands", "twice"},
		{SandboxRun, `"cmd"`, `"workdir":null,"cmd"`, "commands[0].workdir", "is null"},
		{CodeChunkAnalysis, `"end_line":10`, `"end_line":0`, "chunk.end_line", "at least 1"},
		{CodeChunkAnalysis, `"start_line":1`, `"start_line":11`, "chunk.end_line", "before start_line"},
		{CodeChunkAnalysis, `"start_line":1`, `"start_line":1.5`, "chunk.start_line", "is a number, must be an integer"},
		{CodeChunkAnalysis, `"start_line":1,`, ``, "chunk.start_line", "required"},
		{RetrievalRerank, `"k":5`, `"k":0`, "k", "at least 1"},
		{RetrievalRerank, `"id":"2"`, `"id":"1"`, "candidates[1].id", "not unique"},
		{Embedding, `"World"`, `3`, "texts[1]", "must be a string"},
		{Embedding, `["Hello","World"]`, `"Hello"`, "texts", "must be an array"},
	} {
		t.Run(string(tt.id)+" "+tt.field, func(t *testing.T) {
			doc := strings.Replace(minimal[tt.id], tt.old, tt.new, 1)
			if doc == minimal[tt.id] {
				t.Fatal("nothing replaced")
			}
			_, err := lookup(t, tt.id).ParseRequest([]byte(doc))
			refusal(t, err, tt.field, tt.reason)
		})
	}
}

func TestDocumentsThatAreNoRequest(t *testing.T) {
	s := lookup(t, SandboxRun)
	for doc, reason := range map[string]string{
		``:                                "unexpected end",
		`[]`:                              "is an array, must be an object",
		`"x"`:                             "is a string, must be an object",
		`null`:                            "is null, must be an object",
		"{\"a\":\"\xff\"}":                "invalid UTF-8",
		minimal[SandboxRun] + `x`:         "trailing data",
		strings.Repeat(`{"a":`, 1000):     "nested too deep",
		`{"commands":[9007199254740993]}`: "integer beyond",
		`"` + strings.Repeat("x", MaxRequestBytes): "at most 1048576",
	} {
		_, err := s.ParseRequest([]byte(doc))
		refusal(t, err, "", reason)
	}
}

// The same document gets the same answer, although several fields are wrong.
func TestRefusalsAreStable(t *testing.T) {
	doc := `{"sandbox":{"image_digest":"x","provider":"y","network_policy":"z","resources":{"cpus":0,"memory_mb":1,"timeout_secs":0}},"commands":[]}`
	for range 50 {
		_, err := lookup(t, SandboxRun).ParseRequest([]byte(doc))
		refusal(t, err, "commands", "at least 1")
	}
}

// A hostile name cannot bring terminal codes or megabytes into an error.
func TestErrorsArePrintable(t *testing.T) {
	name := `\u001b[31m\n` + strings.Repeat("n", 100_000)
	_, err := lookup(t, SandboxRun).ParseRequest([]byte(`{"` + name + `":1}`))
	if err == nil {
		t.Fatal("accepted")
	}
	text := err.Error()
	if len(text) > 300 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Errorf("error is %q", text)
	}
}

// One wrong element in a huge array is answered without an error for each.
func TestHugeArraysStopEarly(t *testing.T) {
	doc := `{"texts":[` + strings.Repeat("1,", 400_000) + `1]}`
	_, err := lookup(t, Embedding).ParseRequest([]byte(doc))
	refusal(t, err, "texts", "at most 256")
}

// FuzzParseRequest: no document panics, every refusal names a field, and an
// accepted request is stable under its own canonical form.
func FuzzParseRequest(f *testing.F) {
	ids := []ID{CodeChunkAnalysis, RetrievalRerank, SandboxRun, Embedding}
	for i, id := range ids {
		f.Add(uint8(i), []byte(minimal[id]))
	}
	f.Add(uint8(2), []byte(`{"sandbox":{"image_digest":"`+ones+`"},"commands":[{"cmd":"a","workdir":"b"}],"env":{"A":"b"},"verification":{"expected":{"exit_codes":[1],"artifacts":{"a":"`+zeros+`"}}}}`))
	f.Add(uint8(1), []byte(`{"user_task":"x","candidates":[{"id":"1","content":"","metadata":{"a":[1,{"b":null}]},"original_score":1e30}]}`))
	f.Fuzz(func(t *testing.T, which uint8, doc []byte) {
		s := lookup(t, ids[int(which)%len(ids)])
		r, err := s.ParseRequest(doc)
		if err != nil {
			var field *FieldError
			if !errors.As(err, &field) {
				t.Fatalf("refusal is %T: %v", err, err)
			}
			return
		}
		again, err := s.ParseRequest(r.Canonical)
		if err != nil || again.JobHash != r.JobHash || string(again.Canonical) != string(r.Canonical) {
			t.Fatalf("%s became %v, %v", r.Canonical, again, err)
		}
	})
}

func FuzzParseResult(f *testing.F) {
	ids := []ID{CodeChunkAnalysis, RetrievalRerank, SandboxRun, Embedding}
	for i, id := range ids {
		f.Add(uint8(i), []byte(minimalResults[id]))
	}
	f.Fuzz(func(t *testing.T, which uint8, doc []byte) {
		id := ids[int(which)%len(ids)]
		r, err := lookup(t, id).ParseResult(doc)
		if err != nil {
			var field *FieldError
			if !errors.As(err, &field) {
				t.Fatalf("refusal is %T: %v", err, err)
			}
			return
		}
		if sum, err := hashing.Sum(doc); err != nil || sum != r.OutputHash {
			t.Fatalf("output_hash %s, the document's is %s, %v", r.OutputHash, sum, err)
		}
		if _, err := r.AgreementHashes(); err != nil && !errors.Is(err, ErrNoAgreement) {
			t.Fatalf("agreement: %v", err)
		}
		_ = parseRequest(t, id, minimal[id]).CheckResult(r) // must not panic
	})
}

func BenchmarkParseRequest(b *testing.B) {
	s := lookup(b, SandboxRun)
	doc := []byte(minimal[SandboxRun])
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.ParseRequest(doc); err != nil {
			b.Fatal(err)
		}
	}
}
