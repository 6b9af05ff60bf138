// Package organism has the commands that ask an organism, and show its messages and
// pipelines.
package organism

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
)

// AskCmd is lightwork ask.
type AskCmd struct {
	Text     []string `arg:"" help:"What you need, in your words; for a listener that is a tool, its input as JSON."`
	Profile  string   `help:"The profile of the organism to ask under." required:"" placeholder:"P"`
	Listener string   `help:"Whom to ask; left out, the one that fits best of those that the profile reaches."`
	Talk     string   `name:"conversation" help:"Go on with the conversation of this name: a listener that thinks is shown what was said." placeholder:"NAME"`
	JSON     bool     `help:"Print the answer as JSON."`
}

// Run asks the running node's organism. What is written on the way goes to
// standard error, the answer to standard output.
func (c AskCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	daemon, err := node.AgentsOf(conf).Dial(ctx)
	if err != nil {
		return err
	}
	out, err := daemon.Ask(ctx, host.AskRequest{Profile: c.Profile, Listener: c.Listener, Conversation: c.Talk, Text: strings.Join(c.Text, " ")}, func(e host.CallEvent) {
		if e.Channel != string(wire.Stdout) { // that is the answer, which follows as a whole
			fmt.Fprint(s.Err, display.Printable(e.Text))
		}
	})
	if err != nil {
		return advice.Hint(err, askHint(err))
	}
	var answer struct{ Text string }
	if !c.JSON && json.Unmarshal(out, &answer) == nil && answer.Text != "" {
		_, err := fmt.Fprintln(s.Out, display.Printable(answer.Text))
		return err
	}
	return app.PrintJSON(s.Out, out)
}

// askHint is "" where the failure says itself what to change.
func askHint(err error) string {
	var failed *host.CallError
	switch {
	case !errors.As(err, &failed):
		return ""
	case strings.HasPrefix(failed.Code, "route."):
		return "lightwork pipeline show says which profiles there are, and what each reaches"
	case failed.Code == wire.CodeUnavailable:
		return "lightwork agents list says why an agent does not run"
	case strings.HasPrefix(failed.Code, "agent."):
		return "docs/build-agents/thinking-agents.md lists the codes; lightwork agents logs com.lightwork.text says what the endpoint answered"
	}

	return ""
}
