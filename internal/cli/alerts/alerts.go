// Package alerts has the commands about what needs the owner's attention.
package alerts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
)

// Cmd is lightwork alerts.
type Cmd struct {
	List listCmd `cmd:"" default:"withargs" help:"List what needs attention now, as the provider has told it."`
	Test testCmd `cmd:"" help:"Tell all channels of alerts: once, that they work."`
}

type listCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run lists the alerts that are raised.
func (c listCmd) Run(s *app.Streams, g *app.Globals) error {
	n, err := app.Open(s, g)
	if err != nil {
		return err
	}
	list, err := n.Alerts()
	if err != nil {
		return advice.Hint(fmt.Errorf("read the alerts: %w", err), "lightwork doctor looks at the node itself")
	}
	if c.JSON {
		return app.PrintJSON(s.Out, list)
	}

	w := app.NewTable(s.Out)
	fmt.Fprintln(w, "SINCE\tKIND\tWHAT")
	for _, a := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\n", a.Since.Local().Format(time.DateTime), display.Printable(string(a.Kind)), display.Printable(a.Text))
	}
	return w.Flush()
}

type testCmd struct{}

// Run tells each channel that it works, and says which took it.
func (testCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	n, err := app.Open(s, g)
	if err != nil {
		return err
	}
	told, err := n.TestAlerts(ctx)
	if err != nil {
		return err
	}
	if len(told) == 0 {
		return advice.Usage("name a command, a webhook or your key under alerts in the configuration", "nobody is told of alerts")
	}

	var deaf []string
	for _, ch := range told {
		what := "was told"
		if ch.Err != nil {
			what, deaf = "was not told: "+ch.Err.Error(), append(deaf, ch.Channel)
		}
		fmt.Fprintf(s.Out, "%-8s %s\n", ch.Channel, display.Printable(what))
	}
	if len(deaf) > 0 {
		return advice.Hint(errors.New("not every channel works: "+strings.Join(deaf, ", ")), "alerts in the configuration names them")
	}
	return nil
}
