package sandbox

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/schemas"
)

// request parses a sandbox_run request, with the image digest of this host.
func request(t *testing.T, fields map[string]any) *schemas.Request {
	t.Helper()
	_, digest, err := HostManifest()
	if err != nil {
		t.Fatal(err)
	}
	doc := map[string]any{
		"sandbox": map[string]any{
			"provider": "host", "image_digest": digest,
			"resources": map[string]any{"memory_mb": 64, "timeout_secs": 20, "disk_mb": 16},
		},
	}
	for name, value := range fields {
		if more, ok := value.(map[string]any); ok && name == "sandbox" {
			for k, v := range more {
				doc["sandbox"].(map[string]any)[k] = v
			}
			continue
		}
		doc[name] = value
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	schema, _ := schemas.Lookup(string(schemas.SandboxRun))
	req, err := schema.ParseRequest(text)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func commands(list ...string) []map[string]any {
	var all []map[string]any
	for _, c := range list {
		all = append(all, map[string]any{"cmd": c})
	}
	return all
}

// run executes a request and puts its result through the checks that the
// provider makes.
func run(t *testing.T, req *schemas.Request, opts Options) *Result {
	t.Helper()
	needsConfinement(t)
	r, err := Run(t.Context(), req.Value.(*schemas.SandboxRunRequest), opts)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	schema, _ := schemas.Lookup(string(schemas.SandboxRun))
	finished, err := schema.FinishResult(doc, strings.Repeat("ab", 32))
	if err != nil {
		t.Fatalf("result breaks its schema: %v\n%s", err, doc)
	}
	if err := req.CheckResult(finished); err != nil {
		t.Fatalf("result does not answer the request: %v\n%s", err, doc)
	}
	return r
}

func TestRunExample(t *testing.T) {
	archive := archiveOf(t, "../../examples/wordstat")
	opts := testOptions(t)
	var streamed strings.Builder
	opts.Stream = func(channel, text string) { streamed.WriteString(text) }
	req := request(t, map[string]any{
		"repo":     map[string]any{"source": schemas.InlineArchive(archive)},
		"commands": commands("./check.sh"),
	})
	r := run(t, req, opts)
	if r.Status != schemas.StatusSuccess || r.Error != "" || len(r.Runs) != 1 || len(r.Artifacts) != 1 {
		t.Fatalf("%+v", r)
	}
	if !strings.Contains(r.Runs[0].StdoutPreview, "# all 15 passed") || streamed.String() != r.Runs[0].StdoutPreview {
		t.Errorf("output %q, streamed %q", r.Runs[0].StdoutPreview, streamed.String())
	}
	want, err := os.ReadFile("../../examples/wordstat/tests/expected.txt")
	if err != nil {
		t.Fatal(err)
	}
	a := r.Artifacts[0]
	if a.Path != "report.txt" || a.SHA256 != hashing.Bytes(want) || a.SizeBytes != int64(len(want)) || a.MimeType != "text/plain; charset=utf-8" {
		t.Errorf("artifact %+v", a)
	}
	kept, err := os.ReadFile(filepath.Join(opts.ArtifactDir, a.SHA256.Hex()))
	if err != nil || !bytes.Equal(kept, want) {
		t.Errorf("kept %q, %v", kept, err)
	}
	if !strings.HasPrefix(r.EnvInfo.SystemInfo, "linux ") || r.EnvInfo.Hostname != "sandbox" {
		t.Errorf("environment %+v", r.EnvInfo)
	}
}

func TestRunStopsAtFirstFailure(t *testing.T) {
	for _, tt := range []struct {
		name     string
		commands []map[string]any
		codes    []int32
		status   schemas.Status
	}{
		{"all succeed", commands("true", "true"), []int32{0, 0}, schemas.StatusSuccess},
		{"second fails", commands("true", "exit 3", "true"), []int32{0, 3}, schemas.StatusFailed},
		{"failure allowed", []map[string]any{{"cmd": "exit 3", "continue_on_fail": true}, {"cmd": "true"}}, []int32{3, 0}, schemas.StatusFailed},
		{"signal", commands("kill -TERM $$"), []int32{143}, schemas.StatusFailed},
		{"missing program", commands("no-such-program"), []int32{127}, schemas.StatusFailed},
		{"missing workdir", []map[string]any{{"cmd": "true", "workdir": "none"}}, []int32{127}, schemas.StatusFailed},
		{"workdir", []map[string]any{{"cmd": "mkdir -p a/b"}, {"cmd": "test $PWD = /workspace/a/b", "workdir": "a/b"}}, []int32{0, 0}, schemas.StatusSuccess},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := run(t, request(t, map[string]any{"commands": tt.commands}), testOptions(t))
			var codes []int32
			for _, one := range r.Runs {
				codes = append(codes, one.ExitCode)
			}
			if fmt.Sprint(codes) != fmt.Sprint(tt.codes) || r.Status != tt.status {
				t.Errorf("codes %v, status %s", codes, r.Status)
			}
		})
	}
}

