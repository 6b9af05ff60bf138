// Package wasmhost is the agent that offers WebAssembly tools: every folder in its
// directory is a tool as described in package wasm.
//
// # Why there are workers
//
// The agent's own process never runs a module. Calls run in worker processes, each
// of which holds one tool and makes one call at a time. A call that is late or
// canceled is ended by killing its worker, without effect on other calls (K-43).
// Making modules interruptible inside a process was measured to slow a tight loop
// down 16 to 33 times; without that, a looping module blocks the garbage collector
// of its process and thereby the heartbeats. A worker is also a second barrier
// around the module (AP-13.3.2), and the kernel limits its memory.
//
// Workers are kept between calls, but every call gets a new instance of the module
// (K-8). A call that has to start a worker takes a few tens of milliseconds longer.
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

// id and Version identify the agent; the node may launch it under another id.
const (
	id      = "lightwork.wasm"
	version = "1.0.0"
)

const (
	defaultWorkers = 4
	maxTools       = 200

	// prepareTime bounds the first start of all workers, most of which is
	// compilation. The node waits 10 s for the registration (OSX-3).
	prepareTime = 8 * time.Second
)

// ErrNoTools means that the directory contains no folder of a tool.
var ErrNoTools = errors.New("wasmhost: no tools")

// Config describes the agent.
type Config struct {
	// Dir holds one folder for each tool. Files are ignored, and so are folders
	// whose names start with a dot or that contain neither a module nor a WIT file,
	// such as StateDir.
	Dir string
	// StateDir holds compiled modules and the key-value stores. It is created with
	// mode 0700 if it is missing. "" means "state" in the working directory, which
	// is the agent's folder.
	StateDir string
	// Workers is the maximum number of worker processes, and so of concurrent
	// calls; further calls wait. 0 means 4.
	Workers int
	// Command starts a program that calls Main. Nil means this program with its
	// arguments.
	Command []string

	Log *slog.Logger // nil: nothing is logged
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

// Main serves until ctx ends or the node ends the session. The environment set by
// the node says where to connect. A tool that cannot be offered, for example
// because its module has imports that its WIT does not declare, is an error. In a
// worker process, Main runs the worker.
func Main(ctx context.Context, cfg Config) error {
	if job := os.Getenv(workerEnv); job != "" {
		return work(ctx, job, os.Stdin, os.Stdout, os.Stderr)
	}
	if err := cfg.fill(); err != nil {
		return err
	}

	// A directory granted to a tool must not lead to this process's initial
	// environment, which has the session token.
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
	return agent.Run(ctx, agent.Config{Version: version, Tools: offers, Log: cfg.Log})
}

// load loads all tools.
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

// isTool reports whether a folder is meant to be a tool: it contains a module or a
// WIT file. A folder with only one of the two cannot be loaded.
func isTool(dir string) bool {
	for _, name := range []string{wasm.ModuleFile, wasm.WITFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// offer starts every tool once, which compiles its module, and returns the agent's
// tools.
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
