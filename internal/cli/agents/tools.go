package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
)

// ToolsCmd is lightwork tools.
type ToolsCmd struct {
	List     toolsListCmd     `cmd:"" help:"List the tools that the agents of the running node offer."`
	Describe toolsDescribeCmd `cmd:"" help:"Show a tool's schemas."`
	Call     agentsCallCmd    `cmd:"" help:"Call one tool."`
}

type toolsListCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run lists tools.
func (c toolsListCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	tools, err := toolsOf(ctx, s, g)
	if err != nil {
		return err
	}
	if c.JSON {
		return app.PrintJSON(s.Out, tools)
	}

	w := app.NewTable(s.Out)
	fmt.Fprintln(w, "TOOL\tCALLABLE\tSIDE EFFECTS\tDIRECTIVE\tDESCRIPTION")
	for _, t := range tools {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.ToolID, yes(t.Routable), yes(t.SideEffects), yes(t.RequiresDirective),
			display.Printable(strings.ReplaceAll(t.Description, "\n", " ")))
	}

	return w.Flush()
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func toolsOf(ctx context.Context, s *app.Streams, g *app.Globals) ([]supervisor.ToolInfo, error) {
	conf, err := app.Open(s, g)
	if err != nil {
		return nil, err
	}
	daemon, err := node.AgentsOf(conf).Dial(ctx)
	if err != nil {
		return nil, err
	}
	return daemon.Tools(ctx)
}

type toolsDescribeCmd struct {
	Tool string `arg:"" help:"AGENT/TOOL."`
	JSON bool   `help:"Print JSON, which it does without it too."`
}

// Run prints one tool as JSON.
func (c toolsDescribeCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	tools, err := toolsOf(ctx, s, g)
	if err != nil {
		return err
	}
	for _, t := range tools {
		if string(t.ToolID) == c.Tool {
			return app.PrintJSON(s.Out, t)
		}
	}
	return advice.Usage("lightwork tools list shows them", "no tool %q", c.Tool)
}

type agentsCallCmd struct {
	Tool    string        `arg:"" help:"AGENT/TOOL; with --dir TOOL alone will do."`
	Input   []string      `arg:"" optional:"" help:"The input, a JSON object, {} if left out; - reads it from standard input."`
	Timeout time.Duration `help:"Give up after this time; the agent's own limit by default."`
	Approve bool          `help:"Allow the call of a tool that needs an approved intent."`
	Dir     string        `help:"Start the agent in this folder for the one call, with all that its manifest asks for; no node is needed." type:"existingdir"`

	Unconfined bool     `help:"With --dir: let the agent reach all that you can."`
	EnvFrom    []string `name:"env-from" help:"With --dir: hand on this variable of your environment, as env_from in the configuration does; may be repeated." placeholder:"NAME" sep:"none"`
}

// Run calls a tool; what it streams goes to standard error, its output to
// standard output.
func (c agentsCallCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	req := host.CallRequest{TimeoutMS: c.Timeout.Milliseconds(), Approve: c.Approve}
	var ok bool
	var err error

	req.AgentID, req.Tool, ok = wire.ToolID(c.Tool).Split()
	switch {
	case !ok && c.Dir == "":
		return notATool(c.Tool, c.Input)
	case !ok:
		req.AgentID, req.Tool = "", c.Tool
	}

	if len(c.EnvFrom) > 0 && c.Dir == "" {
		return advice.Usage("agents[].env_from in the configuration names them for a node's agent", "--env-from goes with --dir")
	}
	if req.Input, err = c.input(s); err != nil {
		return err
	}

	emit := func(e host.CallEvent) {
		if e.JSON != nil {
			fmt.Fprintln(s.Err, display.Printable(string(e.JSON)))
			return
		}
		fmt.Fprint(s.Err, display.Printable(e.Text))
	}
	var out json.RawMessage
	if c.Dir != "" {
		out, err = c.callOnce(ctx, s, req, emit)
	} else {
		out, err = callNode(ctx, s, g, req, emit)
	}

	if err != nil {
		return err
	}
	return app.PrintJSON(s.Out, out)
}

// notATool answers who wrote the agent and the tool as two words, too.
func notATool(name string, rest []string) error {
	if len(rest) > 0 && !json.Valid([]byte(rest[0])) && rest[0] != "-" {
		input := "{}"
		if len(rest) > 1 {
			input = rest[1]
		}
		return advice.Usage("lightwork agents call "+display.ShellWord(name+"/"+rest[0])+" "+display.ShellWord(input), "%q is not AGENT/TOOL", name)
	}
	return advice.Usage("lightwork tools list shows them", "%q is not AGENT/TOOL", name)
}