func TestRunDigestsCoverAllOutput(t *testing.T) {
	r := run(t, request(t, map[string]any{
		"commands": commands(`i=0; while [ $i -lt 40000 ]; do echo "é $i"; i=$((i+1)); done; printf '\377bad' >&2`),
	}), testOptions(t))
	var full bytes.Buffer
	for i := range 40000 {
		fmt.Fprintf(&full, "é %d\n", i)
	}
	one := r.Runs[0]
	if one.StdoutSHA256 != hashing.Digest(sha256.Sum256(full.Bytes())) {
		t.Error("stdout digest is not of the whole output")
	}
	if one.StderrSHA256 != hashing.Bytes([]byte("\xffbad")) || one.StderrPreview != "\uFFFDbad" {
		t.Errorf("stderr %s %q", one.StderrSHA256, one.StderrPreview)
	}
	if n := len(one.StdoutPreview); n > maxPreviewBytes || n < maxPreviewBytes-4 || !strings.HasPrefix(full.String(), one.StdoutPreview) {
		t.Errorf("preview has %d bytes", n)
	}
}

func TestRunEnvironment(t *testing.T) {
	t.Setenv("LIGHTWORK_TEST_SECRET", "of the agent")
	r := run(t, request(t, map[string]any{
		"env":      map[string]string{"A": "1 2", "PATH": "/bin", "LIGHTWORK_ARTIFACTS": "/usr"},
		"commands": commands("env | sort"),
	}), testOptions(t))
	want := "A=1 2\nHOME=/tmp\nLANG=C.UTF-8\nLIGHTWORK_ARTIFACTS=/artifacts\nPATH=/bin\nPWD=/workspace\n"
	if got := r.Runs[0].StdoutPreview; got != want {
		t.Errorf("environment is\n%s", got)
	}
}

func TestRunOutOfMemory(t *testing.T) {
	r := run(t, request(t, map[string]any{
		"sandbox":  map[string]any{"resources": map[string]any{"memory_mb": 32, "disk_mb": 1}},
		"commands": commands(`awk 'BEGIN { s = "x"; while (1) s = s s }'`),
	}), testOptions(t))
	if r.Status != schemas.StatusFailed || !strings.HasPrefix(r.Error, "out_of_memory") {
		t.Errorf("%s %q", r.Status, r.Error)
	}
}

func TestRunTimeout(t *testing.T) {
	r := run(t, request(t, map[string]any{
		"sandbox":  map[string]any{"resources": map[string]any{"timeout_secs": 1}},
		"commands": commands("echo begun; sleep 100", "true"),
	}), testOptions(t))
	if r.Status != schemas.StatusTimeout || r.Error == "" || len(r.Runs) != 1 || r.Runs[0].StdoutPreview != "begun\n" {
		t.Errorf("%+v", r)
	}
}

