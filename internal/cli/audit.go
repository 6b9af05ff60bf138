package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/kernel"
)

const (
	auditQueue = 4096
	auditBatch = 256
)

// auditTrail writes what the supervisor reports into the node's append-only
// audit table: many lines a transaction, and without holding up a call.
type auditTrail struct {
	k     *kernel.Kernel
	log   *slog.Logger
	lines chan supervisor.AuditEvent
	done  chan struct{}
}

func newAuditTrail(k *kernel.Kernel, log *slog.Logger) *auditTrail {
	t := &auditTrail{k: k, log: log, lines: make(chan supervisor.AuditEvent, auditQueue), done: make(chan struct{})}
	go t.serve()
	return t
}

// add takes a line; one for which there is no room is logged instead.
func (t *auditTrail) add(e supervisor.AuditEvent) {
	line := t.log.With("event", e.Type, "agent", e.AgentID)
	if e.RequestID != "" {
		line = line.With("request", e.RequestID, "tool", e.Tool)
	}
	line.Info("agent", "run", e.RunID, "code", e.Code, "reason", e.Reason)
	select {
	case t.lines <- e:
	default:
		line.Error("audit line lost: too many at once")
	}
}

// close writes what is left. Nothing may be added afterwards.
func (t *auditTrail) close() {
	close(t.lines)
	<-t.done
}

func (t *auditTrail) serve() {
	defer close(t.done)
	for e := range t.lines {
		batch := []supervisor.AuditEvent{e}
		for len(batch) < auditBatch && len(t.lines) > 0 {
			batch = append(batch, <-t.lines)
		}
		err := t.k.Update(context.Background(), func(tx *kernel.Tx) error {
			for _, e := range batch {
				if err := tx.Audit(e.Type, e.AgentID, auditLine(e)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.log.Error("audit lines lost", "lines", len(batch), "err", err)
		}
	}
}

// auditMeta is what an audit line of an agent says beside its type.
type auditMeta struct {
	RunID     string `json:"run_id,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Tool      string `json:"tool,omitempty"`
	CallID    string `json:"call_id,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	Directive string `json:"directive,omitempty"`
	Code      string `json:"code,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Size      int64  `json:"size,omitempty"`
	Limit     int64  `json:"limit,omitempty"`
}

func auditLine(e supervisor.AuditEvent) auditMeta {
	return auditMeta{
		RunID: e.RunID, PID: e.PID, Tool: e.Tool, CallID: e.CallID, RequestID: e.RequestID, Directive: e.Causation,
		Code: e.Code, Reason: e.Reason, Size: e.Size, Limit: e.Limit,
	}
}

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
	conf, err := openNode(s, g)
	if err != nil {
		return err
	}
	lines, err := conf.lastAudit(ctx, c.Agent, c.Lines)
	if err != nil {
		return err
	}
	if c.JSON {
		views := []auditView{}
		for _, l := range lines {
			views = append(views, auditView{l.At, l.EventType, l.Subject, l.Metadata})
		}
		return app.PrintJSON(s.Out, views)
	}
	w := app.NewTable(s.Out)
	for _, l := range lines {
		var m auditMeta
		_ = json.Unmarshal(l.Metadata, &m) // lines of other kinds have other details
		var details []string
		for _, d := range []struct{ name, value string }{
			{"tool", m.Tool}, {"request", display.Short(m.RequestID)}, {"directive", m.Directive}, {"code", m.Code}, {"", m.Reason},
		} {
			if d.value != "" {
				details = append(details, strings.TrimSpace(d.name+" "+d.value))
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.At.Local().Format(time.DateTime), l.EventType, display.Printable(l.Subject), display.Printable(strings.Join(details, ", ")))
	}
	return w.Flush()
}