// input is what the tool gets.
func (c agentsCallCmd) input(s *app.Streams) (json.RawMessage, error) {
	switch {
	case len(c.Input) == 0:
		return json.RawMessage(`{}`), nil
	case len(c.Input) == 1 && c.Input[0] == "-":
		return io.ReadAll(io.LimitReader(s.In, 5<<20))
	case len(c.Input) > 1 || !json.Valid([]byte(c.Input[0])):
		return nil, advice.Usage("one word in quotes, for example '{\"name\":\"Ada\"}'", "the input is not JSON")
	}
	return json.RawMessage(c.Input[0]), nil
}

func callNode(ctx context.Context, s *app.Streams, g *app.Globals, req host.CallRequest, emit func(host.CallEvent)) (json.RawMessage, error) {
	conf, err := app.Open(s, g)
	if err != nil {
		return nil, err
	}
	daemon, err := node.AgentsOf(conf).Dial(ctx)
	if err != nil {
		return nil, err
	}
	out, err := daemon.Call(ctx, req, emit)
	return out, callHint(err)
}

func callHint(err error) error {
	var failed *host.CallError
	if !errors.As(err, &failed) {
		return err
	}

	switch failed.Code {
	case wire.CodeRouteNotFound:
		return advice.Hint(err, "lightwork tools list shows what can be called; agents[].tools in the configuration names it")
	case wire.CodeUnauthorized:
		return advice.Hint(err, "--approve allows this one call")
	case wire.CodeInvalidInput:
		return advice.Hint(err, "lightwork tools describe shows the input's schema")
	}
	return err
}

// env is what the agent finds in its environment beside what every agent has.
func (c agentsCallCmd) env() ([]string, error) {
	var env []string
	for _, name := range c.EnvFrom {
		if !config.ValidEnvName(name) {
			return nil, advice.Usage("the name alone: its value comes from your environment", "--env-from: %q is no name of a variable, or one of the protocol's", name)
		}
		value, ok := os.LookupEnv(name)
		if !ok {
			return nil, advice.Usage("set it for this command: "+name+"=... lightwork agents call ...", "--env-from: the environment has no %s", name)
		}
		env = append(env, name+"="+value)
	}

	return env, nil
}

// folderHintMax bounds in characters what a hint shows of an agent's words.
const folderHintMax = 300

// callOnce runs the agent of a folder for one call, because the operator asked
// for just that: no approval is looked for, and none is made.
func (c agentsCallCmd) callOnce(ctx context.Context, s *app.Streams, req host.CallRequest, emit func(host.CallEvent)) (json.RawMessage, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	m, err := manifest.Read(filepath.Join(dir, manifest.FileName))
	if err != nil {
		return nil, advice.Usage("docs/build-agents/agents.md says what the file must hold", "%s: %w", dir, err)
	}
	sockets, err := os.MkdirTemp("", "lw")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(sockets)

	sup, err := supervisor.New(supervisor.Config{
		SocketDir: filepath.Join(sockets, "s"), CoreVersion: s.Version, Log: slog.New(slog.DiscardHandler),
		OnLog: func(l supervisor.LogLine) { fmt.Fprintf(s.Err, "%s: %s\n", l.Stream, display.Printable(l.Text)) },
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), node.StopTime)
		defer cancel()
		_ = sup.Stop(stop)
	}()

	if req.AgentID != "" && req.AgentID != m.ID {
		return nil, advice.Usage("leave the agent out: lightwork agents call --dir "+display.ShellWord(c.Dir)+" "+display.ShellWord(req.Tool), "%s is another agent than %s in %s", req.AgentID, m.ID, dir)
	}
	env, err := c.env()
	if err != nil {
		return nil, err
	}
	spec := host.SpecOf(&host.Installed{Dir: dir, Tools: []string{req.Tool}, Env: env, Unconfined: c.Unconfined}, m, m.Permissions)
	spec.Restart.Never = true
	if err := sup.Start(ctx, spec); err != nil {
		return nil, advice.Hint(err, "lightwork agents test "+dir+" finds out what is wrong with it")
	}
	h := host.New(host.Config{Supervisor: sup, Directive: func(context.Context, string, string) (string, error) { return "human-" + wire.NewID(), nil }})
	req.AgentID = m.ID
	out, failed := h.Call(ctx, req, emit)
	if failed != nil {
		return nil, folderHint(failed, sup, m.ID, req.Tool)
	}
	return out, nil
}

// folderHint is the next step where no node knows the agent: what it offers is
// told here.
func folderHint(failed *host.CallError, sup *supervisor.Supervisor, agent, tool string) error {
	list, err := sup.Tools(agent)
	if err != nil {
		return failed
	}
	names := make([]string, len(list))
	for i, t := range list {
		_, names[i], _ = t.ToolID.Split()
	}

	i := slices.Index(names, tool)
	switch {
	case i < 0 && len(list) > 0:
		return advice.Hint(failed, "its tools are "+display.Cut(strings.Join(names, " "), folderHintMax))
	case i >= 0 && failed.Code == wire.CodeInvalidInput:
		return advice.Hint(failed, "its input is "+display.Cut(string(list[i].InputSchema), folderHintMax))
	}

	return failed
}
