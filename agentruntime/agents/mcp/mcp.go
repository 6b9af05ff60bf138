// Package mcp is the built-in agent that hosts a Model Context Protocol server:
// it starts the server as a child process, speaks MCP with it over its stdin
// and stdout, and offers its tools over the runtime protocol.
//
// The server gets calls of its tools and nothing else. Requests of its own for
// a model (sampling), the user (elicitation) or a list of folders (roots) are
// refused: the host advertises none of them, and an agent must not get at a
// model or a person through this door. Prompts and resources are not offered.
//
// What the server says is hostile until checked: a message is at most 4 MiB,
// its schemas must compile as the node compiles them, its notifications wait in
// bounded queues, and its texts are made safe before they go anywhere.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
)

// Version is what the agent says about itself, and to the server.
const Version = "1.0.0"

// startTimeout is from the start of the server until its tools are known. The
// node gives an agent 10 s for all of its start; ending first names the reason.
const startTimeout = 9 * time.Second

var (
	// ErrServerEnded means that the server is gone or that its connection
	// broke. The node starts the agent again, and with it the server.
	ErrServerEnded = errors.New("mcp: the server ended")
	// ErrToolsChanged means that the server offers other tools than before. The
	// agent's next process registers them.
	ErrToolsChanged = errors.New("mcp: the server's tools changed")
	// ErrNoAnswer means that the server did not introduce itself and list its
	// tools in time.
	ErrNoAnswer = errors.New("mcp: the server does not answer")
	// ErrRefused means that the server answered the introduction with an error.
	ErrRefused = errors.New("mcp: the server refused to initialize")
	// ErrUsage is wrapped by everything that is wrong with a Config or with the
	// arguments that make one.
	ErrUsage = errors.New("mcp: bad configuration")
)

// Config names the server.
type Config struct {
	// Command is the program, looked up in PATH if it is a bare name, and its
	// arguments. No shell sees them.
	Command []string
	// Env names the variables that the server gets from the agent's
	// environment, besides PATH and HOME.
	Env []string
	// Dir is the server's working directory; empty: the agent's.
	Dir string
	// Logger gets diagnostics and what the server writes to its stderr. Nil:
	// nothing is logged.
	Logger *slog.Logger
}

// nodeEnv marks the variables that the node sets; one of them is the session
// token, which is the agent's alone.
const nodeEnv = "OPENSENTIENCE_"

func (c *Config) validate() error {
	if len(c.Command) == 0 || c.Command[0] == "" {
		return fmt.Errorf("%w: no command", ErrUsage)
	}

	for _, name := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.HasPrefix(name, nodeEnv) {
			return fmt.Errorf("%w: environment variable %q is not allowed", ErrUsage, name)
		}
	}

	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// environ is the server's environment.
func (c *Config) environ() []string {
	env := []string{}
	for _, name := range append([]string{"PATH", "HOME"}, c.Env...) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// ParseArgs reads "[--env NAME]... -- COMMAND ARGS".
func ParseArgs(args []string) (Config, error) {
	var cfg Config
	for len(args) > 0 {
		switch {
		case args[0] == "--":
			cfg.Command = args[1:]
			return cfg, cfg.validate()
		case args[0] == "--env" && len(args) > 1:
			cfg.Env = append(cfg.Env, args[1])
			args = args[2:]
		default:
			return Config{}, fmt.Errorf("%w: unexpected %q: want [--env NAME]... -- COMMAND ARGS", ErrUsage, args[0])
		}
	}

	return Config{}, fmt.Errorf("%w: no command: want [--env NAME]... -- COMMAND ARGS", ErrUsage)
}

// Main starts the server, connects to the node that launched the process (the
// environment says where) and serves calls until ctx ends or the node says
// goodbye; it then returns nil. Every other end is an error that wraps one of
// the above, or comes from package agent. The server and all of its process
// group are gone when it returns.
func Main(ctx context.Context, cfg Config) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	hideEnvironment(cfg.Logger)
	p, err := startServer(&cfg)
	if err != nil {
		return err
	}
	h := newHost(p, cfg.Logger)
	defer h.close()

	tools, err := h.open(ctx)
	if err != nil {
		return err
	}
	session, err := agent.Connect(ctx, agent.Config{Version: Version, Tools: tools, Log: cfg.Logger})
	if err != nil {
		return err
	}
	return h.serve(ctx, session)
}
