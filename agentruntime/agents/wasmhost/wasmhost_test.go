package wasmhost

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/internal/wasm"
	. "github.com/lightwork-market/lightwork/agentruntime/internal/wasm/wasmtest"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/toolschema"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/schemas"
)

func TestExamplesUnderASupervisor(t *testing.T) {
	dir := t.TempDir()
	addExamples(t, dir)
	compile(t, filepath.Join(dir, "count"))
	s, err := supervised(t, dir, "count", "upper")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ tool, input, want, code string }{
		{"upper", `{"text":"größe <b> \"a\" \u0061\n"}`, `{"text":"GRößE <B> \"A\" A\n"}`, ""},
		{"upper", `{"text":""}`, `{"text":""}`, ""},
		{"upper", `{"text":7}`, "", wire.CodeInvalidInput},
		{"upper", `{"text":"a","more":1}`, "", wire.CodeInvalidInput},
		{"count", `{"text":"the cat and the dog","top":1}`, `{"words":5,"top":[{"text":"the","times":2}]}`, ""},
		{"count", `{"text":"1 2"}`, "", wire.CodeFailed},
		{"count", `{"text":"a","top":256}`, "", wire.CodeInvalidInput},
	} {
		res, err := s.Call(t.Context(), supervisor.Call{AgentID: id, Tool: c.tool, Input: json.RawMessage(c.input)})
		if code(err) != c.code || c.code == "" && !sameJSON(t, string(res.Output), c.want) {
			t.Errorf("%s %s: %s %v", c.tool, c.input, res.Output, err)
		}
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Error(err)
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}

