package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/model/scripted"
	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/demo"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node/builtin"
	"github.com/lightwork-market/lightwork/internal/port"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/testclass"
	"github.com/lightwork-market/lightwork/schemas"
)

// patience bounds what a test waits for; it is never reached in a good run.
const patience = 2 * time.Minute

// binDir holds the two real programs, built once for all tests.
var binDir string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if agent, _ := builtin.Main(os.Args[1:]); agent != nil { // the sandbox starts its own program
		return agent(context.Background(), os.Stderr)
	}
	if len(os.Args) == 2 && os.Args[1] == asAgent {
		return runAsAgent()
	}
	if len(os.Args) == 2 && os.Args[1] == asSeller {
		return runAsSeller()
	}
	if len(os.Args) > 4 && os.Args[1] == asWallet {
		return runAsWallet(os.Args[2:])
	}
	dir, err := os.MkdirTemp("", "lightwork-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir+"/", "github.com/lightwork-market/lightwork/cmd/lightwork", "github.com/lightwork-market/lightwork/cmd/lightwork-verify")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
		return 1
	}
	binDir = dir
	return m.Run()
}

// TestScripts runs every script in testdata/script over the real programs.
func TestScripts(t *testing.T) {
	runScripts(t, testscript.Params{Dir: "testdata/script"})
}

// TestNetworkOfJobs: a job has the network that the operator sells, and no other.
func TestNetworkOfJobs(t *testing.T) {
	if machineLevel() == sandbox.LevelLandlock {
		testclass.Unavailable(t, "jobs have no network at level landlock, the firmest one here")
	}
	runScripts(t, testscript.Params{Files: []string{"testdata/named/network.txtar"}})
}

// TestSecretsAreNotKept plants canaries wherever an operator or an agent could
// leave a secret.
func TestSecretsAreNotKept(t *testing.T) {
	requirements.Covers(t, "OS-0.2", "OS-7.1.2", "OS-4.3.2.8", "K-38")
	runScripts(t, testscript.Params{Files: []string{"testdata/named/secrets.txtar"}})
}

// TestOperatorsAgents installs, approves, runs, steers and revokes an agent.
func TestOperatorsAgents(t *testing.T) {
	requirements.Covers(t, "OSX-8", "OS-4.3.2.9", "OS-0.1")
	runScripts(t, testscript.Params{Files: []string{"testdata/named/agents.txtar"}})
}

// TestConfinedAgentRunsGit: git ends where its settings for the machine are and
// cannot be read.
func TestConfinedAgentRunsGit(t *testing.T) {
	over := exec.Command("unshare", "--mount", "mount", "-t", "overlay", "none", "-o", "lowerdir="+t.TempDir()+":/etc", "/etc")
	if out, err := over.CombinedOutput(); err != nil {
		testclass.Unavailable(t, fmt.Sprintf("a program cannot be given another /etc here: %v: %s", err, out))
	}
	runScripts(t, testscript.Params{Files: []string{"testdata/named/git.txtar"}})
}

func runScripts(t *testing.T, p testscript.Params) {
	testscript.Run(t, testscript.Params{
		Dir: p.Dir, Files: p.Files, RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", binDir+string(filepath.ListSeparator)+os.Getenv("PATH"))
			for _, name := range []string{"RELAY", "PLAY", "METRICS"} {
				e.Setenv(name, port.Reserve(t))
			}
			if p.Setup != nil {
				if err := p.Setup(e); err != nil {
					return err
				}
			}
			e.Setenv("STRANGER", "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798") // the key of 1
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"reachable":  reachable,
			"untilok":    untilOK,
			"jsonfield":  jsonField,
			"exits":      exits,
			"httpget":    httpGet,
			"forward":    forward,
			"dam":        dam,
			"newday":     newDay,
			"bestlevel":  bestLevel,
			"pruneclock": pruneClock,
		},
	})
}

