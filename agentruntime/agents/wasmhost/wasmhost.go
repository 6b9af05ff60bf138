// Package wasmhost is the agent that offers WebAssembly tools: every folder in
// its directory is a tool as package wasm describes it.
//
// # Why there are workers
//
// The agent's own process never runs a module. Calls run in worker processes,
// each of which holds one tool and does one call at a time; a call that ends
// late or is canceled ends with its worker, by SIGKILL, and no other call
// notices (K-43). Interrupting a module inside a process was measured at 16 to 33 times
// the run time of a tight loop, and without it a module that loops stops
// the process's garbage collection, and with that its heartbeats. A worker is
// also a second wall around the module (AP-13.3.2), and the kernel caps its
// memory.
//
// Workers are kept between calls; every call gets a fresh instance all the same
// (K-8). A call that has to start a worker first pays a few tens of
// milliseconds.
package wasmhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/internal/wasm"
)

// ID and Version are what the agent says about itself; the node may launch it
// under another id.
const (
	ID      = "lightwork.wasm"
	Version = "1.0.0"
)

const (
	defaultWorkers = 4
	maxTools       = 200

	// prepareTime bounds the first start of all workers, above all the
	// compilation. The node waits 10 s for the registration (OSX-3).
	prepareTime = 8 * time.Second
)

// ErrNoTools means that the directory holds no folder of a tool.
var ErrNoTools = errors.New("wasmhost: no tools")

// Config describes the agent.
type Config struct {
	// Dir holds one folder per tool. Files are passed over, and so are folders
	// whose names start with a dot or that hold neither a module nor a WIT file,
	// such as StateDir.
	Dir string
	// StateDir holds compiled modules and the key-value stores. It is made, with
	// mode 0700, if it is missing. "" is "state" in the working directory, which
	// the node makes the agent's folder.
	StateDir string
	// Workers is how many worker processes there are at most, and so how many
	// calls run at a time; others wait for their turn. 0 means 4.
	Workers int
	// Command starts a program that calls Main. Nil is this program with its
	// own arguments.
	Command []string

	Log *slog.Logger // nil discards
}

func (c *Config) fill() error {
	if c.Dir == "" {
		return errors.New("wasmhost: Config.Dir is required")
	}
	if c.StateDir == "" {
		c.StateDir = "state"
	}

	for _, dir := range []*string{&c.Dir, &c.StateDir} {
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return fmt.Errorf("resolve directory: %w", err)
		}
		*dir = abs
	}

	if c.Workers <= 0 {
		c.Workers = defaultWorkers
	}
	if len(c.Command) == 0 {
		exe, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find own program: %w", err)
		}
		c.Command = append([]string{exe}, os.Args[1:]...)
	}

	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Main serves until ctx ends or the node goes away. The connection comes from
// the environment that the node sets. A tool that cannot be offered, for
// example because its module imports what its WIT does not declare, keeps the
// agent from starting. In a worker, Main is the worker.
func Main(ctx context.Context, cfg Config) error {
	if job := os.Getenv(workerEnv); job != "" {
		return work(ctx, job, os.Stdin, os.Stdout, os.Stderr)
	}
	if err := cfg.fill(); err != nil {
		return err
	}

	// A granted directory must not lead to this process's first environment,
	// which has the session token.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the environment: %w", err)
	}

	tools, err := load(cfg.Dir)
	if err != nil {
		return err
	}
	p := newPool(&cfg)
	defer p.close()

	offers, err := p.offer(ctx, tools)
	if err != nil {
		return err
	}
	return agent.Run(ctx, agent.Config{Version: Version, Tools: offers, Log: cfg.Log})
}

// load reads all tools.
func load(dir string) ([]*wasm.Tool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list tools: %w", err)
	}

	var tools []*wasm.Tool
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if !isTool(filepath.Join(dir, e.Name())) {
			continue
		}
		if len(tools) == maxTools {
			return nil, fmt.Errorf("wasmhost: more than %d tools", maxTools)
		}

		tool, err := wasm.Load(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		tools = append(tools, tool)
	}

	if len(tools) == 0 {
		return nil, fmt.Errorf("%w in %s", ErrNoTools, dir)
	}
	return tools, nil
}

// isTool reports a folder that is meant to be a tool: it holds a module or its
// WIT file. With one of them alone it is a tool that cannot be loaded.
func isTool(dir string) bool {
	for _, name := range []string{wasm.ModuleFile, wasm.WITFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// offer starts every tool once, which compiles its module, and describes it.
func (p *pool) offer(ctx context.Context, tools []*wasm.Tool) ([]agent.Tool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, prepareTime,
		fmt.Errorf("wasmhost: the tools took more than %s to compile; a start continues where the last one ended", prepareTime))
	defer cancel()
	offers := make([]agent.Tool, len(tools))
	errs := make([]error, len(tools))
	var wg sync.WaitGroup
	for i, tool := range tools {
		wg.Go(func() { offers[i], errs[i] = p.offerOne(ctx, tool) })
	}
	wg.Wait()
	return offers, errors.Join(errs...)
}

func (p *pool) offerOne(ctx context.Context, tool *wasm.Tool) (agent.Tool, error) {
	description := tool.Description
	ready, err := p.greet(ctx, tool)
	if err != nil {
		return agent.Tool{}, fmt.Errorf("offer tool %s: %w", tool.Name, err)
	}
	if ready.Description != "" {
		description = ready.Description
	}
	return agent.Tool{
		Name:         tool.Name,
		Description:  description,
		InputSchema:  tool.InputSchema,
		OutputSchema: tool.OutputSchema,
		Capabilities: []string{"cancellation"},
		SideEffects:  tool.SideEffects(),
		Tags:         []string{"wasm"},
		Timeout:      tool.Settings.Limits.Deadline(),
		Handler: func(ctx context.Context, c *agent.Call) (any, error) {
			return p.call(ctx, tool, c.Input)
		},
	}, nil
}
