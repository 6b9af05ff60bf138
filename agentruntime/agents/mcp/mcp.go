// Package mcp is the built-in agent that hosts a Model Context Protocol server. It
// starts the server as a child process, speaks MCP with it over stdin and stdout,
// and offers its tools over the runtime protocol.
//
// The server receives calls of its tools and nothing else. Its own requests for a
// model (sampling), the user (elicitation) or a list of folders (roots) are
// refused: the host does not announce these capabilities, and an agent must not
// reach a model or a person through them. Prompts and resources are not supported.
//
// Messages from the server are untrusted: they are at most 4 MiB long, schemas must
// compile as the node compiles them, notifications wait in bounded queues, and text
// is made safe before it is passed on.
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

// Version is the agent's version, sent to the node and to the server.
const Version = "1.0.0"

// startTimeout is the time from the start of the server until its tools are known.
// The node gives an agent 10 s to start; ending before that lets the error name the
// reason.
const startTimeout = 9 * time.Second

var (
	// ErrServerEnded means that the server ended or its connection broke. The node
	// restarts the agent, and with it the server.
	ErrServerEnded = errors.New("mcp: the server ended")
	// ErrToolsChanged means that the server's tools have changed. The agent ends,
	// and its next process registers the new tools.
	ErrToolsChanged = errors.New("mcp: the server's tools changed")
	// ErrNoAnswer means that the server did not answer initialize and list its
	// tools in time.
	ErrNoAnswer = errors.New("mcp: the server does not answer")
	// ErrRefused means that the server answered initialize with an error.
	ErrRefused = errors.New("mcp: the server refused to initialize")
	// ErrUsage is wrapped by every error about a Config or the arguments of
	// [ParseArgs].
	ErrUsage = errors.New("mcp: bad configuration")
)

// Config describes the server.
type Config struct {
	// Command is the program, looked up in PATH if it is a bare name, and its
	// arguments. It is not run through a shell.
	Command []string
	// Env names the environment variables that the server inherits from the agent,
	// besides PATH and HOME.
	Env []string
	// Dir is the server's working directory; "" means the agent's.
	Dir string
	// Logger receives diagnostics and the server's stderr. If it is nil, nothing is
	// logged.
	Logger *slog.Logger
}

// nodeEnv is the prefix of the variables that the node sets. One of them is the
// session token, which the server must not see.
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

// environ returns the server's environment.
func (c *Config) environ() []string {
	env := []string{}
	for _, name := range append([]string{"PATH", "HOME"}, c.Env...) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// ParseArgs parses "[--env NAME]... -- COMMAND ARGS".
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
// environment says where), and serves calls until ctx ends or the node ends the
// session; then it returns nil. Any other end is an error that wraps one of the
// above or comes from package agent. When Main returns, the server's process group
// has ended.
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
