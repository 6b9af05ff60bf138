// Package sandbox is the built-in agent for oa.sandbox_run.v1 jobs. The node
// launches it as a process of its own; it offers one tool.
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

// The agent's id and its tool.
const (
	ID      = "com.lightwork.sandbox"
	Version = "1.0.0"
	Tool    = "sandbox_run"
)

// TreeFile is the file below the call's context.project_root with the packed tree of a
// request that names one.
const TreeFile = "tree.tar.gz"

// Error codes of the tool. A command that fails is not an error but a result.
const (
	CodeCannotConfine = "sandbox.cannot_confine"
	codeBadRequest    = wire.CodeInvalidInput
	codeDied          = "sandbox.died"
)

// Config configures the agent.
type Config struct {
	// Init is the command line, starting with the program's name, of a process that
	// calls [sandbox.Init].
	Init []string
	// Level is the level of confinement; empty means sandbox.LevelFull.
	Level sandbox.Level
	// CgroupRoot is the mount point of cgroups; empty means /sys/fs/cgroup.
	CgroupRoot string
	// ImageDir is the directory of registered images; empty means none.
	ImageDir string
	// FetchFrom lists the servers from which repositories may be fetched, as in
	// [sandbox.Options]; empty means none.
	FetchFrom []string
	// CAFile and Network are as in [sandbox.Options]; empty means the host's
	// authorities only, and no jobs with the network policy "full".
	CAFile  string
	Network sandbox.Network
	// Logger writes to the agent's stderr. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// Main removes the remains of a crashed predecessor, connects to the node that
// launched the process (the environment says where) and serves calls until ctx ends
// or the node ends the session. If jobs cannot be confined it returns
// sandbox.ErrCannotConfine.
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

// newTool declares no output schema: that of the job type requires the provider's
// key, which the provider adds before it checks the result.
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
		// A job runs only if somebody pays for it or a person approved it.
		RequiresDirective: true,
		Tags:              []string{"sandbox", "shell", "objective"},
		Handler: func(ctx context.Context, call *agent.Call) (any, error) {
			return run(ctx, schema, call, opts)
		},
	}, nil
}

// run makes one call. Artifacts are written below the call's context.project_root
// under the hex SHA-256 of their bytes; without a project_root they are only
// hashed.
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
		if req.Value.(*schemas.SandboxRunRequest).Repo.Tree != nil {
			opts.Tree = filepath.Join(dir, TreeFile)
		}
	}

	opts.Stream = func(channel, text string) {
		// A stream that reached its limit or lost its reader does not end the job:
		// the digests still cover the whole output.
		_ = call.Stream(wire.Channel(channel), text)
	}
	result, err := sandbox.Run(ctx, req.Value.(*schemas.SandboxRunRequest), opts)
	if err != nil {
		return nil, failure(err)
	}

	// The caller stopped the call, not a limit of the request. That ends the call
	// without a result.
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

// failure says whose fault it is, which determines who pays.
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
