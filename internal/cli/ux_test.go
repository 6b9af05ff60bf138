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
	"testing/fstest"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/testclass"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/schemas"
)

func TestPackRefusesLinksThatLeadOut(t *testing.T) {
	link := func(to string) fstest.MapFS {
		return fstest.MapFS{"a/link": {Data: []byte(to), Mode: os.ModeSymlink | 0o777}, "f": {Data: []byte("x")}}
	}
	for to, ok := range map[string]bool{
		"../f": true, "other": true, "./x/../y": true, "..": true,
		"../../f": false, "/etc/passwd": false, "x/../../../f": false,
	} {
		if _, err := packFS(link(to)); (err == nil) != ok {
			t.Errorf("link to %s: %v", to, err)
		}
	}
}

func TestPackCounts(t *testing.T) {
	p, err := packFS(fstest.MapFS{
		"a": {Data: []byte("12345")}, "d/b": {Data: []byte("123")}, ".git/config": {Data: []byte("secret")}, "sub/.git": {Data: []byte("gitdir")},
	})
	if err != nil || p.files != 2 || p.bytes != 8 {
		t.Fatalf("%+v, %v", p, err)
	}
	if bytes.Contains(p.archive, []byte("gitdir")) {
		t.Error(".git was packed")
	}
}

func TestSecretNames(t *testing.T) {
	for name, secret := range map[string]bool{
		".env": true, ".ENV": true, ".env.local": true, "server.pem": true, "Id_Rsa": true, "tls.key": true, ".netrc": true,
		"credentials": true, "credentials.json": true, "admin.macaroon": true,
		".env.example": false, "id_rsa.pub": false, "keyboard.go": false, "environment": false, "main.go": false,
	} {
		if isSecretName(name) != secret {
			t.Errorf("%s: %v", name, !secret)
		}
	}
}

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

// sold is a purchase of a sandbox job that was delivered with this status.
func sold(t *testing.T, status schemas.Status) buyer.Purchase {
	t.Helper()
	out, err := json.Marshal(schemas.SandboxRunResult{Status: status, Error: "e"})
	if err != nil {
		t.Fatal(err)
	}
	ev := nostr.Event{Tags: nostr.Tags{{"i", `{"sandbox":{"resources":{"timeout_secs":7}}}`, "text"}}}
	request, err := json.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	return buyer.Purchase{SchemaID: string(schemas.SandboxRun), State: buyer.StateDone, Request: request, Output: out, JobHash: hashing.Bytes(nil)}
}

func TestUnmetJobsHaveACode(t *testing.T) {
	for status, want := range map[schemas.Status]string{
		schemas.StatusSuccess: "",
		schemas.StatusFailed:  "the job was done and its commands failed",
		schemas.StatusTimeout: "the job was done and its commands were stopped at their 7 s limit",
		schemas.StatusError:   "the job ended as error: e",
	} {
		err := unmet(sold(t, status))
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", status, err)
			}
			continue
		}
		var coded *advice.Error
		if !errors.As(err, &coded) || coded.Code != advice.ExitUnmet || err.Error() != want {
			t.Errorf("%s: %v", status, err)
		}
	}
	open := sold(t, schemas.StatusFailed)
	open.State = buyer.StatePaid
	if err := unmet(open); err != nil {
		t.Errorf("a purchase that is not done: %v", err)
	}
}

func TestWhatIsLeftOfAnInterruptedPurchase(t *testing.T) {
	held := buyer.Purchase{State: buyer.StatePaying, Charge: buyer.Charge{Attempt: &buyer.Attempt{AmountMsats: 20_000}}}
	paid := buyer.Purchase{State: buyer.StatePaid, Charge: buyer.Charge{Payment: &payments.Payment{State: payments.PaymentSucceeded, AmountMsats: 9000}}}
	for want, p := range map[string]buyer.Purchase{
		"20 sat are held, the job goes on":    held,
		"9 sat are paid, the job goes on":     paid,
		"nothing is paid, the request is out": {State: buyer.StateRequested},
	} {
		if got := left(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if v := viewOf(held); v.money() != "held 20 sat" {
		t.Errorf("listed as %q", v.money())
	}
}

// TestDemoFolder: a demo takes nothing of another's folder while that demo, or a
// node of its, runs there, and never its keys.
func TestDemoFolder(t *testing.T) {
	d := demoCmd{Out: filepath.Join(t.TempDir(), "out")}
	dir, moved, unlock, err := d.folder()
	if err != nil || moved != "" {
		t.Fatal(moved, err)
	}
	if _, err := node.WriteSetup(dir, config.Setup{ProviderWallet: "play", BuyerWallet: "play", Relay: "ws://127.0.0.1:1", PlayURL: "http://127.0.0.1:1", PerMinuteMsats: 1}); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "keys", "provider.key"))
	if err != nil {
		t.Fatal(err)
	}
	keeps := func(in string) {
		t.Helper()
		if now, err := os.ReadFile(filepath.Join(in, "keys", "provider.key")); err != nil || !bytes.Equal(now, key) {
			t.Errorf("the provider's key in %s: %v", in, err)
		}
	}
	if _, _, _, err := d.folder(); err == nil || !strings.Contains(err.Error(), "another demo is running in "+dir) {
		t.Errorf("a second demo: %v", err)
	}
	keeps(dir)
	unlock()

	// Every kind of process that may run there.
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "node.db"), sqlite.Options{ExclusiveLock: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := d.folder(); err == nil || !strings.Contains(err.Error(), dir+" is in use") {
		t.Errorf("a demo in the folder of a running node: %v", err)
	}
	keeps(dir)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	for n := 1; n <= 2; n++ {
		_, moved, unlock, err = d.folder()
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		if n == 1 {
			if want := dir + "-1"; moved != want {
				t.Errorf("moved to %q, want %q", moved, want)
			}
			keeps(moved)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("the folder is not empty: %v, %v", left, err)
		}
		unlock()
	}

	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := (demoCmd{Out: full}).folder(); err == nil || !strings.Contains(err.Error(), "not from a demo") {
		t.Errorf("somebody's folder: %v", err)
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
		"fail  sandbox          confinement: no job runs: level full is asked for", "jobs cannot be confined here, so none is run",
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
