package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

// TestEveryKeyIsInTheTemplateAndTheDocs: a key that nobody can find is no key.
func TestEveryKeyIsInTheTemplateAndTheDocs(t *testing.T) {
	text, err := config.Setup{ProviderWallet: "lnd", BuyerWallet: "play", PlayURL: "http://127.0.0.1:1"}.Text()
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../docs/use/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	yamlKeys(reflect.TypeFor[config.Config](), keys)
	if len(keys) < 40 {
		t.Fatalf("only %d keys found", len(keys))
	}
	for key := range keys {
		if !regexp.MustCompile(`(?m)^[ #-]*` + key + `:`).Match(text) {
			t.Errorf("%s is not in the template", key)
		}
		if !regexp.MustCompile(`[` + "`" + `.]` + key + `\b`).Match(docs) {
			t.Errorf("%s is not in docs/use/cli.md", key)
		}
	}
}

// yamlKeys collects the keys of a type and of what is in it.
func yamlKeys(typ reflect.Type, keys map[string]bool) {
	for typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct {
		return
	}
	for i := range typ.NumField() {
		if key := typ.Field(i).Tag.Get("yaml"); key != "" {
			keys[key] = true
			yamlKeys(typ.Field(i).Type, keys)
		}
	}
}

// TestJSONLog: with --log-format json every line of standard error is a record,
// whoever wrote it.
func TestJSONLog(t *testing.T) {
	var out, diag bytes.Buffer
	config := filepath.Join(t.TempDir(), "lightwork.yaml")
	if code := Run(t.Context(), "dev", []string{"--log-format", "json", "-c", config, "provider", "run"}, nil, &out, &diag); code != advice.ExitUsage {
		t.Errorf("exit code %d", code)
	}
	Run(t.Context(), "dev", []string{"--log-format", "json", "provider", "sell"}, nil, &out, &diag)
	fmt.Fprintf(app.NewStreams(&app.Globals{LogFormat: app.FormatJSON}, "dev", nil, &out, &diag).Err, "lightwork: one\n  hint: two\n\n")
	var said []string
	for line := range strings.Lines(diag.String()) {
		var record struct{ Time, Level, Msg, Hint string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time == "" || record.Msg == "" {
			t.Errorf("%q is no record: %v", line, err)
		}
		said = append(said, record.Level+" "+record.Msg+" "+record.Hint)
	}
	if len(said) != 4 || !strings.HasPrefix(said[0], "ERROR no configuration at") || !strings.Contains(said[0], "init") || said[2] != "INFO one " || said[3] != "INFO hint: two " {
		t.Errorf("said %q", said)
	}
}

// TestDemoInterrupted presses Ctrl-C once the market is up.
func TestDemoInterrupted(t *testing.T) {
	out, errs := newOutput(), newOutput()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "lightwork"), "demo", "--out", filepath.Join(t.TempDir(), "out"))
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.await(t, "relay +ws://")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != advice.ExitFailed {
		t.Errorf("demo ended with %v", err)
	}
	if got := errs.text.String(); got != "lightwork: demo: interrupted\n" {
		t.Errorf("it said %q", got)
	}
}