// exits CODE COMMAND... runs a command that must end with this exit code, and
// fills stdout and stderr as exec does.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	code := 0
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("run: %v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// reachable ADDRESS waits until something listens there.
func reachable(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", args[0])
		if err == nil {
			c.Close()
			return
		}
		if ctx.Err() != nil {
			ts.Fatalf("nothing listens on %s: %v", args[0], err)
		}
	}
}

// untilok TEXT COMMAND... repeats a command until its output holds the text.
func untilOK(ts *testscript.TestScript, _ bool, args []string) {
	program := filepath.Join(binDir, args[1])
	if _, err := os.Stat(program); err != nil {
		program = args[1]
	}
	end := time.Now().Add(patience)
	for {
		cmd := exec.Command(program, args[2:]...)
		cmd.Dir = ts.Getenv("WORK")
		out, _ := cmd.CombinedOutput()
		if strings.Contains(string(out), args[0]) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("no %q in: %s", args[0], out)
		}
	}
}

// machineLevel is how firmly jobs can be confined here; "" is not at all.
var machineLevel = sync.OnceValue(func() sandbox.Level {
	level, _ := builtin.TryLevels(context.Background(), sandbox.LevelLandlock)
	return level
})

// bestlevel DIR has a new node sell commands at the level of this machine, where that
// is not the full one: an ordinary user, or a container, can do no more.
func bestLevel(ts *testscript.TestScript, _ bool, args []string) {
	level := machineLevel()
	if level == sandbox.LevelFull || level == "" {
		return
	}
	path := ts.MkAbs(filepath.Join(args[0], config.DefaultFile))
	text := strings.Replace(ts.ReadFile(path), "  # least_confinement: full\n", "  least_confinement: "+string(level)+"\n", 1)
	ts.Check(os.WriteFile(path, []byte(text), 0o600))
}

// newday waits for the next day (UTC) if this one is nearly over: what follows
// looks at the budget of a day.
func newDay(*testscript.TestScript, bool, []string) {
	now := time.Now()
	if left := now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now); left < patience {
		time.Sleep(left)
	}
}

// pruneclock FOLDER AGO makes the last pruning of a store one of so long ago, as it is
// for a node that was off or whose clock has jumped.
func pruneClock(ts *testscript.TestScript, _ bool, args []string) {
	ago, err := time.ParseDuration(args[1])
	ts.Check(err)
	k, err := store.Open(context.Background(), ts.MkAbs(args[0]), store.Options{Now: func() time.Time { return time.Now().Add(-ago) }})
	ts.Check(err)
	ts.Check(cmp.Or(k.Pruning().TrustClock(context.Background()), k.Close()))
}

// jsonfield FILE FIELD [VALUE] reads a top-level field of a JSON object; it
// compares it, or puts it into the environment variable of the field's name.
func jsonField(ts *testscript.TestScript, neg bool, args []string) {
	var doc map[string]json.RawMessage
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &doc))
	value := strings.Trim(string(doc[args[1]]), `"`)
	if len(args) == 2 {
		ts.Setenv(args[1], value)
		return
	}
	if (value == args[2]) == neg {
		ts.Fatalf("%s is %q", args[1], value)
	}
}

// TestDemoProves runs the demo and reads its outcome as a script would.
func TestDemoProves(t *testing.T) {
	requirements.Covers(t, "OA-4.3", "OA-4.5", "OA-4.6")
	dir := filepath.Join(t.TempDir(), "out")
	cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "lightwork"), "demo", "--json", "--out", dir)
	cmd.Stderr = t.Output()
	doc, err := cmd.Output()
	if err != nil {
		t.Fatalf("demo: %v\n%s", err, doc)
	}
	var out demo.Outcome
	if err := json.Unmarshal(doc, &out); err != nil {
		t.Fatal(err)
	}
	for _, name := range demo.Required {
		if out.Claims[name] != "proved" {
			t.Errorf("%s is %q", name, out.Claims[name])
		}
	}
	if out.ReceiptID == "" || out.ElapsedMs <= 0 || out.Bundle != filepath.Join(dir, "bundle") {
		t.Errorf("outcome %+v", out)
	}
	// One byte of any file changed: no longer proved.
	path := filepath.Join(out.Bundle, "QUOTE.json")
	quote, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	quote[len(quote)/2] ^= 1
	if err := os.WriteFile(path, quote, 0o600); err != nil {
		t.Fatal(err)
	}
	err = exec.CommandContext(t.Context(), filepath.Join(binDir, "lightwork-verify"), out.Bundle).Run()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 {
		t.Errorf("verifying a changed bundle: %v", err)
	}
}

