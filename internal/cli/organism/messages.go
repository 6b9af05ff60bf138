package organism

import (
	"context"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/message"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
)

type pipelineMessagesCmd struct {
	Session string `arg:"" optional:"" help:"Only those of this session: a thread, and all below it."`
	Last    int    `short:"n" default:"100" help:"How many lines, from the newest."`
	JSON    bool   `help:"Print JSON."`
}

// Run prints the log of what agents said to each other. It is read off the
// journal, beside the running node.
func (c pipelineMessagesCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	if c.Last < 1 {
		return advice.Usage("", "-n must be 1 or more")
	}
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	lines, err := conf.Databases().Messages(ctx, c.Session, c.Last)
	if err != nil || lines == nil {
		return err
	}
	if c.JSON {
		return app.PrintJSON(s.Out, lines)
	}

	w := app.NewTable(s.Out)
	fmt.Fprintln(w, "TIME\tAGENT\tMESSAGE\tTYPE\tFROM\tTO\tSTATUS\tMS\tSOURCES\tCONFIDENCE")

	for _, l := range lines {
		agent := l.ToAgent
		if l.Direction == message.Sent {
			agent = l.FromAgent
		}
		fmt.Fprintf(w, "%s\t%s %s\t%.8s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\n", l.Timestamp.Local().Format(time.TimeOnly), display.Printable(agent), l.Direction,
			l.MessageID, l.Type, display.Printable(l.FromAgent), display.Printable(l.ToAgent), l.Status, l.LatencyMs, l.EvidenceCount, l.ConfidenceScore)
	}

	return w.Flush()
}
