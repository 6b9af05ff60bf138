// Package sandbox is the built-in agent that runs oa.sandbox_run.v1 jobs: a
// process of its own, launched by the node, that offers one tool.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/schemas"
)

// What the agent is called, and its one tool.
const (
	ID      = "com.lightwork.sandbox"
	Version = "1.0.0"
	Tool    = "sandbox_run"
)

// Error codes of the tool. A command that fails is no error but a result.
const (
	CodeCannotConfine = "sandbox.cannot_confine"
	codeBadRequest    = wire.CodeInvalidInput
	codeDied          = "sandbox.died"
)

// Config says how the agent's process starts sandboxes.
type Config struct {
	// Init are the arguments, with the program's name first, that make the
	// program call sandbox.Init.
	Init []string
	// Level is how firmly jobs are confined; empty: sandbox.LevelFull.
	Level sandbox.Level
	// CgroupRoot is where cgroups are mounted; empty: /sys/fs/cgroup.
	CgroupRoot string
	// ImageDir is where images are registered; empty: there are none.
	ImageDir string
	// FetchFrom are the servers that repositories may be fetched from, as in
	// sandbox.Options; empty: none.
	FetchFrom []string
	// CAFile and Network are as in sandbox.Options; empty: the host's
	// authorities only, and no job with the network policy "full".
	CAFile  string
	Network sandbox.Network
	// Logger writes to the agent's stderr. Nil: nothing is logged.
	Logger *slog.Logger
}

// Main removes what a crashed predecessor left, connects to the node that
// launched the process (the environment says where) and serves calls until ctx
// ends or the node says goodbye. It refuses to serve where it cannot confine:
// the error is then sandbox.ErrCannotConfine.
func Main(ctx context.Context, cfg Config) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	opts := sandbox.Options{
		Init: cfg.Init, Level: cfg.Level, CgroupRoot: cfg.CgroupRoot, ImageDir: cfg.ImageDir, FetchFrom: cfg.FetchFrom,
		CAFile: cfg.CAFile, Network: cfg.Network, Logger: cfg.Logger,
	}
	if err := sandbox.Sweep(opts); err != nil {
		cfg.Logger.Warn("sweep what a crashed sandbox left", "err", err)
	}
	tool, err := newTool(opts)
	if err != nil {
		return err
	}
	if err := sandbox.Try(ctx, opts); err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrCannotConfine, err)
	}

	return agent.Run(ctx, agent.Config{ID: ID, Version: Version, Tools: []agent.Tool{tool}, Log: cfg.Logger})
}

// newTool declares no output schema: the document of the job type demands the
// provider's key, which only the provider adds and then checks.
func newTool(opts sandbox.Options) (agent.Tool, error) {
	schema, ok := schemas.Lookup(string(schemas.SandboxRun))
	if !ok {
		return agent.Tool{}, fmt.Errorf("no schema %s", schemas.SandboxRun)
	}

	return agent.Tool{
		Name:         Tool,
		Description:  "Runs shell commands in an isolated sandbox without network and returns exit codes, output digests and artifacts.",
		InputSchema:  schema.InputShape(),
		Capabilities: []string{"streaming", "cancellation"},
		SideEffects:  true,
		// Somebody pays, or a person approved: nothing else runs commands.
		RequiresDirective: true,
		Tags:              []string{"sandbox", "shell", "objective"},
		Handler: func(ctx context.Context, call *agent.Call) (any, error) {
			return run(ctx, schema, call, opts)
		},
	}, nil
}

// run does one call. Artifacts go below the call's context.project_root, each
// under the hex SHA-256 of its bytes; without one they are hashed only.
func run(ctx context.Context, schema *schemas.Schema, call *agent.Call, opts sandbox.Options) (any, error) {
	req, err := schema.ParseRequest(call.Input)
	if err != nil {
		return nil, agent.Fail(codeBadRequest, err.Error())
	}
	if call.Context != nil && call.Context.ProjectRoot != "" {
		dir, err := artifactDir(call.Context.ProjectRoot)
		if err != nil {
			return nil, agent.Fail(codeBadRequest, err.Error())
		}
		opts.ArtifactDir = dir
	}

	opts.Stream = func(channel, text string) {
		// A stream that reached its limit, or lost its reader, ends no job: the
		// digests still cover all of the output.
		_ = call.Stream(wire.Channel(channel), text)
	}
	result, err := sandbox.Run(ctx, req.Value.(*schemas.SandboxRunRequest), opts)
	if err != nil {
		return nil, failure(err)
	}

	// Stopped by the caller, and not by a limit of the request: that is the end
	// of the call, and no result of the job.
	if ctx.Err() != nil && (result.Status == schemas.StatusCancelled || result.Status == schemas.StatusTimeout) {
		return nil, context.Cause(ctx)
	}

	return result, nil
}

func artifactDir(root string) (string, error) {
	info, err := os.Stat(root)
	switch {
	case !filepath.IsAbs(root):
		return "", errors.New("context.project_root: not an absolute path")
	case err != nil || !info.IsDir():
		return "", errors.New("context.project_root: not a directory")
	}
	return root, nil
}

// failure names whose fault it is; the caller decides on that who pays.
func failure(err error) error {
	switch {
	case errors.Is(err, sandbox.ErrRequest):
		return agent.Fail(codeBadRequest, err.Error())
	case errors.Is(err, sandbox.ErrCannotConfine):
		return agent.Fail(CodeCannotConfine, err.Error())
	case errors.Is(err, sandbox.ErrSandboxDied):
		return agent.Fail(codeDied, err.Error())
	}
	return err
}