// TestDemoSaysHowToVerify runs the command that the demo prints, as a reader
// would: with its pins nothing is self-asserted.
func TestDemoSaysHowToVerify(t *testing.T) {
	dir := t.TempDir()
	env := append(os.Environ(), "PATH="+binDir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	demo := exec.CommandContext(t.Context(), filepath.Join(binDir, "lightwork"), "demo")
	demo.Dir, demo.Env, demo.Stderr = dir, env, t.Output()
	out, err := demo.Output()
	if err != nil {
		t.Fatalf("demo: %v\n%s", err, out)
	}
	_, next, ok := strings.Cut(string(out), "Try next:\n")
	if !ok {
		t.Fatalf("no next step in:\n%s", out)
	}
	script := exec.CommandContext(t.Context(), "sh", "-e", "-c", next)
	script.Dir, script.Env, script.Stderr = dir, env, t.Output()
	out, err = script.Output()
	if err != nil || !regexp.MustCompile(`(?m)^proved +payee_pinned`).Match(out) || bytes.Contains(out, []byte("self-asserted:")) {
		t.Errorf("%v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("SessionEnd")) || !bytes.Contains(out, []byte("done")) {
		t.Errorf("replay show and buyer list said:\n%s", out)
	}
}

// TestWithoutSandboxNothingIsPromised runs as a user who may make no cgroups:
// commands of strangers are not sold there, and the demo says how firmly its own
// is confined.
func TestWithoutSandboxNothingIsPromised(t *testing.T) {
	if os.Geteuid() != 0 {
		testclass.Unavailable(t, "only root becomes another user")
	}
	if err := os.Chmod(binDir, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "lightwork-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (stdout, stderr string, code int) {
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "lightwork"), args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = dir, &out, &errs, []string{"PATH=" + os.Getenv("PATH")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		_ = cmd.Run()
		return out.String(), errs.String(), cmd.ProcessState.ExitCode()
	}
	if _, stderr, code := run("init"); code != 0 {
		t.Fatal(stderr)
	}
	_, stderr, code := run("provider", "run")
	for _, want := range []string{
		"fail  sandbox          memory, pids and cpu limits: ", "-> run as root",
		"fail  sandbox          confinement: no jobs can run: level full is required", "jobs cannot be confined here, so none is run",
		"systemd-run --user --scope -p Delegate=yes", "provider run; or accept a weaker level: sandbox.least_confinement",
	} {
		if code != advice.ExitFailed || !strings.Contains(stderr, want) {
			t.Errorf("provider run ends with %d and does not say %q:\n%s", code, want, stderr)
		}
	}

	// The demo's own job needs no full confinement; where even Landlock is missing it orders no command.
	stdout, stderr, code := run("demo")
	weaker := regexp.MustCompile(`(?m)^  sandbox   confinement level (limits|landlock): good enough for this job of ours, not for strangers'`)
	if code != advice.ExitOK || !weaker.MatchString(stdout) && !strings.Contains(stderr, "commands cannot be confined here at all, so none is run") {
		t.Errorf("demo: exit %d, %s%s", code, stdout, stderr)
	}
	stdout, _, _ = run("doctor")
	if n := strings.Count(stdout, "mkdir"); n > 3 || !strings.Contains(stdout, "warn  sandbox          namespaces and read-only system: not tried") {
		t.Errorf("doctor says the same twice:\n%s", stdout)
	}
}

// TestDemoWhereNothingConfines: without Landlock, namespaces and control groups no
// command runs, and a tool in WebAssembly shows the whole path of a job.
func TestDemoWhereNothingConfines(t *testing.T) {
	if os.Geteuid() != 0 {
		testclass.Unavailable(t, "only root takes confinement away")
	}
	dir := t.TempDir()
	container := filepath.Join(dir, "barecontainer")
	if said, err := exec.CommandContext(t.Context(), "go", "build", "-o", container, "../../internal/barecontainer").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	run := func(args ...string) (stdout, stderr string) {
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), container, append([]string{"-no-landlock", filepath.Join(binDir, "lightwork")}, args...)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %v\n%s%s", args, err, out.String(), errs.String())
		}
		return out.String(), errs.String()
	}

	stdout, stderr := run("demo", "--out", "a demo")
	if !strings.Contains(stderr, "commands cannot be confined here at all, so none is run: a tool in WebAssembly") {
		t.Errorf("standard error:\n%s", stderr)
	}
	for _, want := range []string{"  agent     com.example.embed: its tool is WebAssembly", "announces oa.embedding.v1 at 21 sat a minute\n", "\nA paid job, proved, in "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("does not say %q:\n%s", want, stdout)
		}
	}
	result, err := os.ReadFile(filepath.Join(dir, "a demo", "bundle", "RESULT.json"))
	if err != nil || !bytes.Contains(result, []byte(`"model_id":"example-word-counts"`)) {
		t.Errorf("result %.300s, %v", result, err)
	}
	run("-c", "a demo/lightwork.yaml", "config", "check") // what the demo leaves is a node
}