// TestDemoOfAModel: text is sold too where there is a model, and refused without
// one before anything is made.
func TestDemoOfAModel(t *testing.T) {
	server := modelServer(t)
	order := func(flags ...string) *exec.Cmd {
		args := append([]string{"demo", "--json", "--job", "text_generation", "--out", filepath.Join(t.TempDir(), "out")}, flags...)
		return exec.CommandContext(t.Context(), filepath.Join(binDir, "lightwork"), args...)
	}
	for _, flags := range [][]string{nil, {"--endpoint", server.URL}, {"--model", "m"}, {"--key-env", "KEY"}} {
		cmd := order(flags...)
		said, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != advice.ExitUsage || !strings.Contains(string(said), "--endpoint http") {
			t.Errorf("demo %v: %v: %s", flags, err, said)
		}
	}
	cmd := order("--endpoint", server.URL, "--model", "m")
	cmd.Stderr = t.Output()
	doc, err := cmd.Output()
	if err != nil {
		t.Fatalf("demo: %v\n%s", err, doc)
	}
	var out demo.Outcome
	if err := json.Unmarshal(doc, &out); err != nil || demo.ClaimsCode(out.Claims) != advice.ExitOK {
		t.Errorf("%+v, %v", out, err)
	}
	result, err := os.ReadFile(filepath.Join(out.Bundle, "RESULT.json"))
	if err != nil || !strings.Contains(string(result), modelWords) {
		t.Errorf("result %s, %v", result, err)
	}
}

// modelWords is what the model of modelServer says, whatever it is asked.
const modelWords = "It is given back."

func modelServer(t *testing.T) *httptest.Server {
	endpoint := scripted.New(scripted.Stream(scripted.Events(chat.Message{Role: chat.RoleAssistant, Content: modelWords}, "stop")...))
	server := httptest.NewServer(endpoint)
	t.Cleanup(server.Close)
	return server
}

// demoJobs are the job types that need no endpoint.
var demoJobs = []string{"sandbox_run", "code_chunk_analysis", "retrieval_rerank", "embedding"}

// TestDemoOfEachJob: the job types on text are sold, paid and proved too.
func TestDemoOfEachJob(t *testing.T) {
	requirements.Covers(t, "OA-3.2")
	for _, job := range demoJobs {
		t.Run(job, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "lightwork"), "demo", "--json", "--job", job, "--out", filepath.Join(t.TempDir(), "out"))
			cmd.Stderr = t.Output()
			doc, err := cmd.Output()
			if err != nil {
				t.Fatalf("demo: %v\n%s", err, doc)
			}
			var out demo.Outcome
			if err := json.Unmarshal(doc, &out); err != nil || demo.ClaimsCode(out.Claims) != advice.ExitOK {
				t.Errorf("%+v, %v", out, err)
			}
			result, err := os.ReadFile(filepath.Join(out.Bundle, "RESULT.json"))
			if err != nil || !strings.Contains(string(result), `"provenance":{`) {
				t.Errorf("result %s, %v", result, err)
			}
		})
	}
}

// TestVersionNamesTheMessageSchema: the build reports what it speaks.
func TestVersionNamesTheMessageSchema(t *testing.T) {
	requirements.Covers(t, "YE-C.1")
	var out bytes.Buffer
	if code := Run(t.Context(), "dev", []string{"version"}, nil, &out, &out); code != advice.ExitOK || !strings.Contains(out.String(), "messages 1.0.0 (v0.0-control-pack)") {
		t.Errorf("exit %d: %s", code, out.String())
	}
}

