package wasm

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

const (
	exportStart = "_start"
	exportInit  = "_initialize"
	exportAlloc = "lightwork_alloc"
)

var (
	// ErrTrap means that the module crashed: a trap, memory that it could not
	// get, or an exit code other than 0.
	ErrTrap = errors.New("wasm: the module crashed")
	// ErrOutput means that the module's output does not match its WIT.
	ErrOutput = errors.New("wasm: malformed output")
	// ErrOutputTooLarge means that the output exceeds Limits.OutputBytes.
	ErrOutputTooLarge = errors.New("wasm: output too large")
)

// Failure is the error of a result<..., string>: the tool refused, for the given
// reason. The text is untrusted.
type Failure struct{ Message string }

func (f *Failure) Error() string { return "the tool says: " + f.Message }

// RunnerConfig configures a [Runner].
type RunnerConfig struct {
	// StateDir holds the compiled modules (cache/) and the stores (kv/). It is made
	// if it is missing; both must be owned by this user.
	StateDir string
	// Stderr receives the standard error of a tool that is granted stdio. If it is
	// nil, that output is dropped.
	Stderr io.Writer
}

// Runner calls one tool. Concurrent calls are safe.
type Runner struct {
	tool     *Tool
	stderr   io.Writer
	cache    wazero.CompilationCache
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	kv       *kv        // nil if the module does not import it
	roots    []*os.Root // of Grants.FS, in the same order
}

// NewRunner compiles the tool's module, or loads it from the cache. The caller must
// close the runner.
func NewRunner(ctx context.Context, tool *Tool, cfg RunnerConfig) (_ *Runner, err error) {
	r := &Runner{tool: tool, stderr: cfg.Stderr}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("prepare tool %s: %w", tool.Name, err), r.Close(ctx))
		}
	}()

	cacheDir := filepath.Join(cfg.StateDir, "cache")
	if err := privateDir(cacheDir); err != nil {
		return nil, err
	}
	if r.cache, err = wazero.NewCompilationCacheWithDir(cacheDir); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}

	r.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().
		WithCompilationCache(r.cache).WithMemoryLimitPages(tool.Settings.Limits.MemoryPages).WithDebugInfoEnabled(false))
	if r.compiled, err = r.runtime.CompileModule(ctx, tool.module); err != nil {
		return nil, fmt.Errorf("compile module: %w", err)
	}
	if err := r.checkExports(); err != nil {
		return nil, err
	}

	return r, r.provide(ctx, cfg.StateDir)
}

// Close releases the runner. No call may be running.
func (r *Runner) Close(ctx context.Context) error {
	var errs []error
	if r.runtime != nil {
		errs = append(errs, r.runtime.Close(ctx))
	}
	if r.cache != nil {
		errs = append(errs, r.cache.Close(ctx))
	}
	if r.kv != nil {
		errs = append(errs, r.kv.close())
	}
	for _, root := range r.roots {
		errs = append(errs, root.Close())
	}
	return errors.Join(errs...)
}

func (r *Runner) isCommand() bool { return r.compiled.ExportedFunctions()[exportStart] != nil }

func (r *Runner) checkExports() error {
	if r.isCommand() {
		return nil
	}
	if len(r.compiled.ExportedMemories()) == 0 {
		return fmt.Errorf("wasm: the module exports neither %s nor a memory", exportStart)
	}

	required := []string{exportAlloc, funcHandle}
	if r.tool.metadata != nil {
		required = append(required, funcMetadata)
	}

	for _, name := range required {
		if r.compiled.ExportedFunctions()[name] == nil {
			return fmt.Errorf("wasm: the module exports neither %s nor %s", exportStart, name)
		}
	}

	return nil
}

// provide sets up the module's imports and opens the granted directories.
func (r *Runner) provide(ctx context.Context, stateDir string) error {
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r.runtime); err != nil {
		return fmt.Errorf("provide WASI: %w", err)
	}

	grants := r.tool.Settings.Grants
	for _, m := range grants.FS {
		root, err := os.OpenRoot(m.HostPath)
		if err != nil {
			return fmt.Errorf("open granted directory: %w", err)
		}
		r.roots = append(r.roots, root)
	}

	if !r.tool.usesKV() {
		return nil
	}
	var err error
	if r.kv, err = openKV(filepath.Join(stateDir, "kv"), r.tool.Name, grants.KV); err != nil {
		return err
	}
	if err := hostKV(ctx, r.runtime, r.tool.kvModule(), r.kv); err != nil {
		return fmt.Errorf("provide the store: %w", err)
	}

	return nil
}

