package wasmhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/internal/wasm"
	"github.com/lightwork-market/lightwork/agentruntime/internal/wasm/wasmtest"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// agentArgument makes the test program the agent, and so its workers, too.
const agentArgument = "wasm-agent"

func TestMain(m *testing.M) {
	if len(os.Args) >= 4 && os.Args[1] == agentArgument {
		os.Exit(agentMain(os.Args[2], os.Args[3]))
	}
	goleak.VerifyTestMain(m)
}

func agentMain(dir, state string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := Main(ctx, Config{Dir: dir, StateDir: state, Log: log}); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return 1
	}
	return 0
}

// anyWIT fits modules that give any number of fields.
const anyWIT = `package example:t@1.0.0;
world t {
  import agentos:kv/store;
  record request { text: option<string> }
  record response { n: option<u32> }
  export handle: func(req: request) -> result<response, string>;
}`

// tools writes a folder for each module; settings are the same for all.
func tools(tb testing.TB, settings string, modules map[string]wasmtest.Module) string {
	tb.Helper()
	dir := tb.TempDir()
	for name, m := range modules {
		addTool(tb, filepath.Join(dir, name), anyWIT, m.Encode(), settings)
	}
	return dir
}

func addTool(tb testing.TB, dir, wit string, module []byte, settings string) {
	tb.Helper()
	err := os.MkdirAll(dir, 0o700)
	for name, doc := range map[string][]byte{wasm.WITFile: []byte(wit), wasm.ModuleFile: module, wasm.SettingsFile: []byte(settings)} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), doc, 0o600)
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// loopWhenAsked never ends if its input is longer than {}.
func loopWhenAsked() wasmtest.Module {
	m := wasmtest.Reactor(wasmtest.Code(
		wasmtest.Get(1), wasmtest.Const(2), wasmtest.Op(0x4a, 0x04, 0x40), wasmtest.Forever(), wasmtest.Op(0x0b),
		wasmtest.Result(wasmtest.OutputAt, 14)))
	m.Data[wasmtest.OutputAt] = []byte(`{"ok":{"n":1}}`)
	return m
}

const slow = `{"text":"loop"}`

// testPool serves the tools in dir without an agent around it.
func testPool(tb testing.TB, dir string, workers int) (*pool, map[string]*wasm.Tool) {
	tb.Helper()
	cfg := Config{Dir: dir, StateDir: filepath.Join(tb.TempDir(), "state"), Workers: workers}
	cfg.Command = []string{self(tb), agentArgument, "-", "-"}
	if err := cfg.fill(); err != nil {
		tb.Fatal(err)
	}
	all, err := load(dir)
	if err != nil {
		tb.Fatal(err)
	}
	byName := map[string]*wasm.Tool{}
	for _, t := range all {
		byName[t.Name] = t
	}
	p := newPool(&cfg)
	tb.Cleanup(p.close)
	return p, byName
}

func self(tb testing.TB) string {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return exe
}

// stateIn is the state of the agent that supervised launches for dir.
func stateIn(dir string) string { return filepath.Join(dir, ".state") }

// compile fills the cache: under the race detector the compiler takes longer
// than a start may.
func compile(tb testing.TB, dir string) {
	tb.Helper()
	tool, err := wasm.Load(dir)
	if err != nil {
		tb.Fatal(err)
	}
	r, err := wasm.NewRunner(tb.Context(), tool, wasm.RunnerConfig{StateDir: stateIn(filepath.Dir(dir))})
	if err == nil {
		err = r.Close(tb.Context())
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// supervised launches the agent as the node does.
func supervised(tb testing.TB, dir string, names ...string) (*supervisor.Supervisor, error) {
	tb.Helper()
	sockets, err := os.MkdirTemp("", "lw") // a socket's path must be short
	if err != nil {
		tb.Fatal(err)
	}
	s, err := supervisor.New(supervisor.Config{
		SocketDir: filepath.Join(sockets, "s"),
		OnLog:     func(l supervisor.LogLine) { tb.Log(l.Text) },
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			tb.Error(err)
		}
		os.RemoveAll(sockets)
	})
	return s, s.Start(tb.Context(), supervisor.Spec{
		ID: id, Version: version, Command: []string{self(tb), agentArgument, dir, stateIn(dir)},
		Tools: names, Restart: supervisor.RestartPolicy{Never: true},
	})
}

// builtExample compiles the sample tool in Go, once for all tests.
var builtExample = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "lw")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "module.wasm")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, ".")
	cmd.Dir = "../../../examples/wasm/count"
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	return os.ReadFile(out)
})

// addExamples writes the sample tools to dir.
func addExamples(tb testing.TB, dir string) {
	tb.Helper()
	read := func(path string) []byte {
		doc, err := os.ReadFile(filepath.Join("../../../examples/wasm", path))
		if err != nil {
			tb.Fatal(err)
		}
		return doc
	}
	module, err := builtExample()
	if err != nil {
		tb.Fatal(err)
	}
	addTool(tb, filepath.Join(dir, "count"), string(read("count/tool.wit")), module, "{}")
	for _, name := range []string{"upper", "embed"} {
		addTool(tb, filepath.Join(dir, name), string(read(name+"/tool.wit")), read(name+"/module.wasm"), "{}")
	}
}

// code is the code of a failed call, whichever side it was seen on.
func code(err error) string {
	var own *agent.Error
	var core *supervisor.Error
	switch {
	case errors.As(err, &own):
		return own.Code
	case errors.As(err, &core):
		return core.Code
	case errors.Is(err, context.DeadlineExceeded):
		return wire.CodeTimeout
	case errors.Is(err, context.Canceled):
		return wire.CodeCanceled
	case err != nil:
		return err.Error()
	}
	return ""
}

// call asks the pool with a limit.
func call(tb testing.TB, p *pool, tool *wasm.Tool, input string, limit time.Duration) (string, error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	out, err := p.call(ctx, tool, json.RawMessage(input))
	return string(out), err
}