func TestSchemasShowEveryType(t *testing.T) {
	requirements.Covers(t, "OA-3.1")
	for _, s := range schemas.All() {
		doc, err := exec.CommandContext(t.Context(), filepath.Join(binDir, "lightwork"), "schemas", "show", "--json", string(s.ID)).Output()
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(doc, &got); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"schema_id", "inputs", "outputs", "verification_mode", "hash_rules", "provenance"} {
			if got[field] == nil {
				t.Errorf("%s: no %s", s.ID, field)
			}
		}
		for name, in := range got["inputs"].(map[string]any) {
			f := in.(map[string]any)
			if f["type"] == nil || f["required"] == nil || f["description"] == "" {
				t.Errorf("%s: input %s: %v", s.ID, name, f)
			}
		}
	}
}

// TestTrace finds a job by each of its names.
func TestTrace(t *testing.T) {
	requirements.Covers(t, "M-2", "K-16")
	runScripts(t, testscript.Params{Files: []string{"testdata/named/trace.txtar"}})
}

// TestSources: a job's files come from a git repository, its root file system
// from an image.
func TestSources(t *testing.T) {
	testclass.Require(t, "git")
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	server := httptest.NewServer(&cgi.Handler{
		Path: git, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"},
	})
	t.Cleanup(server.Close) // the script runs after this function
	runScripts(t, testscript.Params{
		Files: []string{"testdata/named/sources.txtar"},
		Setup: func(e *testscript.Env) error {
			e.Setenv("GITROOT", root)
			e.Setenv("GIT", server.URL)
			return nil
		},
	})
}

// TestOrganism: agents that think, the tools they use and what a profile keeps
// from them, on a running node with a model that is scripted.
func TestOrganism(t *testing.T) {
	requirements.Covers(t, "AP-12.0.1", "AP-10.0.1", "AP-10.3.5", "AP-8.5.2", "AP-11.6.1")
	say := func(m chat.Message, why string) scripted.Step { return scripted.Stream(scripted.Events(m, why)...) }
	var endpoint *scripted.Endpoint
	endpoint = scripted.New(
		say(chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{scripted.Call("1", "greet", `{"name":"Ada"}`)}}, "tool_calls"),
		say(chat.Message{Role: chat.RoleAssistant, Content: "Ada was greeted"}, "stop"),
		say(chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{scripted.Call("1", "clerk", `{"question":"greet {\"name\":\"Ada\"}"}`)}}, "tool_calls"),
		func(w http.ResponseWriter, r *http.Request) { // says what the clerk cited
			heard, all := "nothing", endpoint.Requests()
			if body := string(all[len(all)-1].Body); strings.Contains(body, "Hello, Ada!") && strings.Contains(body, `\"wasDerivedFrom\":\"greet\"`) {
				heard = "greet"
			}
			say(chat.Message{Role: chat.RoleAssistant, Content: "the clerk cites " + heard}, "stop")(w, r)
		},
		say(chat.Message{Role: chat.RoleAssistant, Content: "noted"}, "stop"),
		func(w http.ResponseWriter, r *http.Request) { // says what it was told
			heard, all := "nothing", endpoint.Requests()
			if strings.Contains(string(all[len(all)-1].Body), "4711") {
				heard = "4711"
			}
			say(chat.Message{Role: chat.RoleAssistant, Content: "heard of " + heard}, "stop")(w, r)
		},
	)
	model := httptest.NewServer(endpoint)
	t.Cleanup(model.Close) // the script runs after this function
	runScripts(t, testscript.Params{
		Files: []string{"testdata/named/organism.txtar"},
		Setup: func(e *testscript.Env) error { e.Setenv("ENDPOINT", model.URL); return nil },
	})
}