func TestRunRefusesWhatItCannotHonour(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*schemas.SandboxRunRequest)
		field  string
	}{
		"unregistered image": {func(r *schemas.SandboxRunRequest) { r.Sandbox.Provider = "docker" }, "sandbox.image_digest"},
		"other toolchain":    {func(r *schemas.SandboxRunRequest) { r.Sandbox.ImageDigest[0] ^= 1 }, "sandbox.image_digest"},
		"unknown provider":   {func(r *schemas.SandboxRunRequest) { r.Sandbox.Provider = "none" }, "sandbox.provider"},
		"full network":       {func(r *schemas.SandboxRunRequest) { r.Sandbox.NetworkPolicy = "full" }, "sandbox.network_policy"},
		"mount over /usr":    {func(r *schemas.SandboxRunRequest) { r.Repo.MountPath = "/usr/src" }, "repo.mount_path"},
		"mount over /proc":   {func(r *schemas.SandboxRunRequest) { r.Repo.MountPath = "/proc" }, "repo.mount_path"},
		"remote source":      {func(r *schemas.SandboxRunRequest) { r.Repo.Source = "https://example.com/x.git" }, "repo.source"},
		"workdir outside":    {func(r *schemas.SandboxRunRequest) { r.Commands[0].Workdir = "../etc" }, "commands[0].workdir"},
		"absolute workdir":   {func(r *schemas.SandboxRunRequest) { r.Commands[0].Workdir = "/etc" }, "commands[0].workdir"},
		"sibling of mount":   {func(r *schemas.SandboxRunRequest) { r.Commands[0].Workdir = "/workspace2" }, "commands[0].workdir"},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(t, map[string]any{"commands": commands("true")}).Value.(*schemas.SandboxRunRequest)
			tt.change(req)
			_, err := Run(t.Context(), req, testOptions(t))
			var re *RequestError
			if !errors.As(err, &re) || !errors.Is(err, ErrRequest) || re.Field != tt.field {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := Run(t.Context(), &schemas.SandboxRunRequest{}, Options{}); err == nil {
		t.Error("no Init arguments, no error")
	}
}

func TestRunArtifacts(t *testing.T) {
	host := filepath.Join(t.TempDir(), "host")
	if err := os.WriteFile(host, []byte("host file"), 0o644); err != nil {
		t.Fatal(err)
	}
	opts := testOptions(t)
	r := run(t, request(t, map[string]any{"commands": commands(`cd $LIGHTWORK_ARTIFACTS
		mkdir -p sub/dir; printf same >a; printf same >sub/dir/b; printf '\000\001' >bin; : >empty
		ln -s ` + host + ` outward; ln -s /etc/passwd inward; ln -s a link; ln a hard1; rm hard1
		printf x >h1; ln h1 h2; mkfifo fifo; ln -s / all; printf y >"$(printf 'new\nline')"; printf z >secret; chmod 000 secret`)}), opts)
	var got []string
	for _, a := range r.Artifacts {
		got = append(got, a.Path+" "+a.MimeType)
	}
	want := "a text/plain; charset=utf-8|bin application/octet-stream|empty text/plain; charset=utf-8|secret text/plain; charset=utf-8|sub/dir/b text/plain; charset=utf-8"
	if strings.Join(got, "|") != want {
		t.Errorf("artifacts are\n%s", strings.Join(got, "\n"))
	}
	entries, err := os.ReadDir(opts.ArtifactDir)
	if err != nil || len(entries) != 4 { // a and sub/dir/b are one file
		t.Errorf("kept %v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
}

func TestRunArtifactLimits(t *testing.T) {
	for name, command := range map[string]string{
		"count": "i=0; while [ $i -le 128 ]; do echo $i >/artifacts/$i; i=$((i+1)); done",
		"bytes": "head -c 33M /dev/zero >/artifacts/big",
	} {
		t.Run(name, func(t *testing.T) {
			opts := testOptions(t)
			r := run(t, request(t, map[string]any{
				"sandbox":  map[string]any{"resources": map[string]any{"disk_mb": 64}},
				"commands": commands(command),
			}), opts)
			if r.Status != schemas.StatusError || !strings.HasPrefix(r.Error, "artifact_limit") || len(r.Artifacts) != 0 || r.Runs[0].ExitCode != 0 {
				t.Errorf("%+v", r)
			}
			if entries, err := os.ReadDir(opts.ArtifactDir); err != nil || len(entries) != 0 {
				t.Errorf("kept %v, %v", entries, err)
			}
		})
	}
}

func TestRunIsDeterministicInWhatIsAgreed(t *testing.T) {
	req := request(t, map[string]any{"commands": commands("echo 1; echo x >/artifacts/x", "exit 4")})
	schema, _ := schemas.Lookup(string(schemas.SandboxRun))
	var hashes []string
	for range 2 {
		doc, err := json.Marshal(run(t, req, testOptions(t)))
		if err != nil {
			t.Fatal(err)
		}
		finished, err := schema.FinishResult(doc, strings.Repeat("cd", 32))
		if err != nil {
			t.Fatal(err)
		}
		h, err := req.AgreementHash(finished)
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, h.String())
	}
	if hashes[0] != hashes[1] {
		t.Errorf("agreement %v", hashes)
	}
}

// archiveOf makes a tar.gz of a directory.
func archiveOf(t *testing.T, dir string) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	if err := tw.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