// The committed binaries are those that build.sh made of the texts beside them.
func TestHandWrittenModulesAreCurrent(t *testing.T) {
	for _, tool := range []string{"upper", "embed"} {
		dir := filepath.Join("../../../examples/wasm", tool)
		sums, err := os.ReadFile(filepath.Join(dir, "module.sum"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"module.wat", "module.wasm"} {
			doc, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if line := fmt.Sprintf("%x  %s\n", sha256.Sum256(doc), name); !bytes.Contains(sums, []byte(line)) {
				t.Errorf("%s of %s has changed: run build.sh", name, tool)
			}
		}
	}
}

// TestExampleDoesAJobType: what the tool takes and returns is what the job type does.
func TestExampleDoesAJobType(t *testing.T) {
	dir := t.TempDir()
	addExamples(t, dir)
	p, all := testPool(t, dir, 1)
	tool := all["embed"]
	job, _ := schemas.Lookup(string(schemas.Embedding))
	err := errors.Join(
		toolschema.Takes(tool.InputSchema, job.InputSchema()),
		toolschema.Gives(tool.OutputSchema, job.OutputSchema(), "/provenance/provider_pubkey"),
	)
	if err != nil {
		t.Fatal(err)
	}

	const more = `"model_id":"example-word-counts","provenance":{"model_id":"example-word-counts"}`
	for input, want := range map[string]string{
		`{"texts":[]}`:                                  `{"embeddings":[],"dimensions":16,` + more + `}`,
		`{"texts":["",",;"],"dimensions":2}`:            `{"embeddings":[[0,0],[0,0]],"dimensions":2,` + more + `}`,
		`{"texts":["A a B","a\n\"b\""],"dimensions":2}`: `{"embeddings":[[2,1],[1,1]],"dimensions":2,` + more + `}`,
		// A text that looks like a member, and blanks between tokens.
		"{ \"dimensions\" : 1 ,\n \"texts\" : [ \"\\\"texts\\\":[\", \"größe 7\" ],\"model_hint\":\"texts\",\"verification\":{\"judge_model\":\"m\"}}": `{"embeddings":[[1],[2]],"dimensions":1,` + more + `}`,
		`{"texts":["` + strings.Repeat("z ", 12345) + `"],"dimensions":1}`:                                                                             `{"embeddings":[[12345]],"dimensions":1,` + more + `}`,
	} {
		if got, err := call(t, p, tool, input, time.Minute); err != nil || !sameJSON(t, got, want) {
			t.Errorf("%.200s: %s %v", input, got, err)
		}
	}
	if got, err := call(t, p, tool, `{"texts":["a"],"dimensions":257}`, time.Minute); code(err) != wire.CodeFailed {
		t.Errorf("257 dimensions: %s %v", got, err)
	}
}

// While one call loops, others go on; it ends in time, and the next one works.
func TestRunawayEndsInTime(t *testing.T) {
	requirements.Covers(t, "PT-6", "K-42", "K-43")
	const deadline = 3 * time.Second // room for the other calls, whose deadline it is too
	dir := tools(t, `{"limits":{"deadline_ms":3000}}`, map[string]Module{"loop": loopWhenAsked(), "good": Answer(`{"ok":{"n":2}}`)})
	s, err := supervised(t, dir, "loop", "good")
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	done := make(chan error, 1)
	go func() {
		_, err := s.Call(t.Context(), supervisor.Call{AgentID: id, Tool: "loop", Input: json.RawMessage(slow)})
		done <- err
	}()
	others := 0
	for running := true; running; {
		select {
		case err := <-done:
			if code(err) != wire.CodeTimeout {
				t.Error("the runaway:", err)
			}
			running = false
		default:
			if _, err := s.Call(t.Context(), supervisor.Call{AgentID: id, Tool: "good", Input: json.RawMessage("{}")}); err != nil {
				t.Fatal("another call meanwhile:", err)
			}
			others++
		}
	}
	// One second over its deadline is the promise; a busy machine may take three.
	if took := time.Since(begin); took < deadline || took > deadline+3*time.Second {
		t.Errorf("the runaway took %s", took)
	}
	if others < 2 {
		t.Errorf("%d other calls meanwhile", others)
	}
	res, err := s.Call(t.Context(), supervisor.Call{AgentID: id, Tool: "loop", Input: json.RawMessage("{}")})
	if err != nil || string(res.Output) != `{"n":1}` {
		t.Error("the next call:", string(res.Output), err)
	}
}

func TestCancelStopsTheModule(t *testing.T) {
	requirements.Covers(t, "APX-10")
	p, all := testPool(t, tools(t, "{}", map[string]Module{"loop": loopWhenAsked()}), 1)
	if out, err := call(t, p, all["loop"], "{}", time.Minute); err != nil || out != `{"n":1}` {
		t.Fatal(out, err)
	}
	w := p.idle[0]
	if _, err := call(t, p, all["loop"], slow, 100*time.Millisecond); code(err) != wire.CodeTimeout {
		t.Error(err)
	}
	if !w.hasExited() {
		t.Error("the worker still runs")
	}
}

// Each of these ends one call, and the tool's next call works or ends the same.
func TestHostileModulesInWorkers(t *testing.T) {
	requirements.Covers(t, "AP-13.3.3")
	startLoop := Answer(`{"ok":{}}`)
	startLoop.Funcs = append(startLoop.Funcs, Func{Body: Forever()})
	startLoop.Start = 2
	grow := Reactor(Code(
		Op(0x03, 0x40), Const(100), Op(0x40, 0), Const(-1), Op(0x47), Op(0x0d, 0, 0x0b), Op(0x00)))
	p, all := testPool(t, tools(t, `{"limits":{"memory_pages":16384}}`, map[string]Module{
		"start_loop": startLoop, "grow": grow, "trap": Reactor(Op(0x00)), "recursion": Reactor(Code(Get(0), Get(1), Call(1))),
		"huge": Reactor(Result(0, 0xffffffff)), "text": Answer("no JSON"), "good": Answer(`{"ok":{"n":2}}`),
	}), 2)
	for range 2 {
		for name, want := range map[string]string{
			"start_loop": wire.CodeTimeout, "grow": wire.CodeFailed, "trap": wire.CodeFailed, "recursion": wire.CodeFailed,
			"huge": wire.CodeOutputTooLarge, "text": wire.CodeInvalidOutput,
		} {
			limit := 10 * time.Minute // a gigabyte is a lot of work on a busy machine
			if want == wire.CodeTimeout {
				limit = 300 * time.Millisecond
			}
			if out, err := call(t, p, all[name], "{}", limit); code(err) != want {
				t.Errorf("%s: %s %v", name, out, err)
			}
			if _, err := call(t, p, all["good"], "{}", time.Minute); err != nil {
				t.Errorf("after %s: %v", name, err)
			}
		}
	}
}

// The largest table that the runtime accepts, 2^27 elements, is 1 GiB of the
// host's memory whatever the limit of the module's is. The kernel refuses it,
// to the worker alone.
func TestTableBomb(t *testing.T) {
	m := Answer(`{"ok":{}}`).Encode()
	table := Section(4, [][]byte{{0x70, 0, 0x80, 0x80, 0x80, 0x40}})
	at := bytes.Index(m, []byte{5, 3, 1, 0, 2}) // in front of the memory
	m = bytes.Join([][]byte{m[:at], table, m[at:]}, nil)
	dir := tools(t, "{}", map[string]Module{"good": Answer(`{"ok":{"n":2}}`)})
	addTool(t, filepath.Join(dir, "bomb"), anyWIT, m, "{}")
	p, all := testPool(t, dir, 2)
	if out, err := call(t, p, all["bomb"], "{}", time.Minute); code(err) != wire.CodeFailed {
		t.Error("the bomb:", out, err)
	}
	if _, err := call(t, p, all["good"], "{}", time.Minute); err != nil {
		t.Error(err)
	}
}

// A worker serves many calls, but a call finds nothing of those before it.
func TestCallsAreStateless(t *testing.T) {
	requirements.Covers(t, "AP-9.3.1", "AP-9.3.2", "K-8")
	m := Reactor(Code(
		Op(0x23, 0), Const(1), Op(0x6a), Op(0x24, 0),
		// The digit in the answer is the number of calls.
		Const(OutputAt+11), Op(0x23, 0), Const('0'), Op(0x6a), Op(0x3a, 0, 0),
		Result(OutputAt, 14)))
	m.Global = true
	m.Data[OutputAt] = []byte(`{"ok":{"n":0}}`)
	p, all := testPool(t, tools(t, "{}", map[string]Module{"count": m}), 1)
	var first *worker
	for range 5 {
		if out, err := call(t, p, all["count"], "{}", time.Minute); err != nil || out != `{"n":1}` {
			t.Fatal(out, err)
		}
		if first == nil {
			first = p.idle[0]
		}
	}
	if len(p.idle) != 1 || p.idle[0] != first {
		t.Error("the worker was not used again")
	}
}

func TestWorkersAreBounded(t *testing.T) {
	modules := map[string]Module{}
	for i := range 5 {
		modules[fmt.Sprint("t", i)] = Answer(`{"ok":{}}`)
	}
	p, all := testPool(t, tools(t, "{}", modules), 2)
	var wg sync.WaitGroup
	for _, tool := range all {
		for range 3 {
			wg.Go(func() {
				if _, err := call(t, p, tool, "{}", time.Minute); err != nil {
					t.Error(err)
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				if len(p.idle) > 2 {
					t.Error(len(p.idle), "idle workers")
				}
			})
		}
	}
	wg.Wait()
}

func TestWorkerKilledFromOutside(t *testing.T) {
	p, all := testPool(t, tools(t, "{}", map[string]Module{"good": Answer(`{"ok":{"n":2}}`)}), 1)
	if _, err := call(t, p, all["good"], "{}", time.Minute); err != nil {
		t.Fatal(err)
	}
	w := p.idle[0]
	w.end()
	<-w.exited
	if _, err := call(t, p, all["good"], "{}", time.Minute); err != nil {
		t.Error("after its worker died:", err)
	}
}

func TestCloseLeavesNoWorker(t *testing.T) {
	cfg := Config{Dir: tools(t, "{}", map[string]Module{"loop": loopWhenAsked()}), StateDir: t.TempDir() + "/s", Workers: 2}
	cfg.Command = []string{self(t), agentArgument, "-", "-"}
	if err := cfg.fill(); err != nil {
		t.Fatal(err)
	}
	all, err := load(cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	p := newPool(&cfg)
	if _, err := call(t, p, all[0], "{}", time.Minute); err != nil {
		t.Fatal(err)
	}
	idle := p.idle[0]
	p.close()
	if !idle.hasExited() {
		t.Error("a worker lives on")
	}
}

// What was offered, and perhaps approved and priced, is what runs.
func TestChangedToolIsNotRun(t *testing.T) {
	dir := tools(t, "{}", map[string]Module{"good": Answer(`{"ok":{"n":2}}`)})
	p, all := testPool(t, dir, 1)
	addTool(t, filepath.Join(dir, "good"), anyWIT, Answer(`{"ok":{"n":3}}`).Encode(), "{}")
	if out, err := call(t, p, all["good"], "{}", time.Minute); !errors.Is(err, errNotReady) || !strings.Contains(err.Error(), "changed") {
		t.Error(out, err)
	}
}

func TestBadToolKeepsTheAgentDown(t *testing.T) {
	requirements.Covers(t, "AP-13.1.2")
	dir := tools(t, "{}", map[string]Module{"net": Reactor(Result(0, 0), Import{Module: "env", Name: "connect"})})
	err := Main(t.Context(), Config{Dir: dir, StateDir: t.TempDir()})
	var refused *wasm.ImportError
	if !errors.As(err, &refused) || refused.Name != "connect" {
		t.Error(err)
	}
	foreign := t.TempDir() // what is no tool does not stop those that are
	for _, name := range []string{"state", "node_modules"} {
		if err := os.MkdirAll(filepath.Join(foreign, name, "compiled"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(foreign, "node_modules", "package.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Main(t.Context(), Config{Dir: foreign}); !errors.Is(err, ErrNoTools) {
		t.Errorf("folders that are no tools: %v", err)
	}
	if err := os.WriteFile(filepath.Join(foreign, "node_modules", "tool.wit"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Main(t.Context(), Config{Dir: foreign, StateDir: t.TempDir()}); err == nil || errors.Is(err, ErrNoTools) {
		t.Errorf("a tool without its module: %v", err)
	}
	if err := Main(t.Context(), Config{Dir: t.TempDir(), StateDir: t.TempDir()}); !errors.Is(err, ErrNoTools) {
		t.Error(err)
	}
	if err := Main(t.Context(), Config{}); err == nil {
		t.Error("no directory")
	}
}

// A module that compiles, but lacks an export, is found before it is offered.
func TestOfferFindsWhatLoadCannot(t *testing.T) {
	m := Answer("{}")
	m.Funcs = m.Funcs[1:]
	p, all := testPool(t, tools(t, "{}", map[string]Module{"bad": m}), 1)
	if _, err := p.offer(t.Context(), []*wasm.Tool{all["bad"]}); !errors.Is(err, errNotReady) {
		t.Error(err)
	}
}