// Call runs handle in a new instance. The input must have been checked against the
// input schema; the output is an object that the caller must check against the
// output schema. A refusal by the tool is a *Failure; other errors are ErrTrap,
// ErrOutput and ErrOutputTooLarge. The end of ctx does not stop the call.
func (r *Runner) Call(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	out, err := r.run(ctx, funcHandle, input)
	if err != nil {
		return nil, err
	}
	return decodeOutput(out, r.tool.handle.Fallible())
}

// Metadata is the self-description of a tool of agentos:tool.
type Metadata struct {
	Name                string `json:"name"`
	Description         string `json:"description"`
	SemanticDescription string `json:"semantic_description"`
	RequestTag          string `json:"request_tag"`
	RequestSchema       string `json:"request_schema"`
	ResponseSchema      string `json:"response_schema"`
	InputJSONSchema     string `json:"input_json_schema"`
}

// Metadata calls get-metadata; ok is false if the tool does not export it.
func (r *Runner) Metadata(ctx context.Context) (m Metadata, ok bool, err error) {
	if r.tool.metadata == nil {
		return m, false, nil
	}
	out, err := r.run(ctx, funcMetadata, json.RawMessage("{}"))
	if err == nil {
		out, err = decodeOutput(out, r.tool.metadata.Fallible())
	}
	if err == nil {
		if jsonErr := json.Unmarshal(out, &m); jsonErr != nil {
			err = fmt.Errorf("%w: metadata has the wrong shape", ErrOutput)
		}
	}

	if err != nil {
		return m, false, fmt.Errorf("read metadata: %w", err)
	}
	return m, true, nil
}

// run makes one call and returns the module's output.
func (r *Runner) run(ctx context.Context, function string, input []byte) ([]byte, error) {
	stdout := &limitedBuffer{limit: r.tool.Settings.Limits.OutputBytes}
	cfg := r.moduleConfig()
	if r.isCommand() {
		cfg = cfg.WithArgs(r.tool.Name, function).WithStdin(bytes.NewReader(input)).
			WithStdout(stdout).WithStartFunctions(exportStart)
	} else {
		cfg = cfg.WithStartFunctions(exportInit)
	}

	instance, err := r.runtime.InstantiateModule(ctx, r.compiled, cfg)
	if instance != nil {
		defer instance.Close(ctx)
	}

	var exit *sys.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 0 && r.isCommand():
	case err != nil:
		return nil, trap(err)
	case !r.isCommand():
		return callReactor(ctx, instance, function, input, r.tool.Settings.Limits.OutputBytes)
	}

	if stdout.overflow {
		return nil, ErrOutputTooLarge
	}
	return stdout.Bytes(), nil
}

// trap keeps the first line of wazero's error; the rest is a stack trace of the
// module.
func trap(err error) error {
	line, _, _ := bytes.Cut([]byte(err.Error()), []byte("\n"))
	return fmt.Errorf("%w: %.200s", ErrTrap, line)
}

// moduleConfig provides only what is granted. wazero's defaults are a fixed clock,
// a fixed seed and no sleeping.
func (r *Runner) moduleConfig() wazero.ModuleConfig {
	grants := r.tool.Settings.Grants
	cfg := wazero.NewModuleConfig().WithName("")
	for name, value := range grants.Env {
		cfg = cfg.WithEnv(name, value)
	}
	if grants.Stdio && r.stderr != nil {
		cfg = cfg.WithStderr(&cappedWriter{w: r.stderr, remaining: maxStderrBytes})
	}
	if grants.Clock {
		cfg = cfg.WithSysWalltime().WithSysNanotime().WithSysNanosleep()
	}
	if grants.Random {
		cfg = cfg.WithRandSource(rand.Reader)
	}
	if len(r.roots) == 0 {
		return cfg
	}
	budget := &atomic.Int64{}
	budget.Store(writeBudget)
	mounts := wazero.NewFSConfig()
	for i, m := range grants.FS {
		dir := &rootFS{root: r.roots[i], readOnly: m.ReadOnly, budget: budget}
		mounts = mounts.(sysfs.FSConfig).WithSysFSMount(dir, m.GuestPath)
	}

	return cfg.WithFSConfig(mounts)
}

const maxStderrBytes = 64 << 10 // for each call

// limitedBuffer is a standard output that fails beyond a limit.
type limitedBuffer struct {
	bytes.Buffer
	limit    int
	overflow bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.overflow = b.overflow || len(p) > b.limit-b.Len(); b.overflow {
		return 0, ErrOutputTooLarge
	}
	return b.Buffer.Write(p)
}

// cappedWriter drops everything beyond its limit.
type cappedWriter struct {
	w         io.Writer
	remaining int
}

func (c *cappedWriter) Write(p []byte) (int, error) {
	n := min(len(p), c.remaining)
	c.remaining -= n
	if _, err := c.w.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}
