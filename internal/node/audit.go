package node

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/internal/store"
)

const (
	auditQueue = 4096
	auditBatch = 256
)

// auditTrail writes what the supervisor reports into the node's append-only
// audit table: many lines a transaction, and without holding up a call.
type auditTrail struct {
	k     *store.Store
	log   *slog.Logger
	lines chan supervisor.AuditEvent
	done  chan struct{}
}

func newAuditTrail(k *store.Store, log *slog.Logger) *auditTrail {
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
		err := t.k.Update(context.Background(), func(tx *store.Tx) error {
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

// AuditLine is a line of the audit trail. It holds no payload and no secret.
type AuditLine struct {
	At      time.Time
	Event   string // what happened
	Subject string // to what: an agent, a request, a thread
	Details json.RawMessage
}

// Call is what a line about a call of an agent says of it; lines of other kinds have
// other details.
func (l AuditLine) Call() (m AuditMeta) {
	_ = json.Unmarshal(l.Details, &m)
	return m
}

// AuditMeta is what an audit line of an agent says beside its type.
type AuditMeta struct {
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

func auditLine(e supervisor.AuditEvent) AuditMeta {
	return AuditMeta{
		RunID: e.RunID, PID: e.PID, Tool: e.Tool, CallID: e.CallID, RequestID: e.RequestID, Directive: e.Causation,
		Code: e.Code, Reason: e.Reason, Size: e.Size, Limit: e.Limit,
	}
}
