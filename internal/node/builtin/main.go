// Package builtin is what this program is besides a command: the agents that a node
// starts it as, and how it takes what they need of the machine.
package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/lightwork-market/lightwork/agentruntime/agents/mcp"
	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	agentsandbox "github.com/lightwork-market/lightwork/agentruntime/agents/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/agents/text"
	"github.com/lightwork-market/lightwork/agentruntime/agents/wasmhost"
	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/display"
)

// The hidden commands that the node runs itself as: an agent, or the first
// process inside a sandbox. They are taken before anything else is, so that no
// configuration, database or flag parsing runs there.
const (
	agentCommand = "agent"
	agentSandbox = "sandbox"
	agentRefer   = "reference"
	agentMCP     = "mcp"
	agentText    = "text"
	agentWasm    = "wasm"
	sandboxInit  = "sandbox-init"
)

// AgentHelp is what lightwork agent --help prints.
const AgentHelp = `Usage: lightwork agent NAME [ARG ...]

The agents that are part of this program. A node starts its own by itself; the
entrypoint of a manifest names one of the others (docs/build-agents/agents.md). Started by
hand they end: the connection comes from the environment that the node sets.

  mcp -- COMMAND ...   offers the tools of an MCP server
  wasm DIR             offers each folder of DIR with module.wasm and tool.wit
  reference            the reference agent, to try things with
  sandbox, text        what the node runs for jobs in a sandbox and on text

To manage agents: lightwork agents --help
`

// AsksAgentHelp reports arguments that ask what lightwork agent is.
func AsksAgentHelp(args []string) bool {
	if len(args) == 0 || args[0] != agentCommand {
		return false
	}
	last := args[len(args)-1]
	return len(args) == 1 || len(args) <= 3 && (last == "--help" || last == "-h")
}

// Main returns what to run if args name a hidden command: nil if they name none.
func Main(args []string) (run func(context.Context, io.Writer) int, err error) {
	if len(args) < 2 || args[0] != agentCommand {
		return nil, nil
	}

	switch args[1] {
	case sandboxInit:
		return func(context.Context, io.Writer) int { return sandbox.Init() }, nil
	case agentSandbox:
		return serveAgent(agentSandbox, func(ctx context.Context, log *slog.Logger) error {
			cfg, err := parseSandboxArgs(args[2:])
			if err != nil {
				return err
			}
			cfg.Init, cfg.Logger = sandboxInitCommand(), log
			return agentsandbox.Main(ctx, cfg)
		}), nil
	case agentRefer:
		return serveAgent(agentRefer, reference.Run), nil
	case agentText:
		return serveAgent(agentText, func(ctx context.Context, log *slog.Logger) error {
			endpoint, err := parseTextArgs(args[2:])
			if err != nil {
				return err
			}
			return text.Main(ctx, text.Config{Endpoint: endpoint, Logger: log})
		}), nil
	case agentWasm:
		return serveAgent(agentWasm, func(ctx context.Context, log *slog.Logger) error {
			if len(args) != 3 {
				return errors.New("lightwork agent wasm DIR: which folder holds the tools?")
			}
			return wasmhost.Main(ctx, wasmhost.Config{Dir: args[2], Log: log})
		}), nil
	case agentMCP:
		return serveAgent(agentMCP, func(ctx context.Context, log *slog.Logger) error {
			cfg, err := mcp.ParseArgs(args[2:])
			if err != nil {
				return err
			}
			cfg.Logger = log
			return mcp.Main(ctx, cfg)
		}), nil
	}

	return nil, advice.Usage("lightwork agent --help names them; lightwork agents manages those of a node", "no agent of this program is called %q", args[1])
}

// serveAgent is an agent's whole process.
func serveAgent(name string, serve func(context.Context, *slog.Logger) error) func(context.Context, io.Writer) int {
	return func(ctx context.Context, stderr io.Writer) int {
		if err := serve(ctx, slog.New(slog.NewTextHandler(stderr, nil))); err != nil {
			fmt.Fprintf(stderr, "lightwork agent %s: %v\n", name, err)
			return advice.ExitFailed
		}
		return advice.ExitOK
	}
}

func sandboxInitCommand() []string { return []string{display.Self(), agentCommand, sandboxInit} }
