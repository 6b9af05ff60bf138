package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
)

// StatusCmd is lightwork status.
type StatusCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run shows the roles of the running node. The exit code tells whether all of them run.
func (c StatusCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	list, err := conf.Roles(ctx)
	if errors.Is(err, host.ErrNoNode) {
		return advice.Hint(host.ErrNoNode, "lightwork run starts one")
	}
	if err != nil {
		return err
	}

	failed := false
	for i := range list {
		failed = failed || list[i].State == node.RoleFailed
		list[i].Why, list[i].Hint = app.Say(list[i].Why), g.Spell(list[i].Hint)
	}
	if c.JSON {
		err = app.PrintJSON(s.Out, list)
	} else {
		err = printRoles(s.Out, list)
	}
	if err == nil && failed {
		return advice.Exit(advice.ExitFailed)
	}
	return err
}

// printRoles writes a line for each role, and the next step for one that failed.
func printRoles(w io.Writer, list []node.RoleStatus) error {
	for _, r := range list {
		line := fmt.Sprintf("%-9s %-8s since %s", r.Role, r.State, r.Since.Local().Format(time.DateTime))
		if r.Why != "" {
			line += "  " + display.Printable(r.Why)
		}
		if !r.Again.IsZero() {
			line += "; tried again at " + r.Again.Local().Format(time.TimeOnly)
		}
		if r.Hint != "" {
			line += "\n          hint: " + display.Printable(r.Hint)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
