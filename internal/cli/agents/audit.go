package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
)

type agentsAuditCmd struct {
	Agent string `arg:"" optional:"" help:"Only this agent's lines."`
	Lines int    `short:"n" help:"How many of the last lines." default:"100"`
	JSON  bool   `help:"Print JSON."`
}

// auditView is an audit line as --json shows it.
type auditView struct {
	At      time.Time       `json:"at"`
	Event   string          `json:"event"`
	Subject string          `json:"subject"`
	Details json.RawMessage `json:"details"`
}

// Run prints the end of the audit trail; it holds no payload and no secret.
func (c agentsAuditCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	lines, err := conf.Databases().LastAudit(ctx, c.Agent, c.Lines)
	if err != nil {
		return err
	}
	if c.JSON {
		views := []auditView{}
		for _, l := range lines {
			views = append(views, auditView(l))
		}
		return app.PrintJSON(s.Out, views)
	}

	w := app.NewTable(s.Out)
	for _, l := range lines {
		m := l.Call()
		var details []string
		for _, d := range []struct{ name, value string }{
			{"tool", m.Tool}, {"request", display.Short(m.RequestID)}, {"directive", m.Directive}, {"code", m.Code}, {"", m.Reason},
		} {
			if d.value != "" {
				details = append(details, strings.TrimSpace(d.name+" "+d.value))
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.At.Local().Format(time.DateTime), l.Event, display.Printable(l.Subject), display.Printable(strings.Join(details, ", ")))
	}

	return w.Flush()
}
